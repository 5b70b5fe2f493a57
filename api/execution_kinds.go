package api

import (
	"context"
	"strings"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// The kinds of executions.
const (
	kindAction  = "action"
	kindMap     = "map"
	kindMessage = "message"
	kindGoal    = "goal"
	kindAll     = "all" // lists executions of all kinds in one list
)

// allKinds returns the kinds in the order in which answers list them.
func allKinds() []string { return []string{kindAction, kindMap, kindMessage, kindGoal} }

// executionKind is a row of the registry: what the endpoints of executions need to know about
// executions that are stored together. A new kind of execution is one more row.
type executionKind struct {
	// names are the kinds that the executions have, as callers read and filter them.
	names    []string
	statuses []string
	// list returns a page of the executions that have one of the kinds.
	list func(ctx context.Context, c *wire.Call, q executionQuery, kinds []string) (page []listed, more bool, err error)
	// find returns the execution that the path names. It refuses with EXECUTION_NOT_FOUND where the
	// path names none of this kind.
	find func(ctx context.Context, c *wire.Call) (foundExecution, error)
	// unresolvable says why no person sets the outcome of one; "" says nothing.
	unresolvable string
}

// foundExecution is an execution that a path names.
type foundExecution interface {
	// executionID is the id of the execution. The path of a run may name another key.
	executionID(ctx context.Context, c *wire.Call) (string, error)
	// show answers with the execution. It waits for the end as long as Prefer says.
	show(ctx context.Context, c *wire.Call, s shown) (wire.Reply, error)
	cancel(ctx context.Context, c *wire.Call) (wire.Reply, error)
	// stream follows the execution to its end, from the place since on.
	stream(ctx context.Context, c *wire.Call, since *int64) error
	// changes answers with what a dry run has not written, after the change with the number.
	changes(ctx context.Context, c *wire.Call, after int32, limit int) (wire.Reply, error)
	decide(ctx context.Context, c *wire.Call, d changesDecision) (wire.Reply, error)
}

// shown is what a call wants to see of an execution beside its row.
type shown struct {
	stepsAfter int32
	prompts    bool
}

// kinds is the registry, in the order in which an id is looked up. Runs come last: their ids are
// also keys that callers chose, and their own queries say that there is none.
func (h *executionHandlers) kinds() []executionKind {
	return []executionKind{h.maps.kind(), h.agents.kind(), h.actions.kind()}
}

// find returns the execution that the path names, with its row of the registry.
func (h *executionHandlers) find(ctx context.Context, c *wire.Call) (foundExecution, executionKind, error) {
	for _, kind := range h.kinds() {
		e, err := kind.find(ctx, c)
		if !fault.HasCode(err, fault.CodeExecutionNotFound) {
			return e, kind, err
		}
	}
	return nil, executionKind{}, fault.New(fault.CodeExecutionNotFound, "")
}

// namedExecution returns the execution that the path names. none is what the refusal says where there
// is none.
func namedExecution[T any](ctx context.Context, c *wire.Call, get func(ctx context.Context, who actor.Actor, id string) (T, error), none string) (e T, err error) {
	if id := c.Param("id"); strings.HasPrefix(id, "exec_") { // only runs have other names
		if e, err = get(ctx, c.Actor, id); !fault.HasCode(err, fault.CodeExecutionNotFound) {
			return e, err
		}
	}
	return e, fault.New(fault.CodeExecutionNotFound, none)
}
