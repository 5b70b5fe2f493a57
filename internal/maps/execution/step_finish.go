package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// Finish commits the end of an execution with its last records, its audit record and its event, and
// tells those who wait. It changes nothing where the attempt has ended by another hand.
func (s *steps) Finish(ctx context.Context, in flow.MapFinish) (flow.MapResult, error) {
	e, err := s.readHead(ctx, in.MapRef)
	if err != nil {
		return flow.MapResult{}, err
	}
	changes, err := s.changesToAsk(ctx, e, in)
	if err != nil {
		return flow.MapResult{}, err
	}
	out, err := s.finishAsking(ctx, e, in, changes)
	if changes > 0 && fault.HasCode(err, fault.CodeQuotaExceeded) {
		// The dry run has completed. Who decides about its changes later has them asked then.
		return s.finishAsking(ctx, e, in, 0)
	}
	return out, err
}

// finishAsking is Finish for an execution of which people are asked about so many changes.
func (s *steps) finishAsking(ctx context.Context, e Execution, in flow.MapFinish, changes int64) (flow.MapResult, error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return flow.MapResult{}, fmt.Errorf("execution: %w", err)
	}
	output, err := s.outputOfEnd(ctx, e, &in)
	if err != nil {
		return flow.MapResult{}, err
	}
	f := in.Finish
	b := &db.Batch{}
	if err := s.Queue(ctx, b, e, in.MapWrites); err != nil {
		return flow.MapResult{}, err
	}
	undoing, err := s.undoingOf(ctx, e, f, in.Commands)
	if err != nil {
		return flow.MapResult{}, err
	}
	p := s.finishParams(key, e, in, f, output, undoing)
	failpoint.Hit("before_map_finish", e.ID)
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return flow.MapResult{}, err
	}
	// Before the lock: who waits for the turn of the concurrency key does not wait for the rows of the steps.
	db.QueueExec(b, s.q.GiveUpMapSteps, dbsqlc.GiveUpMapStepsParams{TenantID: e.TenantID, Execution: e.ID, Records: p.Records, Now: p.Now})
	s.places.queueLockOf(b, e, v.Program.Definition())
	ended := db.Queue(b, s.q.FinishMap, p)
	db.Queue(b, s.q.RequireMapEnded, dbsqlc.RequireMapEndedParams{TenantID: e.TenantID, ID: e.ID})
	promoted := s.places.queueFree(b, e, v.Program.Definition())
	// A step gets the same execution again, whatever came of it.
	if f.Status == stepmachine.StatusFailed && f.Actions == 0 && len(f.Unknown) == 0 && e.ParentID == "" {
		db.QueueExec(b, s.q.FreeMapKeys, dbsqlc.FreeMapKeysParams{TenantID: e.TenantID, Execution: e.ID})
	}
	shown, err := s.maskEnd(ctx, e, output, f.Error)
	if err != nil {
		return flow.MapResult{}, err
	}
	s.queueEnd(b, key, e, f, shown, undoing)
	if changes > 0 && f.Status == stepmachine.StatusCompleted {
		s.queueAskChanges(b, key, e, changes)
	}
	err = s.d.DB.Send(ctx, e.TenantID, b)
	switch {
	case db.IsNotChanged(err):
		// A repeat: a process that died after the commit may not have told those who wait.
		s.heads.Remove(e.ID)
		s.workflows.Rests(e.ID)
		s.d.Notices.Tell(e.TenantID, e.ID)
		return flow.MapResult{Status: f.Status}, nil
	case err != nil:
		return flow.MapResult{}, fmt.Errorf("execution: finish: %w", err)
	}
	failpoint.Hit("after_map_finish", e.ID)
	if promoted != nil && len(promoted.Value) > 0 {
		// Where API and worker are apart, a start lasts as long as the first steps. With this step
		// waiting for it, all that wait for the key would be under way, one within the other.
		go s.places.startPromoted(context.WithoutCancel(ctx), e.TenantID, promoted.Value)
	}
	now := headOfRow(ended.Value[0])
	now.Error, now.Undoing = f.Error, undoing
	if p.Output != nil {
		now.Output = output
	}
	s.announceEnd(now)
	return flow.MapResult{Status: f.Status}, nil
}

// outputOfEnd returns the output of an execution that ends. One that is too long makes it fail.
func (s *steps) outputOfEnd(ctx context.Context, e Execution, in *flow.MapFinish) (json.RawMessage, error) {
	output, err := s.Resolve(ctx, e, in.Finish.Output, in.Commands)
	if !errors.Is(err, stepmachine.ErrTooLarge) {
		return output, err
	}
	// All is done, and only the output is not there. So no retry goes on from the state.
	f := &in.Finish
	f.Status, f.Error = stepmachine.StatusFailed, stepmachine.NewError(expression.CodeLimit, "the output has more than 32 MiB")
	f.Error.Instance, f.Output, in.State = "/output", stepmachine.Value{}, nil
	return nil, nil
}

