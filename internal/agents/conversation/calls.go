package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/models/model"
)

// Call is a message to an agent that another execution writes: a message to an agent, or a step of a
// Map.
type Call struct {
	AgentID uuid.UUID
	// Version is 0 for the published one.
	Version int32
	Message string
	// Execution is the execution_id of the one that asks, Workflow its workflow, Step the place of the
	// call in it, and By who asks.
	Execution, Workflow, Step string
	By                        actor.Actor
	Chain                     agentloop.Chain
	Customer                  *uuid.UUID
	CustomerName              string
	Metadata                  json.RawMessage
	// Tainted: who asks has read what others than the tenant wrote. TaintSources say what.
	Tainted      bool
	TaintSources []string
	// Also queues what is written with the claim of the message with the execution_id.
	Also func(b *db.Batch, executionID string)
}

// callMark begins the keys of calls. Callers' keys are visible ASCII.
const callMark = "\x1f"

func (c *Call) key() string { return callMark + c.Execution + callMark + c.Step }

// note sets what a row has of the call.
func (c *Call) note(row *claim, t *Turn) {
	row.ParentID, row.Step, row.CallerWorkflow, row.Chain = &c.Execution, &c.Step, &c.Workflow, &c.Chain
	t.ParentID, t.callerWorkflow, t.Chain = c.Execution, c.Workflow, c.Chain
}

// queue queues what goes with the claim, and returns who has made it.
func (c *Call) queue(b *db.Batch, s *Service, t Turn) actor.Actor {
	s.queueTaint(b, t, Taint{c.Tainted, c.TaintSources})
	c.Also(b, t.ExecutionID)
	return c.By
}

// Ask writes a message to an agent for another execution, in the name of who, and starts its workflow.
// It can be repeated: the call always gets the same message. It refuses with AGENT_NOT_FOUND, and with
// CONFLICT where the agent is paused, or where too many agents would call each other in a row, and
// with CUSTOMER_NOT_FOUND where the customer was erased meanwhile.
func (s *Service) Ask(ctx context.Context, who actor.Actor, call Call) (Turn, error) {
	known, err := s.q.TurnOfKey(ctx, s.d.DB.Tenant(who.TenantID), dbsqlc.TurnOfKeyParams{TenantID: who.TenantID, AgentID: call.AgentID, Key: call.key()})
	switch {
	case err == nil: // what is refused now may have been claimed before
		return s.read(ctx, flow.TurnRef{TenantID: who.TenantID, ID: known})
	case !db.IsNoRows(err):
		return Turn{}, fmt.Errorf("conversation: look for the message of a call: %w", err)
	}
	if len(call.Chain.Turns) >= agentdef.MaxAgentDepth {
		return Turn{}, fault.Newf(fault.CodeConflict, "More than %d agents would call each other in a row.", agentdef.MaxAgentDepth)
	}
	for _, above := range call.Chain.Turns {
		if above.AgentID == call.AgentID {
			return Turn{}, fault.New(fault.CodeConflict, "The agent would call itself, directly or through others.")
		}
	}
	agent, err := s.d.Agents.Agent(ctx, who.TenantID, call.AgentID, call.Version)
	if err != nil {
		return Turn{}, err
	}
	if agent.Paused {
		return Turn{}, fault.New(fault.CodeConflict, "The agent is paused, so it takes no messages.")
	}
	writer := &Writer{}
	if call.Customer != nil {
		writer.ID = *call.Customer
	}
	t, outcome, err := s.claim(ctx, who, agent, writer, Request{
		AgentID: call.AgentID, Message: call.Message, Key: call.key(), CustomerID: call.CustomerName, Metadata: call.Metadata, call: &call,
	})
	if err == nil && outcome == claimGone {
		return t, fault.New(fault.CodeCustomerNotFound, "The customer was erased.")
	}
	if err != nil || outcome != claimWorking {
		return t, err
	}
	if err := s.start(ctx, t, agent); err != nil {
		// Sweep starts it.
		s.d.Log.WarnContext(ctx, "turn not started", "execution_id", t.ExecutionID, "error", err)
	}
	return t, nil
}

// ReadForCaller returns a message that another execution has written. stop asks it to end first, in
// the name of by.
func (s *Service) ReadForCaller(ctx context.Context, ref flow.TurnRef, by actor.Actor, stop bool) (Turn, error) {
	t, err := s.read(ctx, ref)
	if err != nil || !stop || t.State == Ended || t.WantsCancel {
		return t, err
	}
	after, err := s.Cancel(ctx, by, t)
	if fault.HasCode(err, fault.CodeConflict) {
		return s.read(ctx, ref)
	}
	return after, err
}

// MapOfSession returns the execution_id of the last Map that messages of the turn's session have started;
// "" where there is none.
func (s *Service) MapOfSession(ctx context.Context, t Turn) (string, error) {
	if t.SessionID == "" {
		return "", nil
	}
	rows, err := s.q.MapOfSession(ctx, s.d.DB.Tenant(t.TenantID), dbsqlc.MapOfSessionParams{TenantID: t.TenantID, Conversation: t.Conversation, Turn: t.ID})
	if err != nil {
		return "", fmt.Errorf("conversation: the Map of a session: %w", err)
	}
	for _, row := range rows {
		return db.Text(row), nil
	}
	return "", nil
}

// QueueUsed counts what was used below the messages of a chain for them, the nearest first: all take
// their rows in that order.
func (s *Service) QueueUsed(b *db.Batch, tenant uuid.UUID, chain agentloop.Chain, u model.Usage, money int64) {
	for _, above := range slices.Backward(chain.Turns) {
		db.QueueExec(b, s.q.CountForCaller, dbsqlc.CountForCallerParams{TenantID: tenant, ID: above.ID, Tokens: u.Total(), Estimated: u.Estimate, Money: money})
	}
}

// Spent reports which limits of the messages of a chain are used up. It costs a round trip where there
// are some.
func (s *Service) Spent(ctx context.Context, tenant uuid.UUID, chain agentloop.Chain) (tokens, money bool, err error) {
	if len(chain.Turns) == 0 {
		return false, false, nil
	}
	ids := make([]uuid.UUID, len(chain.Turns))
	for i, above := range chain.Turns {
		ids[i] = above.ID
	}
	rows, err := s.q.UsedByTurns(ctx, s.d.DB.Tenant(tenant), dbsqlc.UsedByTurnsParams{TenantID: tenant, Ids: ids})
	if err != nil {
		return false, false, fmt.Errorf("conversation: what the callers have used: %w", err)
	}
	for _, row := range rows {
		for _, above := range chain.Turns {
			if above.ID == row.ID {
				tokens = tokens || above.Tokens > 0 && row.TokensUsed >= above.Tokens
				money = money || above.MoneyMicros > 0 && row.MoneyMicros >= above.MoneyMicros
			}
		}
	}
	return tokens, money, nil
}
