package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/kernel/flow"
	"agentruntime/workflows"
)

// shown collects the states that a workflow shows in Temporal's list.
func shown(env *testsuite.TestWorkflowEnvironment) *[]string {
	var states []string
	key := temporal.NewSearchAttributeKeyKeyword("AgentRuntimeState")
	env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
		set, _ := args.Get(0).(temporal.SearchAttributes)
		state, _ := set.GetKeyword(key)
		states = append(states, state)
	}).Return(nil).Maybe()
	return &states
}

// listed is the input of a run whose start has set search attributes.
func listed() flow.ActionRunInput {
	return flow.ActionRunInput{RunRef: flow.RunRef{Attempt: 1}, ShowsState: true}
}

func TestHeldRunShowsThatItWaitsAndHowItEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(h *heldRun)
		want []string
	}{
		{"approved", func(h *heldRun) { h.decideAt(time.Minute, "appr_1", decision(1)) }, []string{"pending_approval", "executed"}},
		{"expired", func(*heldRun) {}, []string{"pending_approval", "expired"}},
		{"rejected", func(h *heldRun) {
			h.env.RegisterDelayedCallback(func() { h.env.SignalWorkflow(flow.SignalReject, nil) }, time.Minute)
		}, []string{"pending_approval", "rejected"}},
		{"looked at often", func(h *heldRun) {
			for i := range 5 {
				h.env.RegisterDelayedCallback(func() { h.env.SignalWorkflow(flow.SignalRecheck, nil) }, time.Duration(i+1)*time.Minute)
			}
		}, []string{"pending_approval", "expired"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHeldRun(t)
			states := shown(h.env)
			c.end(h)
			h.env.ExecuteWorkflow(workflows.ActionRun, listed())
			require.NoError(t, h.env.GetWorkflowError())
			require.Equal(t, c.want, *states)
		})
	}
}

// A workflow of an earlier release, or one that was started without the attribute, must not
// set it: its task would fail, or not replay.
func TestRunThatIsNotListedShowsNothing(t *testing.T) {
	t.Parallel()
	h := newHeldRun(t)
	states := shown(h.env)
	require.EqualValues(t, "expired", h.run(t))
	require.Empty(t, *states)
}

// sent runs a workflow whose step to send answers one after the other.
func sent(t *testing.T, answers ...flow.Step) []string {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(context.Context, flow.RunRef) (flow.Step, error) {
		return flow.Step{State: "claimed"}, nil
	}, activity.RegisterOptions{Name: string(flow.GovernRun)})
	env.RegisterActivityWithOptions(func(context.Context, flow.RunRef) (flow.Step, error) {
		step := answers[0]
		answers = answers[1:]
		return step, nil
	}, activity.RegisterOptions{Name: string(flow.SendRun)})
	states := shown(env)
	env.ExecuteWorkflow(workflows.ActionRun, listed())
	require.NoError(t, env.GetWorkflowError())
	return *states
}

func TestSentRunShowsHowItEnded(t *testing.T) {
	t.Parallel()
	require.Empty(t, sent(t, flow.Step{State: "executed", Done: true}), "a run that is executed at once is the rule")
	require.Equal(t, []string{"outcome_unknown"}, sent(t, flow.Step{State: "outcome_unknown", Done: true}))
}

// Most calls that are under way end within seconds. Only those that take longer than one
// pause are worth a write of the list.
func TestRunIsShownAsSendingWhereItsCallTakesLong(t *testing.T) {
	t.Parallel()
	underWay := flow.Step{State: "sending", After: 20 * time.Second, UnderWay: true}
	done := flow.Step{State: "executed", Done: true}
	require.Empty(t, sent(t, underWay, done))
	require.Equal(t, []string{"sending", "executed"}, sent(t, underWay, underWay, underWay, done))
}

func TestMapIsListedByWhatItWaitsForAndHowItEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps string
		input flow.MapInput
		want  []string
	}{
		"completed at once":      {`[{"id":"s","type":"set","assign":{"a":1}}]`, flow.MapInput{ShowsState: true, ShowsEnd: true}, nil},
		"completed after a wait": {`[{"id":"w","type":"wait","for":"1h"}]`, flow.MapInput{ShowsState: true, ShowsEnd: true}, []string{"waiting", "completed"}},
		"failed at once":         {`[{"id":"r","type":"raise","error":{"code":"NO"}}]`, flow.MapInput{ShowsState: true, ShowsEnd: true}, []string{"failed"}},
		"of an earlier release":  {`[{"id":"w","type":"wait","for":"1h"}]`, flow.MapInput{ShowsState: true}, []string{"waiting"}},
		"without the attribute":  {`[{"id":"w","type":"wait","for":"1h"}]`, flow.MapInput{ShowsEnd: true}, nil},
		"failed after two waits": {
			`[{"id":"w","type":"wait","for":"1h"},{"id":"v","type":"wait","for":"1h"},{"id":"r","type":"raise","error":{"code":"NO"}}]`,
			flow.MapInput{ShowsState: true, ShowsEnd: true},
			[]string{"waiting", "waiting", "failed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMapWorld(t, c.steps)
			var states *[]string
			c.input.MapRef = flow.MapRef{ID: uuid.Must(uuid.NewV7())}
			require.Nil(t, w.history(c.input, func(env *testsuite.TestWorkflowEnvironment) { states = shown(env) }))
			require.Equal(t, c.want, *states)
		})
	}
}
