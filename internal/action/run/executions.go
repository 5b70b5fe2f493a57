package run

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
)

// sees reports whether the actor may see the run. A key sees its own runs, a user all runs of
// the tenant.
func sees(who actor.Actor, r Run) bool {
	key := who.KeyID()
	return key == nil || r.KeyID != nil && *r.KeyID == *key
}

// Get returns an execution by its execution_id or by any key that names it. The error is
// EXECUTION_NOT_FOUND where there is none, where the actor may not see it, and for a key of
// a step.
func (s *Service) Get(ctx context.Context, who actor.Actor, executionID string) (Run, error) {
	if strings.HasPrefix(executionID, stepPrefix) {
		return Run{}, fault.New(fault.CodeExecutionNotFound, "")
	}
	rows, err := s.q.RunByKey(ctx, s.d.DB.Tenant(who.TenantID),
		dbsqlc.RunByKeyParams{TenantID: who.TenantID, Key: executionID})
	if err != nil {
		return Run{}, fmt.Errorf("run: get: %w", err)
	}
	if len(rows) == 0 {
		return Run{}, fault.New(fault.CodeExecutionNotFound, "")
	}
	r, err := s.fromRow(ctx, rows[0])
	if err != nil {
		return Run{}, err
	}
	if !sees(who, r) {
		return Run{}, fault.New(fault.CodeExecutionNotFound, "")
	}
	return r, nil
}

// Filter narrows a list. A field with its zero value does not narrow it.
type Filter struct {
	Status    string
	Provider  string
	Verb      string // provider:verb_name, checked by the caller
	SessionID string
	Since     *time.Time
	Until     *time.Time
	// Before continues a list after the run with this id; nil for the first page.
	Before *uuid.UUID
	// Limit is the most runs of a page.
	Limit int
}

