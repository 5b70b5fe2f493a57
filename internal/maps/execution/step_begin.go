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
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
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

// addRetry adds what a retry goes on with to what its workflow begins with.
func addRetry(key *datakey.Key, row dbsqlc.MapExecution, begun *flow.MapBegun) error {
	at := headOfRow(row)
	again, err := openOptional(key, at.place(datakey.MapAgain), row.Again)
	if err != nil || again == nil {
		return err
	}
	if begun.State, err = openOptional(key, at.place(datakey.MapState), row.State); err != nil {
		return err
	}
	begun.Seq, begun.Again = int(row.Records), &stepmachine.Again{}
	if err := json.Unmarshal(again, begun.Again); err != nil {
		return fmt.Errorf("execution: retry of %s: %w", row.ID, err)
	}
	return nil
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
