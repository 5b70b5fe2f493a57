package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/record/audit"
)

// Reader is who looks at executions: a key sees its own, a user all of the tenant's.
type Reader struct {
	TenantID  uuid.UUID
	KeyID     *uuid.UUID
	UserID    *uuid.UUID
	RequestID string
	Source    string
}

func (r Reader) sees(run Run) bool {
	return r.KeyID == nil || run.KeyID != nil && *run.KeyID == *r.KeyID
}

// Get returns an execution by its execution_id or any key that was bound to it.
// One that the reader may not see is unknown to him.
func (s *Service) Get(ctx context.Context, who Reader, executionID string) (Run, error) {
	rows, err := dbsqlc.New().RunByKey(ctx, s.DB.Tenant(who.TenantID),
		dbsqlc.RunByKeyParams{TenantID: who.TenantID, Key: executionID})
	if err != nil {
		return Run{}, fmt.Errorf("run: get: %w", err)
	}
	if len(rows) == 0 {
		return Run{}, fault.New(fault.CodeExecutionNotFound, "")
	}
	r := fromRow(rows[0])
	if !who.sees(r) {
		return Run{}, fault.New(fault.CodeExecutionNotFound, "")
	}
	return r, nil
}

// Filter narrows a list; zero fields do not.
type Filter struct {
	Status    string
	Provider  string
	Verb      string // provider:verb_name, checked by the caller
	SessionID string
	Since     *time.Time
	Until     *time.Time
	// Before continues after the run with this id.
	Before *uuid.UUID
	Limit  int
}

// StatesOf returns the states that a public status stands for; ok is false for a
// status that does not exist.
func StatesOf(status string) (states []string, ok bool) {
	for _, s := range []State{
		StateClaimed, StateSending, StateExecuted, StateFailed, StateOutcomeUnknown,
		StateBlocked, StateRefused, StateIntercepted, StateCancelled, StatePending, StateRejected, StateExpired,
	} {
		if s.Status() == status {
			states = append(states, string(s))
		}
	}
	return states, len(states) > 0
}

// List returns the newest executions first, without their arguments and results, and
// whether there are more.
func (s *Service) List(ctx context.Context, who Reader, f Filter) (runs []Run, more bool, err error) {
	p := dbsqlc.ListRunsParams{
		TenantID: who.TenantID, KeyID: who.KeyID, Before: f.Before, Since: f.Since, Until: f.Until,
		Provider: optional(f.Provider), Verb: optional(f.Verb), SessionID: optional(f.SessionID), Most: int32(f.Limit + 1),
	}
	if f.Status != "" {
		p.States, _ = StatesOf(f.Status)
	}
	rows, err := dbsqlc.New().ListRuns(ctx, s.DB.Tenant(who.TenantID), p)
	if err != nil {
		return nil, false, fmt.Errorf("run: list: %w", err)
	}
	more = len(rows) > f.Limit
	for _, row := range rows[:min(len(rows), f.Limit)] {
		runs = append(runs, fromListed(row))
	}
	return runs, more, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Cancel ends a run that has not been sent, one that waits for a human too, and takes
// its approval back. One that was sent, or has ended, is CONFLICT.
func (s *Service) Cancel(ctx context.Context, who Reader, executionID string) (Run, error) {
	r, err := s.Get(ctx, who, executionID)
	if err != nil {
		return Run{}, err
	}
	b := &pgx.Batch{}
	b.Queue(dbsqlc.RequestCancel, r.TenantID, r.ID)
	b.Queue(dbsqlc.RequireRunChanged, r.TenantID, r.ID)
	b.Queue(dbsqlc.CancelApproval, "The execution was cancelled.", who.UserID, r.TenantID, r.ID)
	audit.QueueRaw(b, who.record(r, audit.RunCancelled, StateCancelled))
	done, err := s.change(ctx, r, b)
	if isNotOurs(err) {
		return Run{}, fault.Newf(fault.CodeConflict, "The execution can no longer be cancelled: its status is %s.", s.statusNow(ctx, r))
	}
	if err == nil && done.ApprovalID != nil {
		s.nudge(ctx, done)
	}
	return done, err
}

// Resolution is what a human found out about a run whose outcome is unknown.
type Resolution struct {
	Executed bool
	Result   json.RawMessage // the provider's object, where known
	Reason   string
}

// Resolve settles an outcome_unknown. Any other state is CONFLICT.
func (s *Service) Resolve(ctx context.Context, who Reader, executionID string, res Resolution) (Run, error) {
	r, err := s.Get(ctx, who, executionID)
	if err != nil {
		return Run{}, err
	}
	p := dbsqlc.ResolveRunParams{
		TenantID: r.TenantID, ID: r.ID, State: string(StateExecuted), Reason: res.Reason, ResolvedBy: who.UserID,
	}
	switch {
	case !res.Executed:
		p.State, p.ErrorCode = string(StateFailed), string(fault.CodeProviderError)
		p.ErrorMessage = "An operator settled this run as failed: " + res.Reason
	case res.Result != nil:
		p.Result = optional(string(res.Result))
	default:
		p.Result = optional("{}")
	}
	b := &pgx.Batch{}
	b.Queue(dbsqlc.ResolveRun, p.State, p.Result, p.Reason, p.ResolvedBy, p.ErrorCode, p.ErrorMessage, p.TenantID, p.ID)
	b.Queue(dbsqlc.RequireRunChanged, r.TenantID, r.ID)
	rec := who.record(r, audit.RunResolved, State(p.State))
	rec.Details = mustJSON(map[string]string{"reason": res.Reason})
	audit.QueueRaw(b, rec)
	done, err := s.change(ctx, r, b)
	if isNotOurs(err) {
		return Run{}, fault.Newf(fault.CodeConflict, "Only an execution with status outcome_unknown can be resolved; this one is %s.", s.statusNow(ctx, r))
	}
	return done, err
}

// change applies a batch whose first statement returns the changed run.
func (s *Service) change(ctx context.Context, r Run, b *pgx.Batch) (Run, error) {
	done, found, err := s.apply(ctx, r, b)
	switch {
	case err != nil:
		return Run{}, err
	case !found:
		return Run{}, errNotOurs
	}
	s.ended(done)
	return done, nil
}

func (s *Service) statusNow(ctx context.Context, r Run) string {
	if now, err := s.get(ctx, r.TenantID, r.ID); err == nil {
		r = now
	}
	return r.State.Status()
}

func (r Reader) record(run Run, action audit.Action, outcome State) audit.Record {
	rec := audit.Record{
		TenantID: run.TenantID, Action: action, Provider: run.Verb.Provider, Verb: run.Verb.Verb, RiskLevel: string(run.Risk),
		Decision: run.Decision, Outcome: string(outcome), ExecutionID: run.ExecutionID, SessionID: run.SessionID,
		RequestID: r.RequestID, SourceAddr: r.Source,
	}
	switch {
	case r.UserID != nil:
		rec.ActorType, rec.ActorID = actor.User, r.UserID.String()
	case r.KeyID != nil:
		rec.ActorType, rec.ActorID = actor.Key, r.KeyID.String()
	}
	return rec
}

// MaskedArgs returns the run's arguments as they may be shown.
func (s *Service) MaskedArgs(ctx context.Context, r Run) json.RawMessage {
	return s.Targets.Mask(ctx, r.TenantID, r.Verb, r.Effective())
}
