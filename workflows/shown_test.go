package workflows_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
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

// A workflow that was started without the attribute must not
// set it: its task would fail.
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
		"completed at once":      {`[{"id":"s","type":"set","assign":{"a":1}}]`, flow.MapInput{ShowsState: true}, nil},
		"completed after a wait": {`[{"id":"w","type":"wait","for":"1h"}]`, flow.MapInput{ShowsState: true}, []string{"waiting", "completed"}},
		"failed at once":         {`[{"id":"r","type":"raise","error":{"code":"NO"}}]`, flow.MapInput{ShowsState: true}, []string{"failed"}},
		"without the attribute":  {`[{"id":"w","type":"wait","for":"1h"}]`, flow.MapInput{}, nil},
		"failed after two waits": {
			`[{"id":"w","type":"wait","for":"1h"},{"id":"v","type":"wait","for":"1h"},{"id":"r","type":"raise","error":{"code":"NO"}}]`,
			flow.MapInput{ShowsState: true},
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

// A message is found by what it waits for where people have to do something: decide about its call or about
// that of a Map that it has started, or find out what came of a call. Then it is listed by how it ended.
func TestMessageIsListedByWhatItWaitsForAndHowItEnded(t *testing.T) {
	t.Parallel()
	run := func(w *turnWorld) flow.MapCallEnd {
		return flow.MapCallEnd{Run: w.run, Step: flow.Step{ApprovalID: "appr_1"}}
	}
	executed := func(w *turnWorld) flow.MapCallEnd {
		return flow.MapCallEnd{Run: w.run, Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Status: stepmachine.CallExecuted}, HandedOver: true}
	}
	unknown := func(w *turnWorld) flow.MapCallEnd {
		return flow.MapCallEnd{Run: w.run, Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Status: stepmachine.CallUnknown, Sent: true}}
	}
	asks := func(*turnWorld) flow.TurnOther {
		return flow.TurnOther{Other: uuid.UUID{1}, Rests: true, ApprovalID: "appr_2"}
	}
	for name, c := range map[string]struct {
		call  func(w *turnWorld) flow.MapCallEnd
		other func(w *turnWorld) flow.TurnOther
		end   stepmachine.Status
		// verbs are those that are listed beside the states, details is a part of what operators read.
		states, verbs []string
		details       string
	}{
		"a held call":        {run, nil, "completed", []string{"pending_approval", "running", "completed"}, []string{"shop:get_order", "", ""}, "`shop:get_order`: decide it at /v1/approvals/appr_1"},
		"an unknown outcome": {unknown, nil, "failed", []string{"pending_approval", "running", "failed"}, []string{"shop:get_order", "", ""}, "`shop:get_order`: find out what came of the call, and say so at /v1/executions/exec_"},
		"a Map that waits":   {nil, asks, "escalated", []string{"pending_approval", "running", "escalated"}, []string{"", "", ""}, "exec_01000000-0000-0000-0000-000000000000, which it has started: decide it at /v1/approvals/appr_2"},
		"a call at once":     {executed, nil, "completed", nil, nil, ""},
		"a failure at once":  {executed, nil, "failed", []string{"failed"}, []string{""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTurnWorld(time.Hour)
			if w.end = c.end; c.other != nil {
				w.kind = flow.KindMap
			} else {
				w.calls = func() flow.MapCallEnd { return c.call(w) }
			}
			var decided atomic.Bool
			w.goesOn = func() flow.MapCallEnd {
				if decided.Load() {
					return executed(w)
				}
				at := c.call(w)
				if at.HandedOver = true; !at.Step.Done {
					at.Step = flow.Step{State: flow.StatePending} // a look shows no approval
				}
				return at
			}
			w.others = func() flow.TurnOther {
				if decided.Load() {
					return flow.TurnOther{Other: uuid.UUID{1}, Done: true, End: stepmachine.CallEnd{Status: stepmachine.CallExecuted}}
				}
				return c.other(w)
			}
			var states, verbs []string
			w.env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
				set, _ := args.Get(0).(temporal.SearchAttributes)
				state, _ := set.GetKeyword(temporal.NewSearchAttributeKeyKeyword("AgentRuntimeState"))
				verb, _ := set.GetKeyword(temporal.NewSearchAttributeKeyKeyword("AgentRuntimeVerb"))
				states, verbs = append(states, state), append(verbs, verb)
			}).Return(nil).Maybe()
			var read string
			w.env.RegisterDelayedCallback(func() {
				value, err := w.env.QueryWorkflow("__temporal_workflow_metadata")
				require.NoError(t, err)
				var metadata sdkpb.WorkflowMetadata
				require.NoError(t, value.Get(&metadata))
				read = metadata.CurrentDetails
				decided.Store(true)
				w.env.SignalWorkflow(flow.SignalRecheck, nil)
				w.env.SignalWorkflow(flow.SignalRunEnded, w.run)
				w.env.SignalWorkflow(flow.SignalMapEnded, uuid.UUID{1})
			}, 2*time.Hour)
			w.env.ExecuteWorkflow(workflows.AgentTurn, flow.TurnInput{TurnRef: w.ref, ShowsState: true, ShowsHold: true})
			require.NoError(t, w.env.GetWorkflowError())
			require.Equal(t, c.states, states)
			require.Equal(t, c.verbs, verbs)
			require.Contains(t, read, c.details)
		})
	}
}
