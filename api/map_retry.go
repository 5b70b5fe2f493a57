package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	mapruns "agentruntime/internal/maps/execution"
)

// retryBody is the body of a retry. Unknown members are refused.
type retryBody struct {
	FromStep *string                    `json:"from_step"`
	Edits    map[string]json.RawMessage `json:"edits"`
}

// retryMap lets a failed execution of a Map go on. It answers with the execution: 200 where it has
// ended by then, otherwise 202.
func (h *mapHandlers) retryMap(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b retryBody
	if err := c.DecodeOptional(&b, "/edits"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	retry := mapruns.Retry{FromStep: v.OptionalID("/from_step", b.FromStep), Edits: b.Edits}
	preferWait(&v, c)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if len(b.Edits) > 0 && !slices.Contains(admins(), c.Actor.Role) {
		return wire.Reply{}, fault.New(fault.CodeInsufficientPermissions, "Only an owner or an admin may edit inputs. An approver may retry without edits.")
	}
	e, err := h.namedExecution(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	if e, err = h.executions.Retry(ctx, c.Actor, e, retry); err != nil {
		return wire.Reply{}, err
	}
	if e, err = h.mapSettled(ctx, c, e); err != nil {
		return wire.Reply{}, err
	}
	rep, err := h.answerMapExecution(ctx, e)
	if err == nil && !e.Ended() {
		rep.Status = http.StatusAccepted
	}
	return rep, err
}
