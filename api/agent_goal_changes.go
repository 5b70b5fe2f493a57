package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/service/changing"
)

// GoalChanges are the writes that dry runs of goals have not made.
type GoalChanges interface {
	List(ctx context.Context, t conversation.Turn, after int32, limit int) (changing.List, error)
	// Decide reports whether all is done that follows from the decision.
	Decide(ctx context.Context, who actor.Actor, t conversation.Turn, d changing.Decision) (ended bool, err error)
}

func viewGoalChange(c changing.Change) changeView {
	v := changeView{
		ID: c.ExecutionID, Number: c.Number, Status: c.Status, Verb: c.Verb.String(), Step: c.Step, Path: []string{c.Step}, Args: c.Args, DependsOn: []string{},
		ApprovalID: &c.ApprovalID, Code: textOrNull(c.ErrorCode), Reason: textOrNull(c.ClosedReason),
	}
	if c.Status != "proposed" && c.Status != "rejected" {
		v.ExecutionID = &c.ExecutionID
	}
	return v
}

func (h *agentHandlers) answerGoalChanges(ctx context.Context, t conversation.Turn, after int32, limit int) (wire.Reply, error) {
	list, err := h.goalChanges.List(ctx, t, after, limit)
	if err != nil {
		return wire.Reply{}, err
	}
	v := changesView{ExecutionID: t.ExecutionID, Status: textOrNull(string(list.Status)), Changes: make([]changeView, len(list.Changes))}
	last := ""
	for i, c := range list.Changes {
		v.Changes[i], last = viewGoalChange(c), strconv.Itoa(int(c.Number))
		if v.ExpiresAt == nil || c.ExpiresAt != nil && c.ExpiresAt.Before(*v.ExpiresAt) {
			v.ExpiresAt = c.ExpiresAt
		}
		if c.DecidedBy != nil {
			v.DecidedBy = byUser(c.DecidedBy)
		}
	}
	return wire.Reply{Data: v, Page: wire.PageAfter(limit, list.More, last)}, nil
}

// decideGoalChanges decides about the changes of a dry run of a goal. It answers 202 where a repeat of
// the call would go on.
func (h *agentHandlers) decideGoalChanges(ctx context.Context, c *wire.Call, t conversation.Turn, d changing.Decision) (wire.Reply, error) {
	ended, err := h.goalChanges.Decide(ctx, c.Actor, t, d)
	if err != nil {
		return wire.Reply{}, err
	}
	rep, err := h.answerGoalChanges(ctx, t, 0, changesAnswered)
	if err == nil && !ended {
		rep.Status = http.StatusAccepted
	}
	return rep, err
}

// goalApplyWait is how long a decision about the changes of a goal applies them where the caller does not
// say.
const goalApplyWait = 30 * time.Second