// maskEnd returns the output and the error as the event of the end has them. Where what masks the output
// cannot be read, the event has none: it is written once, and nobody could tell the masks from values.
func (s *steps) maskEnd(ctx context.Context, e Execution, output json.RawMessage, failed *stepmachine.Error) (Execution, error) {
	shown, unknown, err := s.views.maskedEnd(ctx, Execution{
		TenantID: e.TenantID, ExecutionID: e.ExecutionID, MapID: e.MapID, Version: e.Version, DryRun: e.DryRun, Output: output, Error: failed,
	})
	if unknown != nil {
		shown.Output = nil
	}
	return shown, err
}

// finishParams returns the row of an execution that ends.
func (s *steps) finishParams(key *datakey.Key, e Execution, in flow.MapFinish, f stepmachine.Finish, output json.RawMessage, undoing Undoing) dbsqlc.FinishMapParams {
	p := dbsqlc.FinishMapParams{
		Status: string(f.Status), Error: sealOptional(key, e.place(datakey.MapError), failureOf(f)), Records: int32(in.Last()),
		Actions: int32(f.Actions), KeptBytes: in.Kept, Governance: governanceOfEnd(f), Wrote: in.Wrote, Reads: append([]string{}, in.Reads...), OutputInvented: append([]string{}, f.Output.Invented...), Now: s.d.Now(), TenantID: e.TenantID, ID: e.ID, Attempt: in.Attempt,
	}
	if f.Status == stepmachine.StatusCompleted {
		p.Output = sealOptional(key, e.place(datakey.MapOutput), output)
	}
	if undoing.any() {
		p.Compensation = sealOptional(key, e.place(datakey.MapUndoing), mustJSON(undoing))
	}
	if f.Status == stepmachine.StatusFailed {
		p.State = sealOptional(key, e.place(datakey.MapState), in.State)
	}
	return p
}

// failureOf returns the error of an end as it is stored; nil where there is none.
func failureOf(f stepmachine.Finish) []byte {
	if f.Error == nil {
		return nil
	}
	return mustJSON(f.Error)
}

// announceEnd tells those who wait for the end of the execution.
func (s *steps) announceEnd(e Execution) {
	s.heads.Remove(e.ID)
	s.workflows.Rests(e.ID)
	s.hub.Deliver(e.ID, e.Attempt, e)
	s.d.Notices.Tell(e.TenantID, e.ID)
}

// queueEnd queues the audit record and the event of the end. shown has the output and the error, masked.
func (s *steps) queueEnd(b *db.Batch, key *datakey.Key, e Execution, f stepmachine.Finish, shown Execution, undoing Undoing) {
	rec := audit.Change(actor.Actor{Kind: actor.Map, TenantID: e.TenantID, ID: e.MapID}, audit.MapEnded, audit.SubjectMap, e.MapID.String())
	rec.ExecutionID, rec.SessionID, rec.Outcome = e.ExecutionID, db.Optional(e.SessionID), string(f.Status)
	audit.Queue(b, rec)
	s.queueEndEvent(b, key, e, f, shown, undoing)
}

// governanceOfEnd returns the governance status of the step that decided the end.
func governanceOfEnd(f stepmachine.Finish) string {
	if f.Error == nil {
		return governanceApproved
	}
	switch {
	case f.Error.Type == stepmachine.TypeRejected, f.Error.Code == mapdef.CodeApprovalRejected:
		return "rejected"
	case f.Error.Code == string(fault.CodeGovernanceBlocked):
		return "blocked"
	default:
		return governanceApproved
	}
}

// queueEndEvent queues the event of the end.
func (s *steps) queueEndEvent(b *db.Batch, key *datakey.Key, e Execution, f stepmachine.Finish, shown Execution, undoing Undoing) {
	end := event.MapEnd{MapID: e.MapID.String(), Version: int(e.Version), Status: string(f.Status), ActionsExecuted: f.Actions, DurationMS: s.d.Now().Sub(e.CreatedAt()).Milliseconds()}
	var body event.Body = event.MapCompleted{MapEnd: end, Output: shown.Output}
	if f.Status != stepmachine.StatusCompleted {
		failed := event.MapFailed{MapEnd: end}
		if undoing.any() {
			failed.Compensation = &event.MapCompensation{Undone: undoing.Undone, NotUndone: undoing.NotUndone, Unknown: undoing.Unknown}
		}
		if why := shown.Error; why != nil {
			failed.Error = &event.MapError{Code: why.Code, Title: why.Title, Instance: why.Instance}
		}
		body = failed
	}
	event.Queue(b, event.Event{
		TenantID: e.TenantID, About: about(e), Body: body, Key: key,
	})
}
