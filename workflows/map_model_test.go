package workflows_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

const agentOfTest = `[{"id":"work","type":"agent","goal":"g","timeout":"1m","tools":["shop:*"]}]`

// anyVerb is the verb of the calls of an agent: rows have which it is.
const anyVerb = ""

// conversation answers the nth turn of an agent, and keeps what it is told.
type conversation struct {
	turns []flow.MapModelTurn
	asked []flow.MapModelCall
}

func (c *conversation) register(w *mapWorld) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, in flow.MapModelCall) (flow.MapModelTurn, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			c.asked = append(c.asked, in)
			return c.turns[min(in.Turn, len(c.turns)-1)], nil
		}, activity.RegisterOptions{Name: string(flow.AskModel)})
	}
}

func wants(numbers ...int) flow.MapModelTurn { return flow.MapModelTurn{Calls: numbers} }

func answers(output string) flow.MapModelTurn {
	return flow.MapModelTurn{Done: true, End: stepmachine.CallEnd{Status: stepmachine.CallExecuted, Result: stepmachine.Of(json.RawMessage(output))}}
}

// People take two days for a call of an agent whose step has a minute: that time does not count.
func TestMapRunAgentWaitsForPeople(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, agentOfTest)
	c := &conversation{turns: []flow.MapModelTurn{wants(0, 2), answers(`"done"`)}}
	w.answers[anyVerb] = func(int) flow.MapCallEnd {
		switch {
		case w.env.Now().Sub(w.began) < 48*time.Hour:
			return flow.MapCallEnd{Step: flow.Step{State: "pending_approval", ApprovalID: "appr_1", After: time.Hour}}
		default:
			return executed(`{}`)
		}
	}
	w.run(c.register(w))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.JSONEq(t, `"done"`, string(w.finish.Output.JSON))
	require.Equal(t, 2, w.finish.Actions)
	require.Contains(t, w.shown, stepmachine.StatusPending)
	require.Len(t, c.asked, 2)
	require.Equal(t, []int{0, 2}, []int{c.asked[1].Ends[0].Number, c.asked[1].Ends[1].Number})
	for _, left := range w.timeLeft { // the second call begins after the two days
		require.InDelta(t, time.Minute, left, float64(5*time.Second))
	}
}

// A call whose outcome is not known waits for people. The agent hears what they have found.
func TestMapRunAgentWaitsForAnOutcome(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, agentOfTest)
	c := &conversation{turns: []flow.MapModelTurn{wants(0), answers(`1`)}}
	w.answers[anyVerb] = func(look int) flow.MapCallEnd {
		if look < 5 {
			return flow.MapCallEnd{Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Status: stepmachine.CallUnknown, Sent: true}}
		}
		return executed(`{}`)
	}
	w.run(c.register(w))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Contains(t, w.shown, stepmachine.StatusWaiting)
	require.Equal(t, stepmachine.CallExecuted, c.asked[1].Ends[0].Status)
}

// A provider that takes a minute for a call leaves no time for the next answer.
func TestMapRunAgentEndsWithTheTimeOfItsStep(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, agentOfTest)
	c := &conversation{turns: []flow.MapModelTurn{wants(0)}}
	w.answers[anyVerb] = func(look int) flow.MapCallEnd {
		if look%2 == 1 {
			return flow.MapCallEnd{Step: flow.Step{State: "sending", After: 40 * time.Second, UnderWay: true}}
		}
		return executed(`{}`)
	}
	w.run(c.register(w))
	require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
	require.Equal(t, mapdef.CodeStepTimeout, w.finish.Error.Code)
	require.Equal(t, 2, w.finish.Actions)
	require.Len(t, c.asked, 2)
}

// A step that a model has failed is tried again as it says, unless a call of the agent has written.
func TestMapRunModelStepIsTriedAgainWhereNothingWasWritten(t *testing.T) {
	t.Parallel()
	failed := flow.MapModelTurn{Done: true, End: stepmachine.CallEnd{Status: stepmachine.CallFailed, Error: stepmachine.NewError(mapdef.CodeModelError, "no")}}
	for name, c := range map[string]struct {
		turns    []flow.MapModelTurn
		wrote    bool
		attempts int
	}{
		"no call": {[]flow.MapModelTurn{failed}, false, 3},
		"a read":  {[]flow.MapModelTurn{wants(0), failed}, false, 3},
		"a write": {[]flow.MapModelTurn{wants(0), failed}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMapWorld(t, `[{"id":"work","type":"agent","goal":"g","retry":{"max_attempts":3,"initial":"1s","retry_on":["MODEL_ERROR"]}}]`)
			w.answers[anyVerb] = func(int) flow.MapCallEnd {
				end := executed(`{}`)
				end.End.Wrote = c.wrote
				return end
			}
			talk := &conversation{turns: c.turns}
			w.run(talk.register(w))
			require.Equal(t, mapdef.CodeModelError, w.finish.Error.Code)
			require.Equal(t, c.attempts, w.steps["/steps/0"].Ref.Attempt)
		})
	}
}

