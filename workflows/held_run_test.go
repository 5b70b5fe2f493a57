package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/workflows"
)

// heldRun stands for the row of a run that waits for people.
type heldRun struct {
	env      *testsuite.TestWorkflowEnvironment
	approval string     // waited for; "" once it is decided
	need     int        // approvals still missing
	ended    flow.State // once the run has ended
	expires  time.Time
	counted  []uuid.UUID
	governed int
	sent     int
	// late, if set, returns the result of the first decision.
	late func() flow.Decided
	// broken is a decision of which every attempt fails.
	broken uuid.UUID
}

// decision is the id of the nth decision.
func decision(n byte) uuid.UUID { return uuid.UUID{15: n} }

func newHeldRun(t *testing.T) *heldRun {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	h := &heldRun{env: suite.NewTestWorkflowEnvironment(), approval: "appr_1", need: 1}
	h.expires = h.env.Now().Add(time.Hour)
	h.env.RegisterActivityWithOptions(h.govern, activity.RegisterOptions{Name: string(flow.GovernRun)})
	h.env.RegisterActivityWithOptions(h.send, activity.RegisterOptions{Name: string(flow.SendRun)})
	h.env.RegisterActivityWithOptions(h.decide, activity.RegisterOptions{Name: string(flow.DecideRun)})
	h.env.RegisterActivityWithOptions(h.reject, activity.RegisterOptions{Name: string(flow.RejectRun)})
	return h
}

func (h *heldRun) govern(context.Context, flow.RunRef) (flow.Step, error) {
	h.governed++
	switch left := h.expires.Sub(h.env.Now()); {
	case h.ended != "":
		return flow.Step{State: h.ended, Done: true}, nil
	case h.approval == "":
		return flow.Step{State: "claimed"}, nil
	case left <= 0:
		h.ended = "expired"
		return flow.Step{State: h.ended, Done: true}, nil
	default:
		return flow.Step{State: "pending_approval", ApprovalID: h.approval, After: left}, nil
	}
}

func (h *heldRun) send(context.Context, flow.RunRef) (flow.Step, error) {
	h.sent++
	return flow.Step{State: "executed", Done: true}, nil
}

func (h *heldRun) decide(_ context.Context, in flow.DecisionInput) (flow.Decided, error) {
	if in.Decision.DecisionID == h.broken {
		return flow.Decided{}, temporal.NewApplicationError("step failed: INTERNAL_ERROR", "INTERNAL_ERROR")
	}
	if late := h.late; late != nil {
		h.late = nil
		return late(), nil
	}
	h.counted = append(h.counted, in.Decision.DecisionID)
	h.need--
	if h.need > 0 {
		return flow.Decided{}, nil
	}
	h.approval = ""
	return flow.Decided{Closed: true}, nil
}

func (h *heldRun) reject(context.Context, flow.RunRef) (flow.Step, error) {
	h.ended = "rejected"
	return flow.Step{}, nil
}

// answer is what the caller of an update was told.
type answer struct {
	refused error // by the validator: nothing was written
	out     flow.Decided
}

// decideAt sends a decision at a time of the workflow's clock.
func (h *heldRun) decideAt(after time.Duration, approval string, decision uuid.UUID) *answer {
	a := &answer{}
	h.env.RegisterDelayedCallback(func() {
		h.env.UpdateWorkflow(flow.UpdateDecide, decision.String(), &testsuite.TestUpdateCallback{
			OnAccept: func() {},
			OnReject: func(err error) { a.refused = err },
			OnComplete: func(out any, err error) {
				if err == nil {
					a.out = out.(flow.Decided)
				}
			},
		}, flow.Decision{ApprovalID: approval, DecisionID: decision})
	}, after)
	return a
}

func (h *heldRun) run(t *testing.T) flow.State {
	t.Helper()
	h.env.ExecuteWorkflow(workflows.ActionRun, flow.ActionRunInput{RunRef: flow.RunRef{Attempt: 1}})
	require.True(t, h.env.IsWorkflowCompleted())
	require.NoError(t, h.env.GetWorkflowError())
	var out flow.RunResult
	require.NoError(t, h.env.GetWorkflowResult(&out))
	return out.State
}

func TestHeldRunIsSentOnceItIsApproved(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	first := h.decideAt(time.Minute, "appr_1", decision(1))
	require.EqualValues(t, "executed", h.run(t))
	require.NoError(t, first.refused)
	require.True(t, first.out.Closed)
	require.Equal(t, 1, h.sent)
}

