package api

import (
	"context"
	"strconv"

	"agentruntime/api/wire"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/base/fault"
	mapruns "agentruntime/internal/maps/execution"
)

func viewChange(c mapruns.Change) changeView {
	return changeView{
		ID: c.ID, Number: c.Number, Status: c.Status, Verb: c.Verb, Step: c.Step, Path: c.Path, Args: c.Args, Before: c.Before, After: c.After,
		BeforeState: textOrNull(string(c.BeforeState)), AfterState: textOrNull(string(c.AfterState)),
		DependsOn: c.DependsOn, ExecutionID: textOrNull(c.Run), Code: textOrNull(c.Code), Reason: textOrNull(c.Reason),
	}
}

func (h *mapHandlers) answerChanges(ctx context.Context, e mapruns.Execution, after int32, limit int) (wire.Reply, error) {
	list, err := h.executions.Changes(ctx, e, after, limit)
	if err != nil {
		return wire.Reply{}, err
	}
	v := changesView{
		ExecutionID: e.ExecutionID, Status: textOrNull(string(list.Status)), ApprovalID: textOrNull(list.ApprovalID), ExpiresAt: list.ExpiresAt,
		DecidedBy: byUser(list.DecidedBy), Changes: make([]changeView, len(list.Changes)),
	}
	last := ""
	for i, change := range list.Changes {
		v.Changes[i], last = viewChange(change), strconv.Itoa(int(change.Number))
	}
	return wire.Reply{Data: v, Page: wire.PageAfter(limit, list.More, last)}, nil
}

// decideOnce has a decision counted. One that was made before is not counted again.
func (h *mapHandlers) decideOnce(ctx context.Context, c *wire.Call, e mapruns.Execution, sel mapruns.Selection, reason string) error {
	p, err := h.executions.Propose(ctx, e, sel)
	if err != nil || p.Made {
		return err
	}
	in := desk.Input{Approve: p.Approve, Chosen: p.Chosen, Reason: reason}
	_, err = h.approvals.Decide(ctx, c.Actor, p.ApprovalID, in)
	if fault.HasCode(err, fault.CodeApprovalNotPending) {
		// Another decision was first. It may have been the same.
		if again, other := h.executions.Propose(ctx, e, sel); other != nil || again.Made {
			return other
		}
		return fault.New(fault.CodeConflict, "The time to decide about the changes is over. Make another dry run.")
	}
	return err
}