// A new history begins while people decide about a call of an agent. It goes on with the same turn.
func TestMapRunAgentGoesOnInANewHistory(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, agentOfTest)
	c := &conversation{turns: []flow.MapModelTurn{wants(0), answers(`1`)}}
	decided := false
	w.answers[anyVerb] = func(int) flow.MapCallEnd {
		if decided {
			return executed(`{}`)
		}
		return flow.MapCallEnd{Step: flow.Step{State: "pending_approval", ApprovalID: "appr_1", After: time.Hour}}
	}
	w.length = 10_000
	next := w.history(flow.MapInput{}, c.register(w))
	require.NotNil(t, next)
	decided, w.length = true, 0
	require.Nil(t, w.history(*next, c.register(w)))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Equal(t, 1, w.finish.Actions)
	for _, asked := range c.asked {
		require.Equal(t, 1, asked.Ref.Attempt)
	}
}

// Once a model has read what others wrote, each later call says so: those of its answers and those of steps,
// also in a new history.
func TestMapRunCallsAreTaintedOnceAModelHasRead(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"before","type":"verb","verb":"shop:look","args":{}},{"id":"work","type":"agent","goal":"g","tools":["shop:*"]},
		{"id":"w","type":"wait","for":"1h"},{"id":"after","type":"verb","verb":"shop:ship","args":{}}]`)
	reads := wants(0)
	reads.Tainted = true
	c := &conversation{turns: []flow.MapModelTurn{wants(0), reads, answers(`1`)}}
	looks := 0
	w.answers[anyVerb] = func(int) flow.MapCallEnd {
		if looks++; looks == 2 {
			w.grown.Store(long)
		}
		return executed(`{}`)
	}
	next := w.history(flow.MapInput{}, c.register(w))
	require.NotNil(t, next)
	require.Nil(t, w.history(*next, c.register(w)))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Equal(t, []bool{false, false, true, true}, w.tainted)
}

// A question of the manager waits for seven days, also where another history begins meanwhile. An answer
// in time goes to the next turn; one that came before the workflow waited does too.
func TestMapRunWaitsForAnAnswerForSevenDays(t *testing.T) {
	t.Parallel()
	asks := flow.MapModelTurn{Waits: stepmachine.WaitsInput}
	signalled := stepmachine.Signalled{Signal: stepmachine.SignalInput, Data: stepmachine.Of(json.RawMessage(`"blue"`))}
	answer := func(after time.Duration, w *mapWorld) func(int64) ([]stepmachine.Signalled, int64) {
		return func(heard int64) ([]stepmachine.Signalled, int64) {
			if heard > 0 || w.passed() < after {
				return nil, heard
			}
			return []stepmachine.Signalled{signalled}, 1
		}
	}
	for name, c := range map[string]struct {
		after  time.Duration
		status stepmachine.Status
	}{
		"early": {0, stepmachine.StatusCompleted}, "in time": {6 * 24 * time.Hour, stepmachine.StatusCompleted}, "never": {30 * 24 * time.Hour, stepmachine.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMapWorld(t, agentOfTest)
			talk := &conversation{turns: []flow.MapModelTurn{asks, answers(`"done"`)}}
			w.signals = answer(c.after, w)
			w.run(func(env *testsuite.TestWorkflowEnvironment) {
				talk.register(w)(env)
				if c.after == 0 {
					env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRecheck, nil) }, 0)
				}
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRecheck, nil) }, c.after)
			})
			require.Equal(t, c.status, w.finish.Status)
			if c.status == stepmachine.StatusFailed {
				require.Equal(t, "WAIT_TIMEOUT", w.finish.Error.Code)
				require.InDelta(t, 7*24, w.passed().Hours(), 1)
				return
			}
			require.Len(t, talk.asked, 2)
			require.JSONEq(t, `"blue"`, string(talk.asked[1].Input.JSON))
		})
	}
	t.Run("in another history", func(t *testing.T) {
		t.Parallel()
		w := newMapWorld(t, agentOfTest)
		talk := &conversation{turns: []flow.MapModelTurn{asks}}
		w.length = 10_000
		next := w.history(flow.MapInput{}, talk.register(w))
		require.NotNil(t, next)
		w.length = 0
		require.Nil(t, w.history(*next, talk.register(w)))
		require.Equal(t, "WAIT_TIMEOUT", w.finish.Error.Code)
		require.InDelta(t, 7*24, w.passed().Hours(), 1, "the time goes on")
	})
}