func TestDecisionAboutAnotherApprovalIsRefused(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	other := h.decideAt(time.Minute, "appr_0", decision(0))
	h.decideAt(2*time.Minute, "appr_1", decision(1))
	require.EqualValues(t, "executed", h.run(t))
	var refused *temporal.ApplicationError
	require.ErrorAs(t, other.refused, &refused)
	require.Equal(t, "APPROVAL_NOT_PENDING", refused.Type())
	require.Equal(t, []uuid.UUID{decision(1)}, h.counted)
}

func TestDecisionAfterTheLastOneIsNotCounted(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	a := h.decideAt(time.Minute, "appr_1", decision(1))
	b := h.decideAt(time.Minute, "appr_1", decision(2))
	require.EqualValues(t, "executed", h.run(t))
	require.Len(t, h.counted, 1)
	require.Empty(t, a.out.Code)
	require.True(t, b.refused != nil || b.out.Code == "APPROVAL_NOT_PENDING")
}

func TestHeldRunWaitsForItsQuorum(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	h.need = 2
	h.decideAt(time.Minute, "appr_1", decision(1))
	h.decideAt(2*time.Minute, "appr_1", decision(2))
	require.EqualValues(t, "executed", h.run(t))
	require.Equal(t, []uuid.UUID{decision(1), decision(2)}, h.counted)
	require.Equal(t, 3, h.governed)
}

func TestHeldRunExpires(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	require.EqualValues(t, "expired", h.run(t))
	require.Zero(t, h.sent)
}

func TestSignalCanOnlyReject(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	// The Temporal UI sends whatever the operator types, or nothing.
	h.env.RegisterDelayedCallback(func() { h.env.SignalWorkflow(flow.SignalReject, map[string]any{"approve": true}) }, time.Minute)
	require.EqualValues(t, "rejected", h.run(t))
	require.Zero(t, h.sent)
}

func TestRecheckReadsTheRowAgain(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	h.env.RegisterDelayedCallback(func() {
		h.ended = "cancelled"
		h.env.SignalWorkflow(flow.SignalRecheck, nil)
	}, time.Minute)
	require.EqualValues(t, "cancelled", h.run(t))
}

func TestCancelledWorkflowRejectsItsRun(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	h.env.RegisterDelayedCallback(h.env.CancelWorkflow, time.Minute)
	h.env.ExecuteWorkflow(workflows.ActionRun, flow.ActionRunInput{RunRef: flow.RunRef{Attempt: 1}})
	require.True(t, h.env.IsWorkflowCompleted())
	require.Error(t, h.env.GetWorkflowError())
	require.EqualValues(t, "rejected", h.ended)
	require.Zero(t, h.sent)
}

// A decision about an approval that is superseded at this moment comes too late. Decisions
// about the new approval must still count.
func TestLateDecisionDoesNotStopDecisionsAboutTheNextApproval(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	timers, asked := 0, make(chan struct{})
	h.env.SetOnTimerScheduledListener(func(string, time.Duration) {
		// The second is that of the next approval: the run waits for it now.
		if timers++; timers == 2 {
			close(asked)
		}
	})
	h.late = func() flow.Decided {
		h.approval = "appr_2"
		h.env.SignalWorkflow(flow.SignalRecheck, nil)
		<-asked
		return flow.Decided{Code: "APPROVAL_NOT_PENDING", Closed: true}
	}
	first := h.decideAt(time.Minute, "appr_1", decision(1))
	second := h.decideAt(2*time.Minute, "appr_2", decision(2))
	require.EqualValues(t, "executed", h.run(t))
	require.EqualValues(t, "APPROVAL_NOT_PENDING", first.out.Code)
	require.NoError(t, second.refused)
	require.Equal(t, []uuid.UUID{decision(2)}, h.counted)
}

// A decision that cannot be counted, because of a fault of ours, does not stop the next one
// for as long as a step may be tried.
func TestDecisionThatCannotBeCountedLetsTheNextOneCount(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	h.broken = decision(1)
	h.decideAt(time.Minute, "appr_1", decision(1))
	h.decideAt(10*time.Minute, "appr_1", decision(2))
	require.EqualValues(t, "executed", h.run(t))
	require.Equal(t, []uuid.UUID{decision(2)}, h.counted)
}

// Many changes at once are one reason to look.
func TestManyRechecksReadTheRowOnce(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	h.env.RegisterDelayedCallback(func() {
		for range 50 {
			h.env.SignalWorkflow(flow.SignalRecheck, nil)
		}
	}, time.Minute)
	require.EqualValues(t, "expired", h.run(t))
	require.LessOrEqual(t, h.governed, 4, "at the start, for the first, for the rest, and at the end")
}
