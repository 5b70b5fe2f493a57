package api

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"agentruntime/api/wire"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
)

// Bounds of a batch: how many decisions it may have, and how many we make at once. Each
// waits for a workflow, so one after another would take seconds.
const (
	maxDecisions     = 100
	decisionsAtATime = 8
)

type batchBody struct {
	Decisions []batchItem `json:"decisions"`
}

type batchItem struct {
	ID       *string `json:"id"`
	Decision *string `json:"decision"`
	Reason   *string `json:"reason"`
}

// batchResult is the result of one decision of a batch.
type batchResult struct {
	ID      string      `json:"id"`
	Success bool        `json:"success"`
	Status  string      `json:"status,omitempty"`
	Error   *batchError `json:"error,omitempty"`
}

type batchError struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
}

// batchView has the results in the order of the decisions.
type batchView struct {
	Results []batchResult `json:"results"`
}

// proposal is one decision of a batch, checked.
type proposal struct {
	id string
	in desk.Input
}

func (h *approvalHandlers) decideApprovals(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b batchBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	proposals, err := b.proposals()
	if err != nil {
		return wire.Reply{}, err
	}
	results := make([]batchResult, len(proposals))
	var group errgroup.Group
	group.SetLimit(decisionsAtATime)
	for i, p := range proposals {
		group.Go(func() error {
			results[i] = h.decideOne(ctx, c, p)
			return nil
		})
	}
	_ = group.Wait() // the results contain the errors
	return wire.OK(batchView{results}), nil
}

func (h *approvalHandlers) decideOne(ctx context.Context, c *wire.Call, p proposal) batchResult {
	a, err := h.approvals.Decide(ctx, c.Actor, p.id, p.in)
	if err != nil {
		f := c.Fault(err)
		return batchResult{ID: p.id, Error: &batchError{f.Code, f.Message}}
	}
	return batchResult{ID: p.id, Success: true, Status: string(a.Status)}
}

// proposals checks the form of a batch. One bad item refuses the whole batch.
func (b batchBody) proposals() ([]proposal, error) {
	var v wire.Validation
	if n := len(b.Decisions); n < 1 || n > maxDecisions {
		v.Add("/decisions", "length", fmt.Sprintf("decisions is a list of 1 to %d.", maxDecisions))
		return nil, v.Err()
	}
	seen := make(map[string]bool, len(b.Decisions))
	list := make([]proposal, len(b.Decisions))
	for i, item := range b.Decisions {
		at := fmt.Sprintf("/decisions/%d", i)
		p := proposal{id: v.Text(at+"/id", item.ID, 255)}
		if seen[p.id] && item.ID != nil {
			v.Add(at+"/id", "unique", "An approval is decided once in a batch.")
		}
		seen[p.id] = true
		p.in.Reason = v.OptionalText(at+"/reason", item.Reason, 0, maxReason)
		switch decision := strings.ToLower(v.Text(at+"/decision", item.Decision, 255)); {
		case decision == "approve":
			p.in.Approve = true
		case decision != "reject" && item.Decision != nil:
			v.Add(at+"/decision", "enum", near.Enum("decision", decision, "approve", "reject"))
		}
		list[i] = p
	}
	return list, v.Err()
}
