package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// The approved changes of a dry run are applied in their order, each as a governed run of its own.
// The row of a change names its run from the claim on, so a repeat never claims another. The first
// change that fails or has drifted ends the apply.

// Applying is a change that is applied.
type Applying struct {
	// Execution is the one that came to it, DryRun the one whose list it is in.
	Execution, DryRun Execution
	ID                string
	// Step is the place of the step in its execution.
	Step string
	Verb string
	// CredentialID is the credential that the step names, "" for none.
	CredentialID string
	// Workflow is the id of the workflow that applies it.
	Workflow string
	// Run is the run that applies it, nil before its claim.
	Run *flow.RunRef
	// Probed is the run of the dry run whose read-back has looked before the change; nil where none
	// has.
	Probed *flow.RunRef
	// Agent is the stored agent that has made the call; nil for none.
	Agent *uuid.UUID

	byModel   bool
	l         *loader
	record    json.RawMessage
	dependsOn []string
}

// Depends reports whether what the change sends was made of the results of others.
func (c *Applying) Depends() bool { return len(c.dependsOn) > 0 }

// codeDrift is the code of a change that would no longer be what people have approved.
const codeDrift = "DRIFT"

// NextChange returns the change that is applied next, or is being applied; nil where there is none.
// Then the apply has ended.
func (s *changes) NextChange(ctx context.Context, ref flow.ApplyRef) (*Applying, error) {
	rows, err := s.q.NextMapChange(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.NextMapChangeParams{TenantID: ref.TenantID, DryRun: ref.ID})
	switch {
	case err != nil:
		return nil, fmt.Errorf("execution: next change: %w", err)
	case len(rows) == 0:
		return nil, s.endApply(ctx, ref, nil, nil)
	}
	return s.applying(ctx, ref, dbsqlc.GetMapChangeRow(rows[0]))
}

// ChangeOf returns a change that is being applied; nil where it has ended.
func (s *changes) ChangeOf(ctx context.Context, ref flow.ApplyRef, id string) (*Applying, error) {
	row, err := s.q.GetMapChange(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.GetMapChangeParams{TenantID: ref.TenantID, DryRun: ref.ID, ID: id})
	switch {
	case db.IsNoRows(err), err == nil && ChangeStatus(row.Status) != ChangeApplying:
		return nil, nil //nolint:nilnil // no change is a value here
	case err != nil:
		return nil, fmt.Errorf("execution: change: %w", err)
	}
	return s.applying(ctx, ref, row)
}

func (s *changes) applying(ctx context.Context, ref flow.ApplyRef, row dbsqlc.GetMapChangeRow) (*Applying, error) {
	c := &Applying{ID: row.ID, Step: row.Path[len(row.Path)-1], Verb: row.Verb, Workflow: row.WorkflowID, dependsOn: row.DependsOn}
	if row.Run != nil {
		c.Run = &flow.RunRef{TenantID: ref.TenantID, RunID: *row.Run, Attempt: 1}
	}
	var err error
	if c.DryRun, err = s.readExecution(ctx, ref.TenantID, ref.ID); err != nil {
		return nil, err
	}
	c.Execution = c.DryRun
	if row.Execution != ref.ID {
		if c.Execution, err = s.readExecution(ctx, ref.TenantID, row.Execution); err != nil {
			return nil, err
		}
	}
	if c.Execution.broken != nil {
		return nil, c.Execution.broken
	}
	if c.l, err = s.newLoader(ctx, c.Execution, nil); err != nil {
		return nil, err
	}
	names := []string{changePrefix + c.ID, probePrefix + c.Step, beforePrefix + c.Step, statePrefix + beforePrefix + c.Step}
	found, err := s.q.ReadMapValues(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.ReadMapValuesParams{TenantID: ref.TenantID, Execution: row.Execution, Names: names})
	if err != nil {
		return nil, fmt.Errorf("execution: change: %w", err)
	}
	for _, value := range found {
		if c.l.read[value.Name], err = c.l.open(value.Name, value.Body); err != nil {
			return nil, fmt.Errorf("execution: change %s: %w", c.ID, err)
		}
	}
	if c.record = c.l.read[changePrefix+c.ID]; c.record != nil {
		var recorded recordedChange
		if err := json.Unmarshal(c.record, &recorded); err != nil {
			return nil, fmt.Errorf("execution: change %s: %w", c.ID, err)
		}
		c.CredentialID, c.Agent, c.byModel = recorded.CredentialID, recorded.Agent, recorded.ByModel
	}
	if probed, is := c.l.read[probePrefix+c.Step]; is {
		c.Probed = &flow.RunRef{}
		if err := json.Unmarshal(probed, c.Probed); err != nil {
			return nil, fmt.Errorf("execution: probe of %s: %w", c.ID, err)
		}
	}
	return c, nil
}

