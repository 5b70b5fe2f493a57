package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
)

// SessionRef names a session: the caller's name of it, at an agent.
type SessionRef struct {
	AgentID   uuid.UUID
	SessionID string
}

// Standing says who answers in a session now.
type Standing string

// The standings.
const (
	SessionOpen Standing = "open"
	SessionBusy Standing = "busy" // the agent answers a message
	SessionHeld Standing = "held" // a person has taken over
)

// Session is a conversation with an agent. One whose SessionID is "" has one message, and is in no
// list.
type Session struct {
	ID        uuid.UUID
	AgentID   uuid.UUID
	SessionID string
	Customer  *uuid.UUID
	Tainted   bool
	// TaintSources say what has tainted it.
	TaintSources []string
	HeldBy       *uuid.UUID
	HeldAt       *time.Time
	// EscalatedAt is since when a person is asked for, while nobody has taken over.
	EscalatedAt *time.Time
	// Turns counts the messages, and Version is that of the agent at the last one.
	Turns   int32
	Version int32
	Busy    bool
	// CreatedAt and UpdatedAt are the times of the first message and of what was said last.
	CreatedAt, UpdatedAt time.Time
}

// Standing returns who answers in the session.
func (s Session) Standing() Standing {
	switch {
	case s.HeldBy != nil:
		return SessionHeld
	case s.Busy:
		return SessionBusy
	}
	return SessionOpen
}

