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
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// ErrChain is the error of Head where nobody knows what stands above the execution.
var ErrChain = errors.New("what stands above the execution cannot be read, so nothing is started for it")

// Head returns the execution without its texts, as it was when it was looked at first: what it is
// asked for never changes. Only the message changes that an agent of the mode workflow_only has it from.
// It fails with ErrChain where what stands above the execution cannot be read. Without that, nothing would count for
// the limits of those messages, and no kill switch of their agents would cover the calls.
func (s *steps) Head(ctx context.Context, ref flow.MapRef) (Execution, error) {
	e, err := s.readHead(ctx, ref)
	if err != nil {
		return Execution{}, err
	}
	return e, e.broken
}

// readHead is Head for what starts nothing: writes, looks and the end. They work whatever stands above, so
// that such an execution comes to its end: each step that would start something fails.
func (s *rows) readHead(ctx context.Context, ref flow.MapRef) (Execution, error) {
	if e, known := s.heads.Get(ref.ID); known && e.TenantID == ref.TenantID && e.Attempt == ref.Attempt {
		if e.Chain.Driver() == nil && e.broken == nil {
			return e, nil
		}
		caller, err := s.q.CallerOfMap(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.CallerOfMapParams{TenantID: ref.TenantID, ID: ref.ID})
		if err != nil {
			return Execution{}, fmt.Errorf("execution: its message: %w", err)
		}
		e.takeChain(caller.Chain)
		e.Tainted, e.TaintSources, e.Metadata = caller.Tainted, caller.TaintSources, caller.Metadata
		return e, nil
	}
	row, err := s.q.GetMapExecution(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.GetMapExecutionParams{TenantID: ref.TenantID, ID: ref.ID})
	if err != nil {
		return Execution{}, fmt.Errorf("execution: get: %w", err)
	}
	e := headOfRow(row)
	s.heads.Add(e)
	return e, nil
}

// Begin returns what the execution begins with. Where its workflow runs in the process that
// claimed it, nothing is read.
func (s *steps) Begin(ctx context.Context, ref flow.MapRef) (flow.MapBegun, error) {
	begun := flow.MapBegun{Private: flow.IsPrivate()}
	e, fresh := s.heads.Get(ref.ID)
	var row dbsqlc.MapExecution
	if !fresh || e.Attempt != ref.Attempt || ref.Attempt > 1 {
		var err error
		row, err = s.q.BeginMap(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.BeginMapParams{TenantID: ref.TenantID, ID: ref.ID, Attempt: ref.Attempt, Now: s.d.Now()})
		switch {
		case db.IsNoRows(err):
			begun.Over = true
			return begun, nil
		case err != nil:
			return begun, fmt.Errorf("execution: begin: %w", err)
		}
		e = headOfRow(row)
		s.heads.Add(e)
	}
	failpoint.Hit("map_begin", e.ID)
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return begun, err
	}
	begun.Definition = v.Program.Definition().Source()
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return begun, fmt.Errorf("execution: %w", err)
	}
	payload, err := key.Open(e.place(datakey.MapPayload), e.payload)
	if err != nil {
		return begun, fmt.Errorf("execution: payload of %s: %w", e.ID, err)
	}
	trigger := stepmachine.Of(payload)
	if len(payload) > stepmachine.MaxInline {
		trigger = Reference(triggerData, payload, nil)
	}
	trigger.Invented = e.payloadInvented
	begun.Beginning = stepmachine.Beginning{
		Execution: e.ExecutionID, TriggerData: trigger, Context: stepmachine.Of(mustJSON(contextOf(e))), DryRun: e.DryRun,
	}
	begun.Tainted, begun.Sources = e.Tainted, e.TaintSources
	begun.Reads = readsAtStart(e, v.Program.Definition())
	if err := addRetry(key, row, &begun); err != nil {
		return begun, err
	}
	if e.ParentID != "" && e.Awaited {
		begun.Parent, err = s.workflowOf(ctx, e)
	}
	return begun, err
}

// readsAtStart returns the sources of others' words that an execution begins with. Where the attempt before had
// no end of its own, any of its calls may have brought some.
func readsAtStart(e Execution, d *mapdef.Definition) []string {
	switch {
	case e.Reads != nil:
		return e.Reads
	case e.Attempt > 1:
		return taint.Add(nil, append([]string{taint.Event}, d.Verbs()...)...)
	case e.Origin == actor.Map:
		return []string{taint.Map(e.ParentID)}
	default:
		return nil
	}
}

// workflowOf returns the workflow of the execution that started this one.
func (s *steps) workflowOf(ctx context.Context, e Execution) (string, error) {
	if e.callerWorkflow != "" {
		return e.callerWorkflow, nil
	}
	parent, err := s.q.MapExecutionByName(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.MapExecutionByNameParams{TenantID: e.TenantID, ExecutionID: e.ParentID})
	switch {
	case db.IsNoRows(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("execution: parent: %w", err)
	}
	return parent.WorkflowID, nil
}

// what expressions read as context.
type shownContext struct {
	ExecutionID string          `json:"execution_id"`
	MapID       string          `json:"map_id"`
	Version     int32           `json:"version"`
	SessionID   *string         `json:"session_id"`
	CustomerID  *string         `json:"customer_id"`
	Requester   string          `json:"requester"`
	DryRun      bool            `json:"dry_run"`
	ParentID    *string         `json:"parent_execution_id"`
	Metadata    json.RawMessage `json:"metadata"`
}

func contextOf(e Execution) shownContext {
	return shownContext{
		ExecutionID: e.ExecutionID, MapID: e.MapID.String(), Version: e.Version, SessionID: db.Optional(e.SessionID), CustomerID: db.Optional(e.Customer),
		Requester: e.Starter().String(), DryRun: e.DryRun, ParentID: db.Optional(e.ParentID), Metadata: e.Metadata,
	}
}

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

// masked returns a value as others than the caller may see it.
func masked(value json.RawMessage) json.RawMessage {
	out, _ := redact.NewMasker(nil).Mask(value)
	return out
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