// Arguments returns what the change sends. drift says why it would no longer be what people have
// approved; "" where it is.
func (s *changes) Arguments(ctx context.Context, c *Applying) (args json.RawMessage, drift string, err error) {
	if c.record == nil {
		return nil, "What the change would send is no longer stored.", nil
	}
	if args, err = c.l.argsOf(c.record); err != nil || !c.Depends() {
		return args, "", err
	}
	if c.byModel {
		return nil, "A model has made this change of a value that was made up. No model is asked again for the real one.", nil
	}
	return s.realArguments(ctx, c, args)
}

// QueueBegin notes the run of a change in the transaction that claims the run.
func (s *changes) QueueBegin(b *db.Batch, c *Applying, run uuid.UUID) {
	db.QueueExec(b, s.q.BeginMapChange, dbsqlc.BeginMapChangeParams{TenantID: c.DryRun.TenantID, DryRun: c.DryRun.ID, ID: c.ID, Run: &run})
}

// ChangeEnd is how a change ended.
type ChangeEnd struct {
	Status ChangeStatus
	// Code and Reason say why it was not applied.
	Code, Reason string
	// After is how a probe sees what the change is about; its state is "" where none has looked.
	After verb.Look
}

// DriftedEnd is the end of a change that would no longer be what people have approved.
func DriftedEnd(reason string) ChangeEnd {
	return ChangeEnd{Status: ChangeDrifted, Code: codeDrift, Reason: reason}
}

// EndChange commits the end of a change. One that was not applied ends the apply. It can be repeated.
func (s *changes) EndChange(ctx context.Context, c *Applying, end ChangeEnd) error {
	failpoint.Hit("before_change_end", c.DryRun.ID)
	b := &db.Batch{}
	e := c.DryRun
	ended := db.Queue(b, s.q.EndMapChange, dbsqlc.EndMapChangeParams{
		Status: string(end.Status), Code: db.Optional(end.Code), Reason: db.Optional(end.Reason), TenantID: e.TenantID, DryRun: e.ID, ID: c.ID, WithRun: c.Run != nil,
	})
	db.QueueExec(b, s.q.TouchMapChangeSet, dbsqlc.TouchMapChangeSetParams{TenantID: e.TenantID, Execution: e.ID, Now: s.d.Now()})
	if end.After.State != "" {
		s.queueLook(b, c.l.key, c.Execution, afterPrefix+c.ID, end.After)
	}
	if end.After.Of != "" {
		s.queueLook(b, c.l.key, e, c.l.nameAfterApply(end.After.Of), end.After)
	}
	if end.Status != ChangeApplied {
		return s.endApply(ctx, flow.ApplyRef{TenantID: e.TenantID, ID: e.ID}, b, ended)
	}
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return fmt.Errorf("execution: end of a change: %w", err)
	}
	if len(ended.Value) > 0 {
		failpoint.Hit("after_change_end", e.ID)
	}
	return nil
}

