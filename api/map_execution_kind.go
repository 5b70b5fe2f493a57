package api

import (
	"context"
	"net/http"

	"agentruntime/api/wire"
	mapruns "agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/event"
)

// kind is the row of executions of Maps.
func (h *mapHandlers) kind() executionKind {
	statuses := []stepmachine.Status{
		stepmachine.StatusRunning, stepmachine.StatusWaiting, stepmachine.StatusPending, stepmachine.StatusPaused,
		stepmachine.StatusEscalated, stepmachine.StatusCompleted, stepmachine.StatusFailed, stepmachine.StatusCancelled,
	}
	return executionKind{
		names: []string{kindMap}, statuses: texts(statuses), list: h.listMapExecutions, find: h.find,
		unresolvable: "This is an execution of a Map. Resolve the call whose outcome is unknown: steps of the execution have its execution_id.",
	}
}

func (h *mapHandlers) find(ctx context.Context, c *wire.Call) (foundExecution, error) {
	e, err := h.namedExecution(ctx, c)
	return foundMapExecution{h, e}, err
}

// namedExecution returns the execution of a Map that the path names.
func (h *mapHandlers) namedExecution(ctx context.Context, c *wire.Call) (mapruns.Execution, error) {
	return namedExecution(ctx, c, h.executions.Get, "No execution of a Map has this id.")
}

// foundMapExecution is an execution of a Map.
type foundMapExecution struct {
	h *mapHandlers
	e mapruns.Execution
}

func (f foundMapExecution) executionID(context.Context, *wire.Call) (string, error) {
	return f.e.ExecutionID, nil
}

func (f foundMapExecution) show(ctx context.Context, c *wire.Call, s shown) (wire.Reply, error) {
	e, err := f.h.mapSettled(ctx, c, f.e)
	if err != nil {
		return wire.Reply{}, err
	}
	return f.h.answerMapSteps(ctx, e, s.stepsAfter)
}

func (f foundMapExecution) cancel(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	e, err := f.h.executions.Cancel(ctx, c.Actor, f.e)
	if err != nil {
		return wire.Reply{}, err
	}
	return f.h.answerMapExecution(ctx, e)
}

func (f foundMapExecution) stream(ctx context.Context, c *wire.Call, since *int64) error {
	// It counts as a stream of events, and ends as one.
	place, err := f.h.events.Stream(ctx, c.Actor.TenantID, event.Filter{ExecutionID: f.e.ExecutionID}, &event.Place{})
	if err != nil {
		return err
	}
	defer place.Close()
	from := &mapRunSource{h: f.h, place: place, e: f.e, since: since, sent: map[string]int32{}}
	return f.h.streams.live(ctx, c, route{takes: takesKeyOrJWT, roles: anyRole()}, from)
}

func (f foundMapExecution) changes(ctx context.Context, _ *wire.Call, after int32, limit int) (wire.Reply, error) {
	return f.h.answerChanges(ctx, f.e, after, limit)
}

func (f foundMapExecution) decide(ctx context.Context, c *wire.Call, d changesDecision) (wire.Reply, error) {
	if err := f.h.decideOnce(ctx, c, f.e, d.selection, d.reason); err != nil {
		return wire.Reply{}, err
	}
	ended, err := f.h.executions.AwaitApply(ctx, f.e, d.until(0))
	if err != nil {
		return wire.Reply{}, err
	}
	rep, err := f.h.answerChanges(ctx, f.e, 0, changesAnswered)
	if err == nil && !ended {
		rep.Status = http.StatusAccepted
	}
	return rep, err
}

func (h *mapHandlers) listMapExecutions(ctx context.Context, c *wire.Call, q executionQuery, _ []string) (page []listed, more bool, err error) {
	f := mapruns.Filter{
		Limit: q.limit, Before: q.before, Status: q.status, SessionID: q.session, CustomerID: q.customer, KeyID: q.key, Since: q.since, Until: q.until, Begins: q.q,
	}
	var v wire.Validation
	f.ParentID, f.MapID = v.QueryText(c, "parent_execution_id"), v.QueryID(c, "map_id")
	if f.DryRun, err = c.QueryBool("dry_run"); err != nil {
		return nil, false, err
	}
	if err := v.Err(); err != nil {
		return nil, false, err
	}
	list, more, err := h.executions.List(ctx, c.Actor, f)
	for _, e := range list {
		page = append(page, listed{e.ID, viewMapExecution(e, h.now())})
	}
	return page, more, err
}
