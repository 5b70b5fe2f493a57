package api

import (
	"context"

	"agentruntime/api/wire"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/service/changing"
)

// kind is the row of messages and goals, which are stored together.
func (h *agentHandlers) kind() executionKind {
	statuses := []conversation.Status{
		conversation.StatusRunning, conversation.StatusPaused, conversation.StatusPending, conversation.StatusCompleted, conversation.StatusFailed,
		conversation.StatusEscalated, conversation.StatusCancelled,
	}
	return executionKind{names: []string{kindMessage, kindGoal}, statuses: texts(statuses), list: h.listTurns, find: h.find}
}

func (h *agentHandlers) find(ctx context.Context, c *wire.Call) (foundExecution, error) {
	t, err := h.namedTurn(ctx, c)
	return foundTurn{h, t}, err
}

// namedTurn returns the message or the goal that the path names.
func (h *agentHandlers) namedTurn(ctx context.Context, c *wire.Call) (conversation.Turn, error) {
	return namedExecution(ctx, c, h.conversations.Get, "No message to an agent has this id.")
}

// foundTurn is a message or a goal.
type foundTurn struct {
	h *agentHandlers
	t conversation.Turn
}

func (f foundTurn) executionID(context.Context, *wire.Call) (string, error) {
	return f.t.ExecutionID, nil
}

func (f foundTurn) show(ctx context.Context, c *wire.Call, s shown) (wire.Reply, error) {
	t, err := f.h.turnSettled(ctx, c, f.t)
	if err != nil {
		return wire.Reply{}, err
	}
	return f.h.answerTurn(ctx, t, s.prompts)
}

func (f foundTurn) cancel(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	t, err := f.h.conversations.Cancel(ctx, c.Actor, f.t)
	if err != nil {
		return wire.Reply{}, err
	}
	return f.h.answerTurn(ctx, t, false)
}

func (f foundTurn) stream(ctx context.Context, c *wire.Call, _ *int64) error {
	return f.h.streamTurn(ctx, c, f.t)
}

func (f foundTurn) changes(ctx context.Context, _ *wire.Call, after int32, limit int) (wire.Reply, error) {
	if f.t.Kind != kindGoal {
		return wire.Reply{}, noChanges()
	}
	return f.h.answerGoalChanges(ctx, f.t, after, limit)
}

func (f foundTurn) decide(ctx context.Context, c *wire.Call, d changesDecision) (wire.Reply, error) {
	if f.t.Kind != kindGoal {
		return wire.Reply{}, noChanges()
	}
	return f.h.decideGoalChanges(ctx, c, f.t, changing.Decision{Selection: d.selection, Reason: d.reason, Until: d.until(goalApplyWait)})
}

// listTurns lists messages, goals or both.
func (h *agentHandlers) listTurns(ctx context.Context, c *wire.Call, q executionQuery, kinds []string) (page []listed, more bool, err error) {
	f := conversation.Filter{Limit: q.limit, Before: q.before, Status: q.status, SessionID: q.session, KeyID: q.key, Since: q.since, Until: q.until, Begins: q.q}
	if len(kinds) == 1 {
		f.Kind = flow.Kind(kinds[0])
	}
	var v wire.Validation
	f.AgentID = v.QueryID(c, "agent_id")
	if err := v.Err(); err != nil {
		return nil, false, err
	}
	if q.customer != "" {
		known, err := h.customers.Get(ctx, c.Actor.TenantID, q.customer)
		switch {
		case fault.HasCode(err, fault.CodeCustomerNotFound):
			return nil, false, nil // a message always has a customer who is known
		case err != nil:
			return nil, false, err
		}
		f.Customer = &known.ID
	}
	turns, more, err := h.conversations.List(ctx, c.Actor, f)
	for _, t := range turns {
		page = append(page, listed{t.ID, viewTurn(t, h.now())})
	}
	return page, more, err
}