// endApply ends the apply with what first writes, in one transaction; first is nil where all approved
// changes were applied. It does nothing where it has ended before, and where ended, which first
// fills, has no change: another hand applies that.
func (s *changes) endApply(ctx context.Context, ref flow.ApplyRef, first *db.Batch, ended *db.Answer[[]string]) error {
	e, err := s.readExecution(ctx, ref.TenantID, ref.ID)
	if err != nil {
		return err
	}
	status, read := SetStopped, first
	if first == nil {
		status, read = SetApplied, &db.Batch{}
	}
	set := db.Queue(read, s.q.LockMapChangeSet, dbsqlc.LockMapChangeSetParams{TenantID: ref.TenantID, Execution: ref.ID})
	db.QueueExec(read, s.q.LeaveMapChanges, dbsqlc.LeaveMapChangesParams{TenantID: ref.TenantID, DryRun: ref.ID})
	counts := db.Queue(read, s.q.CountMapChangesByStatus, dbsqlc.CountMapChangesByStatusParams{TenantID: ref.TenantID, DryRun: ref.ID})
	err = s.d.DB.ReadAndWrite(ctx, ref.TenantID, read, func() (*db.Batch, error) {
		if len(set.Value) == 0 || SetStatus(set.Value[0]) != SetApplying || ended != nil && len(ended.Value) == 0 {
			return nil, nil //nolint:nilnil // nothing to write is a value here
		}
		b := &db.Batch{}
		db.QueueExec(b, s.q.SetMapChangeSet, dbsqlc.SetMapChangeSetParams{TenantID: ref.TenantID, Execution: ref.ID, Status: string(status), Now: s.d.Now()})
		rec := audit.Change(actor.Actor{Kind: actor.Map, TenantID: e.TenantID, ID: e.MapID}, audit.MapChangesApplied, audit.SubjectMap, e.MapID.String())
		rec.ExecutionID, rec.SessionID, rec.Outcome = e.ExecutionID, db.Optional(e.SessionID), string(status)
		details := map[string]any{}
		for _, row := range counts.Value {
			details[row.Status] = row.N
		}
		audit.Queue(b, rec.With(details))
		return b, nil
	})
	if err != nil {
		return fmt.Errorf("execution: end of an apply: %w", err)
	}
	s.reruns.take(ref.ID)
	return nil
}

// startApply starts the workflow that applies the changes of a dry run.
func (s *changes) startApply(ctx context.Context, e Execution) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	return s.d.Engine.StartApply(ctx, flow.ApplyRef{TenantID: e.TenantID, ID: e.ID}, flow.Listing{
		Kind: flow.KindChanges, Tenant: e.TenantID, Execution: e.ExecutionID, Subject: e.MapID.String(),
		Details: flow.ExecutionDetails(s.cfg.PublicURL, e.ExecutionID),
	})
}

// abandonedApply is why the changes are not applied whose workflow an operator has ended.
const abandonedApply = "The workflow that applied the changes was ended by an operator. The execution of the change says how far its call got."

// SweepApplies looks at changes that are being applied and were not for some time: it starts the
// workflow where its start was lost, and ends the apply where an operator has ended the workflow.
func (s *changes) SweepApplies(ctx context.Context) error {
	rows, err := s.q.MapChangeSetsToApply(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.MapChangeSetsToApplyParams{Before: s.d.Now().Add(-sweepAfter), Most: sweepPage})
	if err != nil {
		return fmt.Errorf("execution: sweep applies: %w", err)
	}
	for _, row := range rows {
		if err := s.repairApply(ctx, flow.ApplyRef{TenantID: row.TenantID, ID: row.Execution}, row.WorkflowID); err != nil {
			s.d.Log.WarnContext(ctx, "apply not repaired", "tenant_id", row.TenantID, "id", row.Execution, "error", err)
		}
	}
	return nil
}

func (s *changes) repairApply(ctx context.Context, ref flow.ApplyRef, workflowID string) error {
	open, found, err := s.d.Engine.IsOpen(ctx, workflowID)
	switch {
	case err != nil:
		return err
	case open:
		// It is looked at again after the others.
		return s.q.TouchMapChangeSet(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.TouchMapChangeSetParams{TenantID: ref.TenantID, Execution: ref.ID, Now: s.d.Now()})
	case !found:
		e, err := s.readExecution(ctx, ref.TenantID, ref.ID)
		if err != nil {
			return err
		}
		return s.startApply(ctx, e)
	}
	c, err := s.NextChange(ctx, ref)
	if err != nil || c == nil {
		return err
	}
	if c.Run == nil {
		return s.endApply(ctx, ref, &db.Batch{}, nil)
	}
	return s.EndChange(ctx, c, ChangeEnd{Status: ChangeFailed, Code: string(fault.CodeConflict), Reason: abandonedApply})
}

// deadlineOfChange is how long the call of a change may take until it is sent.
const deadlineOfChange = 15 * time.Minute

// Deadline returns until when the call of a change may be sent that is claimed now.
func (s *changes) Deadline() time.Time { return s.d.Now().Add(deadlineOfChange) }
