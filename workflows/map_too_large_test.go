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
	"agentruntime/internal/maps/stepmachine"
)

// tooMuch is the world of a Map that has three writes to undo and more steps under way than a new history
// takes. more are members of its definition.
func tooMuch(t *testing.T, more string) *mapWorld {
	t.Helper()
	return newMapWorld(t, `[
		{"id":"one","type":"verb","verb":"shop:reserve","args":{},"compensate":{"verb":"shop:release","args":{}}},
		{"id":"two","type":"verb","verb":"shop:charge","args":{},"compensate":{"verb":"shop:refund","args":{}}},
		{"id":"three","type":"verb","verb":"shop:ship","args":{},"compensate":{"verb":"shop:recall","args":{}}},`+
		manyOpen(60, `{"id":"w","type":"wait","event":{"type":"custom.paid"}}`)[1:]+more)
}

// growsTooLong has the history of the world grow too long at the nth look at a call.
func growsTooLong(w *mapWorld, verb string, at int) {
	w.answers[verb] = func(look int) flow.MapCallEnd {
		if look == at {
			w.grown.Store(long)
		}
		return executed(`{}`)
	}
}

// cancelledAfterAnHour has people cancel the execution.
func cancelledAfterAnHour(w *mapWorld) func(*testsuite.TestWorkflowEnvironment) {
	w.news = func() flow.MapNews { return flow.MapNews{Cancel: w.passed() >= time.Hour} }
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRecheck, nil) }, time.Hour)
	}
}

// The next call that undoes was left to the next history, which there is none of.
func TestMapRunThatGrowsTooLongWhileItUndoesEnds(t *testing.T) {
	t.Parallel()
	w := tooMuch(t, "")
	growsTooLong(w, "", 1)
	w.run(cancelledAfterAnHour(w))
	require.Equal(t, stepmachine.StatusCancelled, w.finish.Status)
	require.Equal(t, 3, w.finish.Compensated)
	require.Equal(t, []string{"shop:reserve", "shop:charge", "shop:ship", "", "", ""}, w.calls, "each call was made once")
}

// So was what on_failure does next, whatever that is.
func TestMapRunThatGrowsTooLongInOnFailureEnds(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]string{
		"a call":        `{"id":"next","type":"verb","verb":"shop:tell","args":{}}`,
		"an expression": `{"id":"next","type":"transform","expr":"${[range(3)] | length}"}`,
		"a question":    `{"id":"next","type":"approval","title":"Go on?"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tooMuch(t, `,"limits":{"max_duration":"1h"},"on_failure":[{"id":"first","type":"verb","verb":"shop:note","args":{}},{"id":"second","type":"verb","verb":"shop:note","args":{}},`+next+`]`)
			growsTooLong(w, "shop:note", 1)
			w.run(func(env *testsuite.TestWorkflowEnvironment) {
				evaluates(w, env)
				asks(w, env)
			})
			require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
			require.Equal(t, "DURATION_LIMIT", w.finish.Error.Code)
			require.Nil(t, w.finish.OnFailureError)
			require.Equal(t, stepmachine.StepCompleted, w.steps["/on_failure/2"].Status)
		})
	}
}

// Two writes have ended. The arguments of the call that undoes the second one were to be evaluated in the
// next history.
func TestMapRunThatGrowsTooLongAtTheEndOfAWriteUndoesIt(t *testing.T) {
	t.Parallel()
	many := manyOpen(60, `{"id":"w","type":"wait","event":{"type":"custom.paid"}}`)
	write := func(id string) string {
		return `{"id":"in_` + id + `","steps":[{"id":"pause_` + id + `","type":"wait","for":"1h"},
			{"id":"` + id + `","type":"verb","verb":"shop:reserve","args":{},"compensate":{"verb":"shop:release","args":{"n":"${[range(3)] | length}"}}}]}`
	}
	w := newMapWorld(t, `[{"id":"all","type":"parallel","branches":[{"id":"many","steps":`+many+`},`+write("one")+`,`+write("two")+`]}]`)
	growsTooLong(w, "shop:reserve", 2)
	w.run(func(env *testsuite.TestWorkflowEnvironment) { evaluates(w, env) })
	require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
	require.Equal(t, "STORAGE_LIMIT", w.finish.Error.Code)
	require.Equal(t, 2, w.finish.Compensated)
}

// People may take days. In a history that goes on in no new one the execution looks so rarely that the
// server's bound is far away, and is told when they have decided.
func TestMapRunThatIsTooLargeLooksRarelyAtWhatIsHeld(t *testing.T) {
	t.Parallel()
	const decided = 30*24*time.Hour + 10*time.Minute
	for name, held := range map[string]flow.Step{
		"for people":                     {State: "pending_approval", After: time.Hour, ApprovalID: "appr_1"},
		"for a kill switch":              {State: "claimed", After: time.Minute, SwitchedOff: true},
		"for a kill switch, with an end": {State: "claimed", After: time.Minute, SwitchedOff: true, Left: 4 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tooMuch(t, "")
			looks := 0
			w.answers[""] = func(int) flow.MapCallEnd {
				looks++
				if looks == 1 {
					w.grown.Store(long)
					return executed(`{}`)
				}
				if w.passed() < decided {
					return flow.MapCallEnd{Step: held, Undoes: &flow.MapUndoing{Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, Call: "exec_undo"}}
				}
				return executed(`{}`)
			}
			cancels := cancelledAfterAnHour(w)
			w.run(func(env *testsuite.TestWorkflowEnvironment) {
				cancels(env)
				if !held.SwitchedOff { // a lift signals nothing
					env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRunEnded, nil) }, decided)
				}
			})
			require.Equal(t, 3, w.finish.Compensated)
			within := time.Minute // a signal wakes it
			if held.SwitchedOff {
				within = time.Hour
			}
			require.Less(t, w.ended[""], decided+within)
			require.Greater(t, looks, 30*24/2)
			require.Less(t, looks, 30*24+10, "once an hour")
		})
	}
}

// evaluates has expressions evaluated to 3.
func evaluates(w *mapWorld, env *testsuite.TestWorkflowEnvironment) {
	w.t.Helper()
	env.RegisterActivityWithOptions(func(_ context.Context, in flow.MapEvaluation) (flow.MapEvaluated, error) {
		return flow.MapEvaluated{Evaluated: stepmachine.Evaluated{Ref: in.Ask.Ref, Number: in.Ask.Number, Value: stepmachine.Of(json.RawMessage(`3`))}}, nil
	}, activity.RegisterOptions{Name: string(flow.EvaluateInMap)})
}

// asks has people asked, who approve at once.
func asks(w *mapWorld, env *testsuite.TestWorkflowEnvironment) {
	w.t.Helper()
	asked := false
	env.RegisterActivityWithOptions(func(context.Context, flow.MapAsk) (flow.MapAsked, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		asked = true
		return flow.MapAsked{Closed: true}, nil
	}, activity.RegisterOptions{Name: string(flow.AskInMap)})
	w.news = func() flow.MapNews {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !asked {
			return flow.MapNews{}
		}
		return flow.MapNews{Decisions: []stepmachine.Decided{{Ref: stepmachine.Ref{Path: "/on_failure/2"}, Decision: stepmachine.Approve}}}
	}
}
