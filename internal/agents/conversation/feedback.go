package conversation

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// Rating is what a key or a user thinks of a reply.
type Rating string

// The ratings.
const (
	RatedUp   Rating = "up"
	RatedDown Rating = "down"
)

// MaxComment is how many characters the comment on a reply has at most.
const MaxComment = 2000

// Feedback is what one key or user thinks of the reply to a message.
type Feedback struct {
	// By is the key or the user, as "key:<id>" or "user:<id>".
	By      string
	Rating  Rating
	Comment string // "" for none
	// CreatedAt is when it was given first, UpdatedAt when it was changed last.
	CreatedAt, UpdatedAt time.Time
}

func feedbackPlace(tenant, turn uuid.UUID, by string) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: uuid.NewSHA1(turn, []byte(by)), Field: datakey.TurnFeedback}
}

// Rate stores what the actor thinks of the reply to a message; it replaces what the actor has said of
// it before. The error is CONFLICT where there is no reply.
func (s *Service) Rate(ctx context.Context, who actor.Actor, t Turn, f Feedback) (Feedback, error) {
	if t.Replies == 0 {
		return f, fault.New(fault.CodeConflict, "The agent has not replied to this message, so there is no reply to rate.")
	}
	key, err := s.d.Keys.Key(ctx, t.TenantID)
	if err != nil {
		return f, fmt.Errorf("conversation: rate: %w", err)
	}
	f.By, f.UpdatedAt = who.String(), s.d.Now().UTC()
	p := dbsqlc.PutFeedbackParams{TenantID: t.TenantID, Turn: t.ID, Actor: f.By, Rating: string(f.Rating), Now: f.UpdatedAt}
	if f.Comment != "" {
		p.Comment = sealOptional(key, feedbackPlace(t.TenantID, t.ID, f.By), []byte(f.Comment))
	}
	b := &db.Batch{}
	row := db.Queue(b, s.q.PutFeedback, p)
	rec := audit.Change(who, audit.AgentRated, audit.SubjectAgent, t.AgentID.String()).With(map[string]any{"rating": f.Rating, "comment": f.Comment != ""})
	rec.ExecutionID, rec.SessionID = t.ExecutionID, db.Optional(t.SessionID)
	audit.Queue(b, rec)
	event.Queue(b, event.Event{TenantID: t.TenantID, About: aboutTurn(t), Key: key, Body: event.Rated{Rating: string(f.Rating), Comment: f.Comment, By: f.By}})
	if err := s.d.DB.Send(ctx, t.TenantID, b); err != nil {
		return f, fmt.Errorf("conversation: rate: %w", err)
	}
	f.CreatedAt = row.Value.CreatedAt.UTC()
	return f, nil
}

// Ratings returns what was said of the reply to a message, the oldest first.
func (s *Service) Ratings(ctx context.Context, t Turn) (list []Feedback, err error) {
	key, err := s.d.Keys.Key(ctx, t.TenantID)
	if err != nil {
		return nil, fmt.Errorf("conversation: ratings: %w", err)
	}
	rows, err := s.q.FeedbackOfTurns(ctx, s.d.DB.Reading(t.TenantID, db.ListLimit), dbsqlc.FeedbackOfTurnsParams{TenantID: t.TenantID, Turns: []uuid.UUID{t.ID}})
	if err != nil {
		return nil, fmt.Errorf("conversation: ratings: %w", err)
	}
	for _, r := range rows {
		f, err := feedbackOf(key, t.TenantID, r)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

func feedbackOf(key *datakey.Key, tenant uuid.UUID, r dbsqlc.FeedbackOfTurnsRow) (Feedback, error) {
	f := Feedback{By: r.Actor, Rating: Rating(r.Rating), CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}
	if r.Comment != nil {
		text, err := key.Open(feedbackPlace(tenant, r.Turn, r.Actor), *r.Comment)
		if err != nil {
			return f, fmt.Errorf("conversation: feedback on %s: %w", r.Turn, err)
		}
		f.Comment = string(text)
	}
	return f, nil
}
