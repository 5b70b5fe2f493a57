package execution

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/audit"
)

// TurnStart starts a Map for a message to an agent.
type TurnStart struct {
	MapID   uuid.UUID
	Version int32
	Payload json.RawMessage
	// Message is the execution_id of the message, Workflow its workflow, AgentID the agent, and Step the
	// call that asks for the Map.
	Message, Workflow string
	AgentID           uuid.UUID
	Step              string
	// Chain has the message and what is above it.
	Chain agentloop.Chain
	// SessionID is that of the conversation, Customer the customer's id; "" where there is none.
	SessionID, Customer string
	// Tainted: the agent has read what others than the tenant wrote. TaintSources say what.
	Tainted      bool
	TaintSources []string
	Metadata     json.RawMessage
	// Also queues what is written with the claim of the execution with the id. A repeat does not call it.
	Also func(b *db.Batch, executionID string)
}

// StartForTurn starts a Map for a message to an agent, in the name of who. It can be repeated: the
// call of the message always gets the same execution. It refuses as Trigger does.
func (s *triggers) StartForTurn(ctx context.Context, who actor.Actor, in TurnStart) (Execution, error) {
	rows, err := s.q.MapOfStep(ctx, s.d.DB.Tenant(who.TenantID), dbsqlc.MapOfStepParams{TenantID: who.TenantID, ParentID: in.Message, Step: in.Step})
	if err != nil {
		return Execution{}, fmt.Errorf("execution: look for that of a message: %w", err)
	}
	if len(rows) > 0 { // what is refused now may have been started before
		return s.openExecution(ctx, rows[0])
	}
	version, err := s.d.Definitions.Version(ctx, who.TenantID, in.MapID, in.Version)
	if err != nil {
		return Execution{}, err
	}
	if wrong := version.Program.CheckPayload(in.Payload); wrong != nil {
		return Execution{}, fault.Newf(fault.CodeInvalidArgs, "The arguments do not fit the Map: %s %s", wrong[0].Path, wrong[0].Message)
	}
	if in.Chain.Maps >= MaxDepth {
		return Execution{}, fault.Newf(fault.CodeConflict, "More than %d Maps would start each other in a row.", MaxDepth)
	}
	id := uuid.Must(uuid.NewV7())
	parent := &Parent{Execution: Execution{ExecutionID: in.Message}, Step: in.Step, Awaited: true, turn: &in}
	parent.also = func(b *db.Batch, id uuid.UUID) { in.Also(b, executionIDOf(id)) }
	e, fresh, err := s.claimExecution(ctx, who, id, version, Request{
		MapID: in.MapID, Payload: in.Payload, SessionID: in.SessionID, Customer: in.Customer, Metadata: in.Metadata, Parent: parent,
	}, nil)
	if err != nil || !fresh || waitsInLine(e) {
		return e, err
	}
	// It may have to wait for the turn of its tenant, and the message does not.
	go func(ctx context.Context) {
		if err := s.workflows.startInTurn(ctx, e); err != nil {
			// Sweep starts it.
			s.d.Log.WarnContext(ctx, "execution not started", "execution_id", e.ExecutionID, "error", err)
		}
	}(context.WithoutCancel(ctx))
	return e, nil
}

// ReadForTurn returns an execution that a message has started. stop has it cancelled first.
func (s *triggers) ReadForTurn(ctx context.Context, tenant, id uuid.UUID, stop bool) (Execution, error) {
	e, err := s.readExecution(ctx, tenant, id)
	if err != nil || !stop || e.Ended() {
		return e, err
	}
	by := actor.Actor{Kind: actor.System, TenantID: tenant}
	if n := len(e.Chain.Turns); n > 0 {
		by.Kind, by.ID = actor.Agent, e.Chain.Turns[n-1].AgentID
	}
	after, err := s.setWanted(ctx, by, e, audit.MapCancelled, dbsqlc.WantOfMapParams{Cancel: true})
	if fault.HasCode(err, fault.CodeConflict) {
		return s.readExecution(ctx, tenant, id)
	}
	return after, err
}

// WaitsFor returns what the execution waits for; "" where it works.
func (e Execution) WaitsFor() stepmachine.Waiting {
	if e.Ended() {
		return ""
	}
	return waitsOf(e)
}

// TurnAnswer is the answer of a message to the question of an execution that an earlier message of its
// session has started.
type TurnAnswer struct {
	ID uuid.UUID
	// Workflow is that of the message, which hears of the execution from now on. Chain has the message and
	// what is above it: what the execution uses from now on counts for those. Tainted: the message is.
	Workflow string
	Chain    agentloop.Chain
	Tainted  bool
	// TaintSources say by what.
	TaintSources []string
	// Metadata is that of a TurnStart of the message: policies judge by its words from now on.
	Metadata json.RawMessage
	Data     json.RawMessage
	// Also queues what is written with the answer.
	Also func(b *db.Batch, executionID string)
}

// AnswerForTurn gives the answer to the execution. It refuses as Signal does.
func (s *triggers) AnswerForTurn(ctx context.Context, by actor.Actor, in TurnAnswer) error {
	e, err := s.readExecution(ctx, by.TenantID, in.ID)
	if err != nil {
		return err
	}
	if e.broken != nil {
		return e.broken
	}
	if was, is := e.Chain.Driver(), in.Chain.Driver(); was != nil && is != nil {
		is.Drives = was.Drives // the version that has started the Map does its steps
	}
	_, err = s.people.storeSignal(ctx, by, e, Signal{Name: stepmachine.SignalInput, Data: in.Data}, func(b *db.Batch) {
		db.QueueExec(b, s.q.MoveMapCaller, dbsqlc.MoveMapCallerParams{TenantID: e.TenantID, ID: e.ID, Workflow: in.Workflow, Chain: mustJSON(in.Chain), Tainted: in.Tainted, Sources: append([]string{}, in.TaintSources...), Metadata: in.Metadata})
		in.Also(b, e.ExecutionID)
	})
	return err
}
