package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/workflows"
)

// steps has the answers of the activities, and counts the calls.
type steps struct {
	govern   flow.Step
	send     []flow.Step
	faults   int
	governed int
	sent     int
	before   func(*testsuite.TestWorkflowEnvironment)
}

func (s *steps) run(t *testing.T) (flow.RunResult, *testsuite.TestWorkflowEnvironment) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(context.Context, flow.RunRef) (flow.Step, error) {
		s.governed++
		return s.govern, nil
	}, activity.RegisterOptions{Name: string(flow.GovernRun)})
	began := env.Now()
	env.RegisterActivityWithOptions(func(context.Context, flow.RunRef) (flow.Step, error) {
		if env.Now().Sub(began) < 15*time.Minute {
			return flow.Step{State: "claimed"}, nil
		}
		return flow.Step{State: "refused", Done: true}, nil
	}, activity.RegisterOptions{Name: string(flow.GiveUpRun)})
	env.RegisterActivityWithOptions(func(_ context.Context, in flow.RunRef) (flow.Step, error) {
		require.EqualValues(t, 2, in.Attempt)
		if s.faults > 0 {
			s.faults--
			return flow.Step{}, temporal.NewApplicationError("step failed: INTERNAL_ERROR", "INTERNAL_ERROR")
		}
		s.sent++
		return s.send[s.sent-1], nil
	}, activity.RegisterOptions{Name: string(flow.SendRun)})
	if s.before != nil {
		s.before(env)
	}
	env.ExecuteWorkflow(workflows.ActionRun, flow.ActionRunInput{RunRef: flow.RunRef{Attempt: 2}})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var out flow.RunResult
	require.NoError(t, env.GetWorkflowResult(&out))
	return out, env
}

func TestActionRunThatIsBlockedIsNotSent(t *testing.T) {
	t.Parallel()
	s := &steps{govern: flow.Step{State: "blocked", Done: true}}
	out, _ := s.run(t)
	require.EqualValues(t, "blocked", out.State)
	require.Zero(t, s.sent)
}

func TestActionRunThatIsAllowedIsSentOnce(t *testing.T) {
	t.Parallel()
	s := &steps{govern: flow.Step{State: "claimed"}, send: []flow.Step{{State: "executed", Done: true}}}
	out, _ := s.run(t)
	require.EqualValues(t, "executed", out.State)
	require.Equal(t, 1, s.sent)
}

func TestActionRunWaitsBeforeItSendsAgain(t *testing.T) {
	t.Parallel()
	s := &steps{govern: flow.Step{State: "claimed"}, send: []flow.Step{
		{State: "claimed", After: 10 * time.Second}, {State: "claimed", After: 20 * time.Second}, {State: "executed", Done: true},
	}}
	began := time.Now()
	out, env := s.run(t)
	require.EqualValues(t, "executed", out.State)
	require.Equal(t, 3, s.sent)
	require.Equal(t, 1, s.governed, "governance is not repeated")
	require.GreaterOrEqual(t, env.Now().Sub(began), 30*time.Second, "the waits are the workflow's timers")
}

func TestActionRunRetriesAFault(t *testing.T) {
	t.Parallel()
	s := &steps{govern: flow.Step{State: "claimed"}, faults: 3, send: []flow.Step{{State: "executed", Done: true}}}
	out, _ := s.run(t)
	require.EqualValues(t, "executed", out.State)
}

// A call that takes long keeps no task: its end, or a look now and then, makes the next step.
func TestActionRunIsToldOfTheEndOfItsCall(t *testing.T) {
	t.Parallel()
	underWay := flow.Step{State: "sending", After: time.Hour, UnderWay: true}
	s := &steps{govern: flow.Step{State: "claimed"}, send: []flow.Step{underWay, underWay, {State: "executed", Done: true}}}
	began := time.Now()
	s.before = func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRecheck, nil) }, 20*time.Second)
	}
	out, env := s.run(t)
	require.EqualValues(t, "executed", out.State)
	require.Equal(t, 3, s.sent)
	passed := env.Now().Sub(began)
	require.Greater(t, passed, time.Hour, "without a signal it looks when the time is over")
	require.Less(t, passed, 2*time.Hour, "the signal ended the other pause")
}

// A step that always fails keeps no place of the worker, and the run is given up when its row
// says so.
func TestActionRunGivesUpAPoisonedStep(t *testing.T) {
	t.Parallel()
	s := &steps{govern: flow.Step{State: "claimed"}, faults: 1 << 30}
	began := time.Now()
	out, env := s.run(t)
	require.EqualValues(t, "refused", out.State)
	require.GreaterOrEqual(t, env.Now().Sub(began), 15*time.Minute)
	require.Less(t, 1<<30-s.faults, 250, "it is not tried without a pause")
}