func sessionOf(agent uuid.UUID, r dbsqlc.GetConversationRow) Session {
	return Session{
		ID: r.ID, AgentID: agent, SessionID: db.Text(r.SessionID), Customer: r.Customer, Tainted: r.Tainted, TaintSources: r.TaintSources, HeldBy: r.HeldBy, HeldAt: db.UTC(r.HeldAt),
		EscalatedAt: db.UTC(r.EscalatedAt), Turns: r.Turns, Version: r.Version, Busy: r.Busy, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

// SessionFilter narrows a list of sessions. A field with its zero value does not narrow it.
type SessionFilter struct {
	AgentID   uuid.UUID
	Customer  *uuid.UUID
	Standing  Standing
	Escalated *bool
	// Before is the place after which the page begins; nil for the first page.
	Before *SessionPlace
	Limit  int
}

// SessionPlace is the place of a session in the list.
type SessionPlace struct {
	At time.Time
	ID uuid.UUID
}

// Sessions returns the sessions of an agent, the one with the newest message first, and whether there
// are more. The error is AGENT_NOT_FOUND.
func (s *Service) Sessions(ctx context.Context, tenant uuid.UUID, f SessionFilter) (page []Session, more bool, err error) {
	p := dbsqlc.ListConversationsParams{TenantID: tenant, AgentID: f.AgentID, Customer: f.Customer, Escalated: f.Escalated, Most: int32(f.Limit + 1)}
	if f.Standing != "" {
		held, busy := f.Standing == SessionHeld, f.Standing == SessionBusy
		if p.Held = &held; !held {
			p.Busy = &busy
		}
	}
	if f.Before != nil {
		p.BeforeAt, p.BeforeID = &f.Before.At, &f.Before.ID
	}
	rows, err := s.q.ListConversations(ctx, s.d.DB.Reading(tenant, db.ListLimit), p)
	if err != nil {
		return nil, false, fmt.Errorf("conversation: list sessions: %w", err)
	}
	if len(rows) == 0 {
		_, err = s.d.Agents.Agent(ctx, tenant, f.AgentID, 0)
	}
	rows, more = db.Page(rows, f.Limit)
	for _, r := range rows {
		page = append(page, sessionOf(f.AgentID, dbsqlc.GetConversationRow(r)))
	}
	return page, more, err
}

// Session returns a session, also of an agent that was deleted. The error is AGENT_NOT_FOUND or
// SESSION_NOT_FOUND.
func (s *Service) Session(ctx context.Context, tenant uuid.UUID, ref SessionRef) (Session, error) {
	row, err := s.q.GetConversation(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetConversationParams{TenantID: tenant, AgentID: ref.AgentID, SessionID: ref.SessionID})
	switch {
	case db.IsNoRows(err):
		return Session{}, s.noSession(ctx, tenant, ref)
	case err != nil:
		return Session{}, fmt.Errorf("conversation: read a session: %w", err)
	}
	return sessionOf(ref.AgentID, row), nil
}

// noSession returns why there is no such session.
func (s *Service) noSession(ctx context.Context, tenant uuid.UUID, ref SessionRef) error {
	if _, err := s.d.Agents.Agent(ctx, tenant, ref.AgentID, 0); err != nil {
		return err
	}
	return fault.New(fault.CodeSessionNotFound, "The agent has no such session.")
}

// deadlocks is how often withSession tries again after a deadlock. People, messages and a deletion may change a
// session and its messages at once.
const deadlocks = 5

// withSession runs change in a transaction in which nothing else changes who answers in the session,
// and returns the session as it is afterwards. After a deadlock, which undoes all of it, it runs again.
func (s *Service) withSession(ctx context.Context, tenant uuid.UUID, ref SessionRef, change func(tx pgx.Tx, found *Session) error) (found Session, err error) {
	unknown := false
	try := func(tx pgx.Tx) error {
		row, err := s.q.LockAgentSession(ctx, tx, dbsqlc.LockAgentSessionParams{TenantID: tenant, AgentID: ref.AgentID, SessionID: ref.SessionID})
		if unknown = db.IsNoRows(err); unknown {
			return nil
		}
		if err != nil {
			return fmt.Errorf("conversation: lock a session: %w", err)
		}
		found = sessionOf(ref.AgentID, dbsqlc.GetConversationRow(row))
		return change(tx, &found)
	}
	err = s.d.DB.InTenant(ctx, tenant, try)
	for n := 0; n < deadlocks && db.IsDeadlock(err); n++ {
		err = s.d.DB.InTenant(ctx, tenant, try)
	}
	if err == nil && unknown {
		err = s.noSession(ctx, tenant, ref)
	}
	return found, err
}

// DeleteSession deletes a session with all that was said in it, the executions of its messages and
// their Idempotency-Keys. The runs of its calls stay. It refuses with AGENT_NOT_FOUND,
// SESSION_NOT_FOUND, CONFLICT where a message has not ended or a person has taken over, and with what
// expect returns.
func (s *Service) DeleteSession(ctx context.Context, who actor.Actor, ref SessionRef, expect fault.Expect[Session]) error {
	_, err := s.withSession(ctx, who.TenantID, ref, func(tx pgx.Tx, found *Session) error {
		if err := expect.Check(*found); err != nil {
			return err
		}
		if found.HeldBy != nil {
			return fault.New(fault.CodeConflict, "A person has taken over the session. Hand it back before you delete it.")
		}
		open, err := s.q.OpenTurns(ctx, tx, dbsqlc.OpenTurnsParams{TenantID: who.TenantID, Conversation: found.ID, Most: 1})
		if err != nil {
			return fmt.Errorf("conversation: open messages: %w", err)
		}
		if len(open) > 0 {
			f := fault.New(fault.CodeConflict, "A message of the session has not ended. Wait for it, or cancel its execution, before you delete the session.")
			f.ExecutionID = open[0].ExecutionID
			return f
		}
		maps, err := s.q.OpenMapsOfConversation(ctx, tx, dbsqlc.OpenMapsOfConversationParams{TenantID: who.TenantID, Conversation: found.ID, Most: 1})
		if err != nil {
			return fmt.Errorf("conversation: open Maps: %w", err)
		}
		if len(maps) > 0 {
			f := fault.New(fault.CodeConflict, "A Map of the session has not ended. Wait for it, or cancel its execution, before you delete the session.")
			f.ExecutionID = maps[0]
			return f
		}
		if _, err := s.q.DeleteConversations(ctx, tx, dbsqlc.DeleteConversationsParams{TenantID: who.TenantID, Ids: []uuid.UUID{found.ID}}); err != nil {
			return fmt.Errorf("conversation: delete a session: %w", err)
		}
		return audit.Append(ctx, tx, s.recordOf(who, audit.AgentSessionDeleted, *found).With(map[string]any{"messages": found.Turns}))
	})
	return err
}

// recordOf returns the audit record of what a caller does with a session.
func (s *Service) recordOf(who actor.Actor, action audit.Action, of Session) audit.Record {
	rec := audit.Change(who, action, audit.SubjectAgent, of.AgentID.String())
	rec.SessionID = db.Optional(of.SessionID)
	return rec
}

// Said is one thing that was said in a session.
type Said struct {
	ID uuid.UUID
	// Place is its place in the session; see Transcript.
	Place int64
	// From is KindCustomer, KindAgent or KindPerson. Author is the user, where a person has said it.
	From   Kind
	Author *uuid.UUID
	Text   string
	At     time.Time
	// ExecutionID is that of the message that it is, or answers; "" where a person has said it.
	ExecutionID string
	// Unanswered: it is a message to which nobody has replied yet.
	Unanswered bool
	// Runs are those of the calls that a customer's message has led to, and Feedback is about the reply
	// of an agent.
	Runs     []Run
	Feedback []Feedback

	turn uuid.UUID
}

// unansweredFrom is before the places of messages that nobody has replied to: they have no entry yet,
// and are after all that have. unansweredMost is how many there can be.
const (
	unansweredFrom = int64(1) << 40
	unansweredMost = queuedMost + 1
)

// Transcript returns what was said in a session, the newest first, and whether there is more. before
// is the place of the last item of the page before; 0 for the first page.
func (s *Service) Transcript(ctx context.Context, tenant uuid.UUID, of Session, before int64, limit int) (page []Said, more bool, err error) {
	key, err := s.d.Keys.Key(ctx, tenant)
	if err != nil {
		return nil, false, fmt.Errorf("conversation: %w", err)
	}
	before = cmp.Or(before, math.MaxInt64)
	b := &db.Batch{}
	open := db.Queue(b, s.q.UnansweredTurns, dbsqlc.UnansweredTurnsParams{TenantID: tenant, Conversation: of.ID, Most: unansweredMost})
	rows := db.Queue(b, s.q.ListEntries, dbsqlc.ListEntriesParams{TenantID: tenant, Conversation: of.ID, Before: int32(min(before, math.MaxInt32)), Most: int32(limit + 1)})
	if err := s.d.DB.SendReading(ctx, tenant, db.ListLimit, b); err != nil {
		return nil, false, fmt.Errorf("conversation: transcript: %w", err)
	}
	for i, r := range slices.Backward(open.Value) {
		place := unansweredFrom + int64(i)
		if place >= before {
			continue
		}
		text, err := key.Open(datakey.Place{Tenant: tenant, Row: r.ID, Field: datakey.TurnMessage}, r.Message)
		if err != nil {
			return nil, false, fmt.Errorf("conversation: message of %s: %w", r.ID, err)
		}
		page = append(page, Said{
			ID: r.ID, Place: place, From: KindCustomer, Text: string(text), At: Turn{ID: r.ID}.CreatedAt(), ExecutionID: executionIDOf(r.ID), Unanswered: true, turn: r.ID,
		})
	}
	for _, r := range rows.Value {
		one, err := saidIn(key, tenant, r)
		if err != nil {
			return nil, false, fmt.Errorf("conversation: entry %d of %s: %w", r.Seq, of.ID, err)
		}
		page = append(page, one)
	}
	page, more = db.Page(page, limit)
	return page, more, s.addTo(ctx, key, tenant, page)
}

// saidIn reads an entry of a session.
func saidIn(key *datakey.Key, tenant uuid.UUID, r dbsqlc.ListEntriesRow) (one Said, err error) {
	e, err := openEntry(key, tenant, r.ID, r.Body)
	if err != nil {
		return one, err
	}
	one = Said{ID: r.ID, Place: int64(r.Seq), From: Kind(r.Kind), Author: r.Author, Text: e.Text, At: r.At.UTC()}
	switch one.From {
	case KindCustomer:
		if text, ok := agentloop.CustomerText(e); ok {
			one.Text = text
		}
	case KindPerson:
		if text, ok := agentloop.PersonText(e); ok {
			one.Text = text
		}
	default: // an agent's reply is as it was written
	}
	if r.Turn != nil {
		one.turn, one.ExecutionID = *r.Turn, executionIDOf(*r.Turn)
	}
	return one, nil
}

// addTo adds the runs of calls to the messages of customers, and feedback to the replies of agents.
func (s *Service) addTo(ctx context.Context, key *datakey.Key, tenant uuid.UUID, page []Said) error {
	var asked, replied []uuid.UUID
	for _, one := range page {
		switch {
		case one.turn == uuid.Nil:
		case one.From == KindCustomer:
			asked = append(asked, one.turn)
		case one.From == KindAgent:
			replied = append(replied, one.turn)
		}
	}
	if len(asked)+len(replied) == 0 {
		return nil
	}
	b := &db.Batch{}
	rows := db.Queue(b, s.q.RunsOfTurns, dbsqlc.RunsOfTurnsParams{TenantID: tenant, Turns: asked})
	rated := db.Queue(b, s.q.FeedbackOfTurns, dbsqlc.FeedbackOfTurnsParams{TenantID: tenant, Turns: replied})
	if err := s.d.DB.SendReading(ctx, tenant, db.ListLimit, b); err != nil {
		return fmt.Errorf("conversation: transcript: %w", err)
	}
	runs, feedback := map[uuid.UUID][]Run{}, map[uuid.UUID][]Feedback{}
	for _, r := range rows.Value {
		list, err := runsOf(r.Runs)
		if err != nil {
			return fmt.Errorf("conversation: runs of %s: %w", r.Turn, err)
		}
		runs[r.Turn] = append(runs[r.Turn], list...)
	}
	for _, r := range rated.Value {
		f, err := feedbackOf(key, tenant, r)
		if err != nil {
			return err
		}
		feedback[r.Turn] = append(feedback[r.Turn], f)
	}
	for i := range page {
		switch page[i].From {
		case KindCustomer:
			page[i].Runs = runs[page[i].turn]
		case KindAgent:
			page[i].Feedback = feedback[page[i].turn]
		default:
		}
	}
	return nil
}

// runsOf returns the runs of an answer in the order of its calls.
func runsOf(raw json.RawMessage) (list []Run, err error) {
	var runs map[int]Run
	if err := json.Unmarshal(raw, &runs); err != nil {
		return nil, err
	}
	for _, n := range slices.Sorted(maps.Keys(runs)) {
		list = append(list, runs[n])
	}
	return list, nil
}

// SessionsOf returns the sessions of a customer with all agents that began before the given time,
// those without a session_id too, in the order of their ids, and whether there are more. after is the
// last one of the page before.
func (s *Service) SessionsOf(ctx context.Context, tenant, customer uuid.UUID, until time.Time, after uuid.UUID, limit int) (page []Session, more bool, err error) {
	rows, err := s.q.SessionsOfCustomer(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.SessionsOfCustomerParams{
		TenantID: tenant, Customer: customer, Until: until, After: after, Most: int32(limit + 1),
	})
	if err != nil {
		return nil, false, fmt.Errorf("conversation: sessions of a customer: %w", err)
	}
	rows, more = db.Page(rows, limit)
	for _, r := range rows {
		page = append(page, sessionOf(r.AgentID, dbsqlc.GetConversationRow{
			ID: r.ID, SessionID: r.SessionID, Customer: r.Customer, Tainted: r.Tainted, TaintSources: r.TaintSources, HeldBy: r.HeldBy, HeldAt: r.HeldAt, EscalatedAt: r.EscalatedAt,
			Turns: r.Turns, Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		}))
	}
	return page, more, nil
}
