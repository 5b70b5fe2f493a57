package execution

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/stepmachine"
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
