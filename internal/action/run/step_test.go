package run_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/flow"
)

// These tests show what can come between the steps of a run that another workflow drives.

// heldStep is a step of a Map that waits for approval, and is not handed over yet.
func (r *rig) heldStep() run.Run {
	r.t.Helper()
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	claimed := r.step("refund", 0, 1)
	step, err := r.Govern(r.t.Context(), claimed.Ref())
	require.NoError(r.t, err)
	require.NotEmpty(r.t, step.ApprovalID)
	return r.read(claimed.Run)
}

func (r *rig) handOver(x run.Run) flow.Step {
	r.t.Helper()
	step, err := r.HandOver(r.t.Context(), ref(x), parentWorkflow)
	require.NoError(r.t, err)
	return step
}

// After a crash the parent's workflow repeats its claim. What people or policies refused
// meanwhile stays refused.
func TestRepeatedClaimOfARefusedStepRunsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := r.heldStep()
	r.handOver(x)
	require.True(t, r.decide(x, r.user("approver"), "reject").Closed)
	again := r.step("refund", 0, 1)
	require.False(t, again.Fresh)
	require.Equal(t, ref(x), again.Ref())
	step, err := r.Govern(t.Context(), again.Ref())
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateRejected, Done: true}, step)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM approvals`), "nobody is asked again")
}

// A step's run has a public name. A call over HTTP by that name reads the step's end.
func TestCallerCannotRunAStepAgainByItsName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionBlock, "pay"))
	claimed := r.step("pay", 0, 1)
	_, err := r.Govern(t.Context(), claimed.Ref())
	require.NoError(t, err)
	r.policies()
	out, err := r.do("pay", claimed.Run.ExecutionID, `{"amount":99}`)
	require.NoError(t, err)
	require.True(t, out.Cached)
	require.Equal(t, run.StateBlocked, out.Run.State)
	require.Equal(t, claimed.Run.Origin, r.read(claimed.Run).Origin)
	require.Zero(t, r.engine.starts.Load())
}

// The parent names a run by what the last look at it has returned. A call that is held only after a kill
// switch was lifted would otherwise have no workflow to send it when people have approved it.
func TestStepThatIsHeldAfterAWaitIsHandedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	lift := r.switchOff(false)
	claimed := r.step("refund", 0, 1).Run
	at := run.Progress{Run: claimed}
	for range 2 {
		var err error
		at, err = r.GoOn(t.Context(), ref(at.Run))
		require.NoError(t, err)
		require.True(t, at.Step.SwitchedOff)
		require.Positive(t, at.Step.After, "it does not look again at once")
	}
	lift()
	at, err := r.GoOn(t.Context(), ref(at.Run))
	require.NoError(t, err)
	require.NotEmpty(t, at.Step.ApprovalID)
	r.handOver(at.Run)
	x := r.read(claimed)
	require.Equal(t, flow.DriverRun, x.Driver)
	require.True(t, r.decide(x, r.user("approver"), "approve").Closed)
	require.Equal(t, run.StateExecuted, r.wake(r.read(x)).State)
}

func TestOnlyTheDriverHandsARunOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := r.heldStep()
	_, err := r.HandOver(t.Context(), ref(x), "another workflow")
	require.NoError(t, err)
	require.Equal(t, parentWorkflow, r.read(x).WorkflowID)
	require.Equal(t, parentWorkflow, r.text(`SELECT workflow_id FROM approvals`), "the approval stays with the run's driver")
	require.Zero(t, r.engine.starts.Load())
}

func TestDryRunOfAStepIsDoneWhenItIsHandedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	claimed := r.step("pay", 0, 1, func(q *run.Request) { q.DryRun = true })
	_, err := r.Govern(t.Context(), claimed.Ref())
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateIntercepted, Done: true}, r.handOver(claimed.Run))
}

// The parent may repeat its own steps after a crash, while ActionRun drives the run.
func TestStepOfTwoDriversHasOneEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := r.heldStep()
	r.handOver(x)
	require.True(t, r.decide(x, r.user("approver"), "approve").Closed)
	_, err := r.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	_, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, r.wake(r.read(x)).State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// The edit was read before the run was handed over, and is counted after.
func TestEditFollowsAHandOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := r.heldStep()
	between := func() { r.handOver(x) }
	r.targets.meanwhile.Store(&between)
	require.True(t, r.decide(x, r.user("approver"), "approve", `{"amount":2}`).Closed)
	own := r.read(x).WorkflowID
	require.Equal(t, flow.DriverRun, r.read(x).Driver)
	require.Equal(t, 2, r.count(`SELECT count(*) FROM approvals WHERE workflow_id = '`+own+`'`))
	r.engine.open.Store(parentWorkflow, false)
	r.ahead.Store(int64(time.Minute))
	require.NoError(t, r.Sweep(t.Context()))
	require.Equal(t, run.StatePending, r.read(x).State, "the parent's end takes nothing with it")
}

// lateEngine starts a workflow between the two questions of the sweeper.
type lateEngine struct {
	*engine

	between func()
}

func (e *lateEngine) Nudge(ctx context.Context, id string) (bool, error) {
	open, err := e.engine.Nudge(ctx, id)
	if f := e.between; f != nil {
		e.between = nil
		f()
	}
	return open, err
}

func TestSweeperSeesAWorkflowThatStartsMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := r.heldStep()
	r.engine.dead.Store(true)
	r.handOver(x) // the row names the workflow, and the start is still under way
	r.engine.dead.Store(false)
	r.admin(`UPDATE approvals SET recheck = true`)
	late := &lateEngine{engine: r.engine, between: func() { r.handOver(x) }}
	_, sweeper := r.process(late)
	require.NoError(t, sweeper.Once(t.Context()))
	require.Equal(t, run.StatePending, r.read(x).State)
	require.Equal(t, "pending", r.status(*x.ApprovalID))
}

// The timeout of a step does not count the time that people take.
func TestHeldStepWaitsForPeopleLongerThanItsTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	claimed := r.step("refund", 0, 1, expiresIn(time.Minute))
	_, err := r.Govern(t.Context(), claimed.Ref())
	require.NoError(t, err)
	x := r.read(claimed.Run)
	r.handOver(x)
	r.ahead.Store(int64(time.Hour))
	require.True(t, r.decide(x, r.user("approver"), "approve").Closed)
	require.Equal(t, run.StateExecuted, r.wake(r.read(x)).State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// No process is left that could know the outcome of the call.
func TestStepThatMayHaveBeenSentEndsUnknownWithItsWorkflow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	claimed := r.step("keyed", 0, 1)
	r.admin(`UPDATE runs SET maybe_sent = true, sends = 1, updated_at = now() - interval '1 minute' WHERE id = $1`, claimed.Run.ID)
	require.NoError(t, r.Sweep(t.Context()))
	require.Equal(t, run.StateOutcomeUnknown, r.read(claimed.Run).State)
}
