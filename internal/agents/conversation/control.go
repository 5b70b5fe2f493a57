package conversation

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/models/model"
	"agentruntime/internal/record/audit"
)

// sees reports whether the actor may see the turn. A key sees its own, a user all of the tenant.
func sees(who actor.Actor, t Turn) bool {
	key := who.KeyID()
	return key == nil || t.KeyID != nil && *t.KeyID == *key
}

// Get returns a turn by its execution_id. The error is EXECUTION_NOT_FOUND where there is none, and
// where the actor may not see it.
func (s *Service) Get(ctx context.Context, who actor.Actor, executionID string) (Turn, error) {
	row, err := s.q.TurnByName(ctx, s.d.DB.Tenant(who.TenantID), dbsqlc.TurnByNameParams{TenantID: who.TenantID, ExecutionID: executionID})
	switch {
	case db.IsNoRows(err):
		return Turn{}, fault.New(fault.CodeExecutionNotFound, "")
	case err != nil:
		return Turn{}, fmt.Errorf("conversation: get: %w", err)
	}
	t, err := s.open(ctx, dbsqlc.GetTurnRow(row))
	if err == nil && !sees(who, t) {
		return Turn{}, fault.New(fault.CodeExecutionNotFound, "")
	}
	return t, err
}

// Cancel asks a turn to end. Calls that were sent go on to their end. The error is CONFLICT where it
// has ended.
func (s *Service) Cancel(ctx context.Context, who actor.Actor, t Turn) (Turn, error) {
	now := s.d.Now()
	first := &db.Batch{}
	db.Queue(first, s.q.LockConversation, dbsqlc.LockConversationParams{TenantID: t.TenantID, ID: t.Conversation})
	rows := db.Queue(first, s.q.CancelTurn, dbsqlc.CancelTurnParams{TenantID: t.TenantID, ID: t.ID, Now: &now})
	unbegun := db.Queue(first, s.q.EndUnbegunTurn, dbsqlc.EndUnbegunTurnParams{TenantID: t.TenantID, ID: t.ID, Now: &now})
	err := s.d.DB.ReadAndWrite(ctx, t.TenantID, first, func() (*db.Batch, error) {
		if len(rows.Value) == 0 {
			return nil, nil //nolint:nilnil // a refused cancel changes nothing
		}
		b := &db.Batch{}
		rec := audit.Change(who, audit.AgentCancelled, audit.SubjectAgent, t.AgentID.String())
		rec.ExecutionID, rec.SessionID = t.ExecutionID, db.Optional(t.SessionID)
		audit.Queue(b, rec)
		return b, nil
	})
	if err != nil {
		return t, fmt.Errorf("conversation: cancel: %w", err)
	}
	if len(rows.Value) == 0 {
		if now, err := s.read(ctx, t.Ref()); err == nil {
			t = now
		}
		return t, fault.Newf(fault.CodeConflict, "The execution has ended: its status is %s.", t.Status)
	}
	after, err := s.read(ctx, t.Ref())
	if err != nil {
		return t, err
	}
	if len(unbegun.Value) > 0 {
		s.tell(after)
		return after, nil
	}
	if _, err := s.d.Engine.Nudge(ctx, t.WorkflowID); err != nil {
		s.d.Log.WarnContext(ctx, "turn not nudged", "execution_id", t.ExecutionID, "error", err)
	}
	return after, nil
}

// Pause notes that a kill switch covers a call of a message that has no reply yet, or no longer does.
func (s *Service) Pause(ctx context.Context, ref flow.TurnRef, paused bool) error {
	p := dbsqlc.PauseTurnParams{TenantID: ref.TenantID, ID: ref.ID, Status: string(StatusPaused), Was: string(StatusRunning)}
	if !paused {
		p.Status, p.Was = p.Was, p.Status
	}
	if err := s.q.PauseTurn(ctx, s.d.DB.Tenant(ref.TenantID), p); err != nil {
		return fmt.Errorf("conversation: pause: %w", err)
	}
	return nil
}

// abandon ends a turn whose workflow was terminated.
func (s *Service) abandon(ctx context.Context, t Turn) error {
	key, err := s.d.Keys.Key(ctx, t.TenantID)
	if err != nil {
		return fmt.Errorf("conversation: %w", err)
	}
	r := Reply{State: Ended, Status: StatusCancelled, Stop: agentloop.Cancelled, Actions: int(t.Actions), Governance: t.Governance}
	if t.Replies == 0 { // otherwise it was written with the first reply
		r.Entries = []Entry{{Kind: KindCustomer, Message: agentloop.Customer(t.Message)}}
	}
	return s.EndPart(ctx, Work{Turn: t, key: key}, r)
}

