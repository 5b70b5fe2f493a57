package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/base/fault"
	mapruns "agentruntime/internal/maps/execution"
	"agentruntime/internal/service/changing"
)

// changesView is a page of the writes that a dry run of a Map or a goal has not made.
type changesView struct {
	ExecutionID string `json:"execution_id"`
	// Status is null where people were not asked about them.
	Status     *string      `json:"status"`
	ApprovalID *string      `json:"approval_id"`
	ExpiresAt  *time.Time   `json:"expires_at"`
	DecidedBy  *string      `json:"decided_by"`
	Changes    []changeView `json:"changes"`
}

type changeView struct {
	ID     string               `json:"id"`
	Number int32                `json:"number"`
	Status mapruns.ChangeStatus `json:"status"`
	Verb   string               `json:"verb"`
	Step   string               `json:"step"`
	Path   []string             `json:"path"`
	Args   json.RawMessage      `json:"args"`
	// Before and After are null where nothing was read. The states say why, and are null where nothing
	// has looked.
	Before      json.RawMessage `json:"before"`
	BeforeState *string         `json:"before_state"`
	After       json.RawMessage `json:"after"`
	AfterState  *string         `json:"after_state"`
	DependsOn   []string        `json:"depends_on"`
	// ExecutionID is that of the run that applies it, null before.
	ExecutionID *string `json:"execution_id"`
	// Code and Reason say why it was not applied.
	Code   *string `json:"code"`
	Reason *string `json:"reason"`
	// ApprovalID asks about this change alone; null where one approval asks about all.
	ApprovalID *string `json:"approval_id"`
}

func viewChange(c mapruns.Change) changeView {
	return changeView{
		ID: c.ID, Number: c.Number, Status: c.Status, Verb: c.Verb, Step: c.Step, Path: c.Path, Args: c.Args, Before: c.Before, After: c.After,
		BeforeState: textOrNull(string(c.BeforeState)), AfterState: textOrNull(string(c.AfterState)),
		DependsOn: c.DependsOn, ExecutionID: textOrNull(c.Run), Code: textOrNull(c.Code), Reason: textOrNull(c.Reason),
	}
}

func (h *mapHandlers) listChanges(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	limit, err := c.Limit()
	if err != nil {
		return wire.Reply{}, err
	}
	cursor, err := c.CursorText()
	if err != nil {
		return wire.Reply{}, err
	}
	after := int64(0)
	if cursor != "" {
		if after, err = strconv.ParseInt(cursor, 10, 32); err != nil || after < 0 {
			return wire.Reply{}, fault.Invalid("query.cursor", "format", "cursor is the next_cursor of an earlier answer.")
		}
	}
	e, found, err := h.mapExecutionOf(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	if found {
		return h.answerChanges(ctx, e, int32(after), limit)
	}
	t, err := h.agents.goalOrNone(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	return h.agents.answerGoalChanges(ctx, t, int32(after), limit)
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

// decideBody is the body of a decision about changes. Unknown members are refused.
type decideBody struct {
	Approve json.RawMessage `json:"approve"`
	Reject  json.RawMessage `json:"reject"`
	Reason  *string         `json:"reason"`
}

// selection reads which changes are approved and rejected.
func (b decideBody) selection(v *wire.Validation) (sel mapruns.Selection) {
	sel.Approve, sel.ApproveAll = idsOrAll(v, "/approve", b.Approve)
	sel.Reject, sel.RejectAll = idsOrAll(v, "/reject", b.Reject)
	if b.Approve == nil && b.Reject == nil {
		v.Add("/approve", "required", `approve and reject say what becomes of the changes: a list of ids, or "all" for those that the other one does not name.`)
	}
	return sel
}

func idsOrAll(v *wire.Validation, path string, raw json.RawMessage) (ids []string, all bool) {
	if raw == nil {
		return nil, false
	}
	if string(raw) == `"all"` {
		return nil, true
	}
	if json.Unmarshal(raw, &ids) != nil || ids == nil {
		v.Add(path, "type", path[1:]+` is a list of ids of changes, or "all".`)
		return nil, false
	}
	for i, id := range ids {
		if !wire.VisibleASCII(id, 255) {
			v.Add(fmt.Sprintf("%s/%d", path, i), "format", path[1:]+" has only ids of changes.")
			return nil, false
		}
	}
	return ids, false
}

// decideChanges decides about the changes of a dry run and has the approved ones applied. It answers
// with the first page of the changes: 200 where none is being applied any longer, otherwise 202.
func (h *mapHandlers) decideChanges(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b decideBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	sel, wait := b.selection(&v), preferWait(&v, c.Request.Header.Values("Prefer"))
	reason := v.OptionalText("/reason", b.Reason, 0, maxReason)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	until := h.now()
	if wait != nil {
		until = until.Add(*wait)
	}
	e, found, err := h.mapExecutionOf(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	if !found {
		t, err := h.agents.goalOrNone(ctx, c)
		if err != nil {
			return wire.Reply{}, err
		}
		if wait == nil {
			until = until.Add(goalApplyWait)
		}
		return h.agents.decideGoalChanges(ctx, c, t, changing.Decision{Selection: sel, Reason: reason, Until: until})
	}
	if err := h.decideOnce(ctx, c, e, sel, reason); err != nil {
		return wire.Reply{}, err
	}
	ended, err := h.executions.AwaitApply(ctx, e, until)
	if err != nil {
		return wire.Reply{}, err
	}
	rep, err := h.answerChanges(ctx, e, 0, changesAnswered)
	if err == nil && !ended {
		rep.Status = http.StatusAccepted
	}
	return rep, err
}

// changesAnswered is how many changes the answer to a decision shows.
const changesAnswered = 100

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
