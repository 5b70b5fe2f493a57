package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// CallChange is an intercepted write of a model step.
type CallChange struct {
	Ref  stepmachine.Ref
	Tool flow.MapTool
	// Call has the verb and the arguments. Invented of the arguments are the changes from whose made-up
	// results the step has its input.
	Call stepmachine.StartVerb
	// Path is the place of the call in its step, as its run has it.
	Path string
	// Agent is the stored agent that has made it; nil for none.
	Agent *uuid.UUID
	// Run is the intercepted run. Before is what its read-back has seen.
	Run    flow.RunRef
	Before verb.Look
}

// recordedChange is what is stored of a change. Only that of a model step has an agent, or a call.
type recordedChange struct {
	stepmachine.RecordChange

	Agent *uuid.UUID `json:"agent,omitempty"`
	// ByModel: a model has made the arguments.
	ByModel bool `json:"by_model,omitempty"`
}

// KeepCallChange adds the write to the list of the dry run. Its id is that of the intercepted run, so it
// can be repeated.
func (s *steps) KeepCallChange(ctx context.Context, e Execution, c CallChange) error {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return fmt.Errorf("execution: %w", err)
	}
	id, dependsOn := executionIDOf(c.Run.RunID), append([]string{}, c.Call.Args.Invented...)
	record := recordedChange{
		RecordChange: stepmachine.RecordChange{ID: id, Ref: c.Ref, Verb: c.Call.Verb, Args: c.Call.Args, DependsOn: dependsOn},
		Agent:        c.Agent, ByModel: true,
	}
	b := &db.Batch{}
	s.queueValue(b, key, e, changePrefix+id, stepmachine.Of(mustJSON(record)))
	if c.Before.Declared {
		s.queueBefore(b, key, e, c.Path, c.Run, c.Before)
	}
	db.QueueExec(b, s.q.RecordMapChangeOfCall, dbsqlc.RecordMapChangeOfCallParams{
		TenantID: e.TenantID, DryRun: e.listOf(), ID: id, Execution: e.ID, Above: append([]int32{}, e.changesAt...),
		At:   []int32{int32(c.Ref.Attempt), int32(c.Tool.Turn), int32(c.Tool.Number)},
		Path: append(slices.Clone(e.changesPath), c.Path), Verb: c.Call.Verb, DependsOn: dependsOn, Step: pathOf(c.Ref),
	})
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return fmt.Errorf("execution: keep a change of a model step: %w", err)
	}
	return nil
}

// queueChange adds a change to the list. at is its number among the records of its execution, which
// also has the steps that start others.
func (s *steps) queueChange(b *db.Batch, e Execution, c stepmachine.RecordChange, at int) {
	db.QueueExec(b, s.q.RecordMapChange, dbsqlc.RecordMapChangeParams{
		TenantID: e.TenantID, DryRun: e.listOf(), ID: c.ID, Execution: e.ID, Verb: c.Verb, DependsOn: append([]string{}, c.DependsOn...),
		Place: append(slices.Clone(e.changesAt), int32(at)), Path: append(slices.Clone(e.changesPath), pathOf(c.Ref)),
	})
}

// Invent returns a made-up result of a write of a dry run: of what its step expects, otherwise of the
// schema of the verb's answer. answer reads that one, and is only called where it is needed.
func (s *steps) Invent(ctx context.Context, e Execution, ref stepmachine.Ref, answer func(context.Context) (json.RawMessage, error)) (stepmachine.Value, error) {
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return stepmachine.Value{}, err
	}
	var schema json.RawMessage
	if v.Program.WantsAnswer(ref) {
		if schema, err = answer(ctx); err != nil {
			return stepmachine.Value{}, err
		}
	}
	return stepmachine.Of(v.Program.Invent(ref, schema)), nil
}

// KeepBefore stores what the probe of a run saw before a change of a dry run, and returns what it
// found as a value.
func (s *steps) KeepBefore(ctx context.Context, e Execution, ref stepmachine.Ref, probed flow.RunRef, look verb.Look) (stepmachine.Value, error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return stepmachine.Value{}, fmt.Errorf("execution: %w", err)
	}
	name, v, b := beforePrefix+pathOf(ref), stepmachine.Of(look.Value), &db.Batch{}
	s.queueBefore(b, key, e, pathOf(ref), probed, look)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return v, fmt.Errorf("execution: keep what was before: %w", err)
	}
	if len(v.JSON) > stepmachine.MaxInline {
		v = Reference(name, v.JSON, nil)
	}
	return v, nil
}

// queueBefore stores what the probe of the run saw before the change at the place.
func (s *steps) queueBefore(b *db.Batch, key *datakey.Key, e Execution, place string, probed flow.RunRef, look verb.Look) {
	s.queueLook(b, key, e, beforePrefix+place, look)
	s.queueValue(b, key, e, probePrefix+place, stepmachine.Of(mustJSON(probed)))
}

// changesToAsk returns of how many changes people are asked when the execution ends so: none for one that
// is no completed dry run with a list of its own, or of which they were asked before.
func (s *steps) changesToAsk(ctx context.Context, e Execution, in flow.MapFinish) (int64, error) {
	if !e.DryRun || e.changesOf != nil || in.Finish.Status != stepmachine.StatusCompleted {
		return 0, nil
	}
	row, err := s.q.CountMapChanges(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.CountMapChangesParams{TenantID: e.TenantID, DryRun: e.ID})
	switch {
	case err != nil:
		return 0, fmt.Errorf("execution: count changes: %w", err)
	case row.Asked:
		return 0, nil
	}
	for _, command := range in.Commands {
		if _, is := command.(stepmachine.RecordChange); is {
			row.Changes++
		}
	}
	return row.Changes, nil
}

// queueAskChanges asks people about the changes of a dry run.
func (s *steps) queueAskChanges(b *db.Batch, key *datakey.Key, e Execution, changes int64) {
	n := approval.New{
		ID: approval.NewID(), Kind: governance.ApprovalOfChanges, Reason: fmt.Sprintf("A dry run of a Map would change something %d times.", changes),
		Args: mustJSON(map[string]any{"map_id": e.MapID, "version": e.Version, "changes": changes}),
		Subject: approval.Subject{
			TenantID: e.TenantID, Type: approval.SubjectMapChanges, ID: e.ID.String(), Attempt: 1, ExecutionID: e.ExecutionID,
		},
		Requester: actor.CallerOf(e.KeyID, e.UserID), Requirements: []governance.Requirement{{Rule: governance.DefaultApproval()}},
	}
	timeout, _, _ := governance.MergedRule(n.Requirements)
	n.ExpiresAt = s.d.Now().Add(timeout)
	db.QueueExec(b, s.q.ProposeMapChanges, dbsqlc.ProposeMapChangesParams{
		TenantID: e.TenantID, Execution: e.ID, WorkflowID: flow.ApplyWorkflowID(flow.ApplyRef{TenantID: e.TenantID, ID: e.ID}), Now: s.d.Now(),
	})
	approval.Ask(b, n)
	rec := audit.Change(e.actor(), audit.MapAsked, audit.SubjectApproval, n.ID)
	rec.ExecutionID, rec.SessionID, rec.Outcome = e.ExecutionID, db.Optional(e.SessionID), string(governance.ApprovalPending)
	audit.Queue(b, rec.With(map[string]any{"approval_id": n.ID, "map_id": e.MapID, "changes": changes}))
	queueRequestedEvent(b, key, e, n)
	s.d.Quotas.Queue(b, e.TenantID, quota.DryRuns)
}
