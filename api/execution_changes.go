package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	mapruns "agentruntime/internal/maps/execution"
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

func (h *executionHandlers) listChanges(ctx context.Context, c *wire.Call) (wire.Reply, error) {
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
	e, _, err := h.find(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	return e.changes(ctx, c, int32(after), limit)
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
func (h *executionHandlers) decideChanges(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b decideBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	sel, wait := b.selection(&v), preferWait(&v, c)
	reason := v.OptionalText("/reason", b.Reason, 0, maxReason)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	now := h.now()
	e, _, err := h.find(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	return e.decide(ctx, c, changesDecision{selection: sel, reason: reason, now: now, wait: wait})
}

// changesDecision is a decision about the changes of a dry run. wait is nil where the caller does not
// say how long to wait.
type changesDecision struct {
	selection mapruns.Selection
	reason    string
	now       time.Time
	wait      *time.Duration
}

// until is when the wait for the changes ends that are being applied. usual is how long it takes
// where the caller does not say.
func (d changesDecision) until(usual time.Duration) time.Time {
	if d.wait != nil {
		usual = *d.wait
	}
	return d.now.Add(usual)
}

// noChanges refuses executions that have none: those that are neither of a Map nor a goal.
func noChanges() error {
	return fault.New(fault.CodeExecutionNotFound, "No execution of a Map and no goal has this id.")
}

// changesAnswered is how many changes the answer to a decision shows.
const changesAnswered = 100