// Filter narrows a list. A field with its zero value does not narrow it.
type Filter struct {
	// Kind is "" for messages and goals.
	Kind      flow.Kind
	AgentID   *uuid.UUID
	KeyID     *uuid.UUID
	Customer  *uuid.UUID
	SessionID string
	Status    string
	Since     *time.Time
	Until     *time.Time
	// Begins is the beginning of the execution_id.
	Begins string
	Before *uuid.UUID
	Limit  int
}

// List returns the newest turns first, without their texts, and whether there are more.
func (s *Service) List(ctx context.Context, who actor.Actor, f Filter) (page []Turn, more bool, err error) {
	if own := who.KeyID(); own != nil {
		if f.KeyID != nil && *f.KeyID != *own {
			return nil, false, nil
		}
		f.KeyID = own
	}
	p := dbsqlc.ListTurnsParams{
		TenantID: who.TenantID, Kind: db.Optional(string(f.Kind)), AgentID: f.AgentID, KeyID: f.KeyID, Customer: f.Customer, SessionID: db.Optional(f.SessionID),
		Status: db.Optional(f.Status), Before: f.Before, Most: int32(f.Limit + 1),
	}
	p.Low, p.High = db.IDsOf(f.Since, f.Until)
	if f.Begins != "" {
		low, high, ours := db.IDsNamed(f.Begins)
		if !ours {
			return nil, false, nil
		}
		p.Low, p.High = db.Within(p.Low, p.High, low, high)
	}
	rows, err := s.q.ListTurns(ctx, s.d.DB.Reading(who.TenantID, db.ListLimit), p)
	if err != nil {
		return nil, false, fmt.Errorf("conversation: list: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	for _, r := range rows {
		page = append(page, Turn{
			ID: r.ID, TenantID: who.TenantID, Kind: flow.Kind(r.Kind), ExecutionID: r.ExecutionID, AgentID: r.AgentID, Version: r.Version, SessionID: db.Text(r.SessionID),
			State: State(r.State), Status: Status(r.Status), Replies: r.Replies, Metadata: r.Metadata, Customer: r.Customer, CustomerName: db.Text(r.CustomerName),
			KeyID: r.KeyID, RequestID: r.RequestID, WorkflowID: r.WorkflowID, Stop: agentloop.Stop(r.StopReason), Model: r.Model, SOP: r.Sop,
			Tokens: r.TokensUsed, Estimated: r.UsageEstimated, MoneyMicros: r.MoneyMicros, Actions: r.Actions, Governance: r.Governance, ApprovalID: db.Text(r.ApprovalID),
			UpdatedAt: r.UpdatedAt, FinishedAt: r.FinishedAt,
		})
	}
	return page, more, nil
}

// Asked is what others see of an answer of a model.
type Asked struct {
	Number  int32
	Purpose string
	Model   string
	Usage   model.Usage
	Money   int64
	Finish  string
	// Failed: the model has not answered.
	Failed bool
	// Runs are those of the calls that the answer has asked for, in their order.
	Runs             []Run
	BeganAt, EndedAt time.Time
}

// askedMost bounds the answers of models that are shown of a turn.
const askedMost = 200

// Answers returns the answers of models for a turn, without what was said.
func (s *Service) Answers(ctx context.Context, t Turn) (list []Asked, err error) {
	rows, err := s.q.ListTurnAnswers(ctx, s.d.DB.Reading(t.TenantID, db.ListLimit), dbsqlc.ListTurnAnswersParams{TenantID: t.TenantID, Turn: t.ID, Most: askedMost})
	if err != nil {
		return nil, fmt.Errorf("conversation: answers: %w", err)
	}
	for _, r := range rows {
		a := Asked{
			Number: r.Number, Purpose: r.Purpose, Model: r.Model, Usage: model.Usage{In: r.TokensIn, Cached: r.TokensCached, Out: r.TokensOut, Estimate: r.Estimated},
			Money: r.MoneyMicros, Finish: r.Finish, Failed: r.Failed, BeganAt: r.BeganAt, EndedAt: r.EndedAt,
		}
		if a.Runs, err = runsOf(r.Runs); err != nil {
			return nil, fmt.Errorf("conversation: runs of answer %d of %s: %w", r.Number, t.ID, err)
		}
		list = append(list, a)
	}
	return list, nil
}
