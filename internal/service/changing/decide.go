package changing

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/execution"
)

// Decision is what people decide about the changes of a goal.
type Decision struct {
	Selection execution.Selection
	Reason    string
	// Until is how long the caller waits. Then only the first change is begun, if it was not.
	Until time.Time
}

// Decide decides about the changes of a dry run of a goal: it rejects those that are rejected, and then
// approves the others one after the other, each when the one before is applied. The first that is not
// applied, or needs further approvers, ends it; those after it are still proposed. ended is false where
// the caller's time was over before. A repeat goes on, and changes nothing of what was done. The error
// is CONFLICT where there is nothing to decide or people have decided otherwise, VALIDATION_ERROR where
// the selection leaves a change out, and what desk.Decide refuses.
func (s *Service) Decide(ctx context.Context, who actor.Actor, t conversation.Turn, d Decision) (ended bool, err error) {
	switch {
	case !t.DryRun():
		return false, fault.New(fault.CodeConflict, "The execution is no dry run: it has made its changes.")
	case t.State != conversation.Ended:
		return false, fault.Newf(fault.CodeConflict, "People decide about the changes of a dry run that has ended. The status of this one is %s.", t.Status)
	}
	all, err := s.all(ctx, t)
	switch {
	case err != nil:
		return false, err
	case len(all) == 0:
		return false, fault.New(fault.CodeConflict, "The dry run would change nothing, so there is nothing to decide.")
	}
	ids := make([]string, len(all))
	for i, c := range all {
		ids[i] = c.ExecutionID
	}
	approved, err := d.Selection.Approved(ids)
	if err != nil {
		return false, err
	}
	approves := func(c Change) bool { return slices.Contains(approved, c.ExecutionID) }
	for _, c := range all {
		if f := otherwise(c, approves(c)); f != nil {
			return false, f
		}
	}
	for _, c := range all {
		if c.Status == execution.ChangeProposed && !approves(c) {
			if _, err := s.decide(ctx, who, t, c, desk.Input{Reason: d.Reason}); err != nil {
				return false, err
			}
		}
	}
	begun := false
	for _, c := range all {
		if !approves(c) {
			continue
		}
		if begun && c.Status == execution.ChangeProposed && !s.d.Now().Before(d.Until) {
			return false, nil
		}
		begun = begun || c.Status == execution.ChangeProposed
		if goesOn, inTime, err := s.apply(ctx, who, t, c, d); err != nil || !goesOn {
			return inTime, err
		}
	}
	return true, nil
}

// otherwise returns why a change cannot be approved or rejected now; nil where it can, or where that was
// done.
func otherwise(c Change, approve bool) *fault.Error {
	switch c.Status {
	case execution.ChangeProposed:
		return nil
	case execution.ChangeNotApplied:
		if approve {
			return fault.New(fault.CodeConflict, "Nobody decided about the change "+c.ExecutionID+" in time. Make another dry run.")
		}
		return nil
	case execution.ChangeRejected:
		if !approve {
			return nil
		}
	default:
		if approve {
			return nil
		}
	}
	return fault.New(fault.CodeConflict, "Another decision about the change "+c.ExecutionID+" was made before. GET /v1/executions/{id}/changes shows what became of each.")
}

// apply approves a change and waits until it is applied. goesOn is false where those after it are not
// applied now; inTime, where that is not for want of time.
func (s *Service) apply(ctx context.Context, who actor.Actor, t conversation.Turn, c Change, d Decision) (goesOn, inTime bool, err error) {
	if c.Status == execution.ChangeProposed {
		if c, err = s.decide(ctx, who, t, c, desk.Input{Approve: true, Reason: d.Reason}); err != nil {
			return false, false, err
		}
		if c.Status == execution.ChangeProposed {
			return false, true, nil // others have to approve it too
		}
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for c.Status == execution.ChangeApproved || c.Status == execution.ChangeApplying {
		if !s.d.Now().Before(d.Until) {
			return false, false, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return false, false, context.Cause(ctx)
		}
		if c, err = s.again(ctx, t, c); err != nil {
			return false, false, err
		}
	}
	return c.Status == execution.ChangeApplied, true, nil
}

// pollEvery is how often a waiting call looks whether a change is applied.
const pollEvery = 50 * time.Millisecond

// decide has a decision about a change counted, and returns the change as it is then. One that another
// hand has decided meanwhile is CONFLICT, unless it was decided alike.
func (s *Service) decide(ctx context.Context, who actor.Actor, t conversation.Turn, c Change, in desk.Input) (Change, error) {
	_, failed := s.d.Approvals.Decide(ctx, who, c.ApprovalID, in)
	if failed != nil && !fault.HasCode(failed, fault.CodeApprovalNotPending) {
		return c, failed
	}
	c, err := s.again(ctx, t, c)
	if err == nil && failed != nil {
		if f := otherwise(c, in.Approve); f != nil {
			return c, f
		}
		if c.Approval == governance.ApprovalPending {
			return c, failed
		}
	}
	return c, err
}

// again reads a change again.
func (s *Service) again(ctx context.Context, t conversation.Turn, c Change) (Change, error) {
	now, err := s.d.Runs.DryRuns(ctx, t.TenantID, []uuid.UUID{c.ID}, true)
	if err != nil {
		return c, err
	}
	if len(now) == 0 {
		return c, fault.New(fault.CodeResultExpired, "")
	}
	c.DryRun, c.Status = now[0], changeStatus(now[0])
	return c, nil
}