// List returns the newest executions first, without their arguments and results and with
// their metadata masked, and whether there are more.
func (s *Service) List(ctx context.Context, who actor.Actor, f Filter) (runs []Run, more bool, err error) {
	p := dbsqlc.ListRunsParams{
		TenantID: who.TenantID, KeyID: who.KeyID(), Before: f.Before, Since: f.Since, Until: f.Until,
		Provider: db.Optional(f.Provider), Verb: db.Optional(f.Verb), SessionID: db.Optional(f.SessionID), Most: int32(f.Limit + 1),
	}
	p.Low, p.High = db.IDsOf(f.Since, f.Until)
	if f.Status != "" {
		p.States, _ = StatesOf(f.Status)
	}
	rows, err := s.q.ListRuns(ctx, s.d.DB.Reading(who.TenantID, db.ListLimit), p)
	if err != nil {
		return nil, false, fmt.Errorf("run: list: %w", err)
	}
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return nil, false, fmt.Errorf("run: list: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	mask := s.d.Targets.MaskMetadata(ctx, who.TenantID)
	for _, row := range rows {
		r := fromListed(key, row)
		r.Metadata = mask(r.Verb, r.Metadata)
		runs = append(runs, r)
	}
	return runs, more, nil
}

// Cancel ends a run that was not sent, also one that waits for approval, and cancels its
// approval. The error is CONFLICT where the run was sent or has ended, and
// EXECUTION_NOT_FOUND as for Get.
func (s *Service) Cancel(ctx context.Context, who actor.Actor, executionID string) (Run, error) {
	r, err := s.Get(ctx, who, executionID)
	if err != nil {
		return Run{}, err
	}
	b := &db.Batch{}
	changed := db.Queue(b, s.q.RequestCancel, dbsqlc.RequestCancelParams{TenantID: r.TenantID, ID: r.ID})
	s.requireChanged(b, r)
	approval.CloseOf(b, r.subject(), approval.Closing{
		Status: governance.ApprovalCancelled, Reason: "The execution was cancelled.", By: who.UserID(),
	})
	audit.Queue(b, recordBy(who, r, audit.RunCancelled, StateCancelled))
	done, found, err := s.change(ctx, r, b, changed)
	if err == nil && !found {
		f := fault.Newf(fault.CodeConflict, "The execution can no longer be cancelled: its status is %s.", s.statusNow(ctx, r))
		return Run{}, s.noteConflict(ctx, who, r, "cancel", f)
	}
	if err == nil && done.ApprovalID != nil {
		s.nudge(ctx, done)
	}
	return done, err
}

// Resolution is what people found out about a run whose outcome is unknown.
type Resolution struct {
	// Executed: the call had its effect. Otherwise the run is settled as failed.
	Executed bool
	Result   json.RawMessage // the provider's object, where known
	Reason   string
}

// Resolve settles a run in outcome_unknown. The error is CONFLICT for a run in any other
// state, and EXECUTION_NOT_FOUND as for Get.
func (s *Service) Resolve(ctx context.Context, who actor.Actor, executionID string, res Resolution) (Run, error) {
	r, err := s.Get(ctx, who, executionID)
	if err != nil {
		return Run{}, err
	}
	p := dbsqlc.ResolveRunParams{
		TenantID: r.TenantID, ID: r.ID, State: string(StateExecuted), ResolveReason: res.Reason, ResolvedBy: who.UserID(),
	}
	switch {
	case !res.Executed:
		p.State, p.ErrorCode = string(StateFailed), string(fault.CodeProviderError)
		p.ErrorMessage = "An operator settled this run as failed: " + res.Reason
	case res.Result != nil:
		p.Result = r.sealOptional(datakey.RunResult, res.Result)
	default:
		p.Result = r.sealOptional(datakey.RunResult, []byte("{}"))
	}
	b := &db.Batch{}
	changed := db.Queue(b, s.q.ResolveRun, p)
	s.requireChanged(b, r)
	rec := recordBy(who, r, audit.RunResolved, State(p.State))
	rec.Details = mustJSON(map[string]string{"reason": res.Reason})
	audit.Queue(b, rec)
	done, found, err := s.change(ctx, r, b, changed)
	if err == nil && !found {
		f := fault.Newf(fault.CodeConflict, "Only an execution with status outcome_unknown can be resolved; this one is %s.", s.statusNow(ctx, r))
		return Run{}, s.noteConflict(ctx, who, r, "resolve", f)
	}
	return done, err
}

// change applies a batch that a person or a key asked for, and tells those who wait.
func (s *Service) change(ctx context.Context, r Run, b *db.Batch, changed *db.Answer[[]dbsqlc.Run]) (done Run, found bool, err error) {
	if done, found, err = s.apply(ctx, r, b, changed); found {
		s.ended(done)
	}
	return done, found, err
}

func (s *Service) statusNow(ctx context.Context, r Run) string {
	if now, err := s.get(ctx, r.TenantID, r.ID); err == nil {
		r = now
	}
	return r.State.Status()
}

// recordBy returns the audit record of what an actor did with the run.
func recordBy(who actor.Actor, r Run, action audit.Action, outcome State) audit.Record {
	return audit.Record{
		TenantID: r.TenantID, ActorType: who.Kind, ActorID: who.IDText(), Action: action,
		Provider: r.Verb.Provider, Verb: r.Verb.Verb, RiskLevel: string(r.Risk), Decision: r.Decision, Outcome: string(outcome),
		ExecutionID: r.ExecutionID, SessionID: r.SessionID, RequestID: who.RequestID, SourceAddr: who.SourceAddr,
	}
}

// Shown returns the run as others than its caller may see it: the arguments that are sent, the
// metadata and the result are masked.
func (s *Service) Shown(ctx context.Context, r Run) Run {
	t := s.d.Targets.Mask(ctx, r.TenantID, r.Verb, Texts{Args: r.Effective(), Metadata: r.Metadata, Result: r.Result})
	r.Args, r.Metadata, r.Result = t.Args, t.Metadata, t.Result
	if r.EditedArgs != nil {
		r.EditedArgs = t.Args
	}
	return r
}
