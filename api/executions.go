package api

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"agentruntime/api/wire"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
)

func (h *executionHandlers) getExecution(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	after, err := stepsAfter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	prompts, err := wantsPrompts(c)
	if err != nil {
		return wire.Reply{}, err
	}
	e, _, err := h.find(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	return e.show(ctx, c, shown{stepsAfter: after, prompts: prompts})
}

// stepsAfter returns the number of the step after which the answer shows steps.
func stepsAfter(c *wire.Call) (int32, error) {
	text, given := c.Query("steps_after")
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, fault.Invalid("query.steps_after", "minimum", "steps_after is next_steps_after of an earlier answer.")
	}
	return int32(n), nil
}

func (h *executionHandlers) cancelExecution(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	e, _, err := h.find(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	return e.cancel(ctx, c)
}

type resolveBody struct {
	Outcome *string         `json:"outcome"`
	Result  json.RawMessage `json:"result"`
	Reason  *string         `json:"reason"`
}

func (h *executionHandlers) resolveExecution(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b resolveBody
	if err := c.DecodeExact(&b, "/result"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	outcome := strings.ToLower(v.Text("/outcome", b.Outcome, 20))
	if b.Outcome != nil && outcome != "executed" && outcome != "failed" {
		v.Add("/outcome", "enum", near.Enum("outcome", outcome, "executed", "failed"))
	}
	res := run.Resolution{Executed: outcome == "executed", Reason: v.Text("/reason", b.Reason, 2000)}
	if len(b.Result) > 0 && string(b.Result) != "null" {
		res.Result = v.Object("/result", b.Result, false)
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	room := &answerRoom{answers: h.actions.answers, c: c}
	r, err := h.actions.runs.Resolve(run.WithRoom(ctx, room.take), c.Actor, c.Param("id"), res)
	if fault.HasCode(err, fault.CodeExecutionNotFound) {
		if _, kind, other := h.find(ctx, c); other != nil || kind.unresolvable != "" {
			return wire.Reply{}, cmp.Or(other, error(fault.New(fault.CodeConflict, kind.unresolvable)))
		}
	}
	if err != nil {
		return wire.Reply{}, err
	}
	return h.actions.answerExecution(ctx, r), nil
}
