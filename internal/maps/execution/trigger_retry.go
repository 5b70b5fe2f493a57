package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// Retry says how a failed execution goes on.
type Retry struct {
	// FromStep is the id of the step from which it goes on; "" for the failed one.
	FromStep string
	// Edits are inputs, by the id of the step, that take the place of those of the definition.
	Edits map[string]json.RawMessage
}

// Retry lets a failed execution go on as its next attempt, in a workflow of its own. Steps that
// have written are not run again. The error is CONFLICT where it has not failed, was undone, goes
// on already, or its names were taken by another execution; RESULT_EXPIRED where its texts were
// erased; VALIDATION_ERROR and INVALID_ARGS say what is wrong with the step or an edit.
func (s *triggers) Retry(ctx context.Context, who actor.Actor, e Execution, r Retry) (Execution, error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return Execution{}, fmt.Errorf("execution: %w", err)
	}
	again, err := s.planRetry(ctx, key, e, &r)
	if err != nil {
		return Execution{}, err
	}
	next := flow.MapRef{TenantID: e.TenantID, ID: e.ID, Attempt: e.Attempt + 1}
	take, rest := &db.Batch{}, &db.Batch{}
	asked, err := s.placeForRetry(ctx, key, e)
	if err != nil {
		return Execution{}, err
	}
	s.places.queueLock(take, asked)
	idempotency.Queue(ctx, take, e.ExecutionID)
	for i := range again.Edits {
		s.storeEdit(rest, key, e, &again.Edits[i].Value, again.Edits[i].Name)
	}
	if len(again.Edits) > 0 {
		approval.Wrote(rest, e.TenantID, e.ExecutionID, who.UserID())
	}
	rows := db.Queue(take, s.q.RetryMap, dbsqlc.RetryMapParams{
		Again: key.Seal(e.place(datakey.MapAgain), mustJSON(again)), WorkflowID: flow.MapWorkflowID(next), Now: s.d.Now(),
		TenantID: e.TenantID, ID: e.ID, Attempt: e.Attempt,
	})
	db.QueueExec(rest, s.q.RetakeMapKeys, dbsqlc.RetakeMapKeysParams{TenantID: e.TenantID, ID: e.ID})
	got := s.places.queueTake(rest, asked, e.ID)
	s.d.Quotas.Queue(rest, e.TenantID, quota.MapExecutions)
	rec := audit.Change(who, audit.MapRetried, audit.SubjectMap, e.MapID.String())
	rec.ExecutionID = e.ExecutionID
	details, err := s.retryDetails(ctx, e, next.Attempt, r)
	if err != nil {
		return Execution{}, err
	}
	audit.Queue(rest, rec.With(details))
	err = s.d.DB.ReadAndWrite(ctx, e.TenantID, take, func() (*db.Batch, error) {
		if len(rows.Value) == 0 {
			return nil, fault.New(fault.CodeConflict, "Another retry of this execution was first. It goes on already.")
		}
		return rest, nil
	})
	switch {
	case db.IsUnique(err, "map_keys_pkey"):
		return Execution{}, fault.New(fault.CodeConflict, "This execution had no effect, and another one of the Map has taken its name since.")
	case err != nil:
		return Execution{}, s.places.refusedPlace(err)
	}
	failpoint.Hit("after_map_retry", e.ID)
	now := headOfRow(rows.Value[0])
	if s.settlePlace(ctx, e.TenantID, got) {
		now.Status, now.WaitingFor = stepmachine.StatusWaiting, json.RawMessage(waitsForPlace)
	}
	if err := s.workflows.startIfFree(ctx, now); err != nil {
		s.d.Log.WarnContext(ctx, "retry not started", "execution_id", now.ExecutionID, "error", err) // the sweeper starts it
	}
	return now, nil
}

// placeForRetry returns the place that the next attempt needs.
func (s *triggers) placeForRetry(ctx context.Context, key *datakey.Key, e Execution) (*place, error) {
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil || v.Program.Definition().Concurrency == nil {
		return nil, err
	}
	row, err := s.q.GetMapExecution(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.GetMapExecutionParams{TenantID: e.TenantID, ID: e.ID})
	if err != nil {
		return nil, fmt.Errorf("execution: retry: %w", err)
	}
	payload, err := key.Open(e.place(datakey.MapPayload), row.Payload)
	if err != nil {
		return nil, fmt.Errorf("execution: payload of %s: %w", e.ID, err)
	}
	return s.places.placeOf(ctx, key, v, payload, e, true)
}

// planRetry returns the event that takes the execution up again. It completes the edits with what their
// editor could not see and has left out.
func (s *triggers) planRetry(ctx context.Context, key *datakey.Key, e Execution, r *Retry) (stepmachine.Again, error) {
	again := stepmachine.Again{FromStep: r.FromStep}
	switch {
	case e.ErasedAt != nil:
		return again, fault.New(fault.CodeResultExpired, "")
	case e.Status != stepmachine.StatusFailed:
		return again, fault.Newf(fault.CodeConflict, "Only an execution that has failed goes on. The status of this one is %s.", e.Status)
	}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return again, err
	}
	row, err := s.q.GetMapExecution(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.GetMapExecutionParams{TenantID: e.TenantID, ID: e.ID})
	if err != nil {
		return again, fmt.Errorf("execution: retry: %w", err)
	}
	left, err := stateOf(key, row, v.Program)
	if err != nil {
		return again, err
	}
	if left == nil {
		return again, fault.New(fault.CodeConflict, "This execution does not go on: another attempt does already, or its output or its state is too large.")
	}
	for _, id := range slices.Sorted(maps.Keys(r.Edits)) {
		again.Edits = append(again.Edits, stepmachine.Named{Name: id})
	}
	if err := left.CanGoOn(again); err != nil {
		return again, err
	}
	edits := editing{s: s.rows, e: headOfRow(row), p: v.Program, left: left, again: again, sent: r.Edits}
	if r.Edits, err = edits.restored(ctx, key); err != nil {
		return again, err
	}
	for i, edit := range again.Edits {
		again.Edits[i].Value = stepmachine.Of(r.Edits[edit.Name])
	}
	return again, nil
}

// stateOf returns the execution as the last attempt has left it; nil where an attempt has begun since, or
// none has left one.
func stateOf(key *datakey.Key, row dbsqlc.MapExecution, p *stepmachine.Program) (*stepmachine.Execution, error) {
	raw, err := openOptional(key, headOfRow(row).place(datakey.MapState), row.State)
	if err != nil || raw == nil {
		return nil, err
	}
	x, err := stepmachine.Resume(p, raw)
	if err != nil {
		return nil, fmt.Errorf("execution: state of %s: %w", row.ID, err)
	}
	return x, nil
}
