package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// undoes has two writes that are undone when it fails.
const undoes = `[
	{"id":"a","type":"verb","verb":"shop:reserve","args":{},"compensate":{"verb":"shop:release","args":{}}},
	{"id":"b","type":"verb","verb":"shop:charge","args":{},"compensate":{"verb":"shop:refund","args":{}}},
	{"id":"stop","type":"raise","error":{"code":"STOP"}}]`

// undoing answers the calls that undo. They wait as waits says until over is true.
func undoing(w *mapWorld, waits flow.Step, what *flow.MapUndoing, over func() bool) {
	w.answers[""] = func(int) flow.MapCallEnd {
		if !over() {
			return flow.MapCallEnd{Step: waits, Undoes: what}
		}
		end := executed(`{}`)
		end.Undoes = what
		return end
	}
}

// ofB says what a call undoes.
func ofB() *flow.MapUndoing {
	return &flow.MapUndoing{Ref: stepmachine.Ref{Path: "/steps/1", Attempt: 1}, Call: "exec_undo"}
}

func TestMapRunWhoseUndoingWaitsShowsWhatFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waits flow.Step
		shown stepmachine.Status
		what  stepmachine.Waiting
	}{
		"held":         {flow.Step{State: "pending_approval", After: time.Hour, ApprovalID: "appr_1"}, stepmachine.StatusPending, stepmachine.WaitsApproval},
		"switched off": {flow.Step{State: "claimed", After: time.Minute, SwitchedOff: true}, stepmachine.StatusPaused, stepmachine.WaitsKillSwitch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMapWorld(t, undoes)
			undoing(w, c.waits, ofB(), func() bool { return w.passed() >= 2*time.Hour })
			w.run(nil)
			require.Equal(t, []stepmachine.Status{c.shown}, w.shown, "it is shown once, and its end goes with the next call")
			require.Equal(t, &stepmachine.WaitsFor{
				For: c.what, Step: "b", Ref: stepmachine.Ref{Path: "/steps/1", Attempt: 1}, UndoneBy: "exec_undo",
			}, w.waitedFor[0])
			require.Equal(t, 1, w.tells)
			require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
			require.Equal(t, 2, w.finish.Compensated)
		})
	}
}

// People are told of each call about which they are asked, also where the step itself was held before.
func TestMapRunTellsOfEachUndoingCallThatWaits(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, undoes)
	held := flow.Step{State: "pending_approval", After: time.Hour, ApprovalID: "appr_1"}
	w.answers["shop:charge"] = func(look int) flow.MapCallEnd {
		if look < 3 { // it is handed over by the second look
			return flow.MapCallEnd{Step: held}
		}
		return executed(`{}`)
	}
	calls := []*flow.MapUndoing{ofB(), {Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, Call: "exec_other"}}
	w.answers[""] = func(look int) flow.MapCallEnd {
		if look%3 > 0 {
			return flow.MapCallEnd{Step: held, Undoes: calls[look/3]}
		}
		return executed(`{}`)
	}
	w.run(nil)
	require.Equal(t, 3, w.tells)
	steps := []string{}
	for _, waits := range w.waitedFor {
		if waits != nil {
			steps = append(steps, waits.Step+" "+waits.UndoneBy)
		}
	}
	require.Equal(t, []string{"b ", "b exec_undo", "a exec_other"}, steps)
	require.Equal(t, 2, w.finish.Compensated)
}

// A history from before calls said what they undo shows the same as it did then. Otherwise its replay
// would write what it has not written.
func TestMapRunFromBeforeCallsSaidWhatTheyUndoShowsNothing(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, undoes)
	undoing(w, flow.Step{State: "pending_approval", After: time.Hour, ApprovalID: "appr_1"}, nil, func() bool { return w.passed() >= 2*time.Hour })
	w.run(nil)
	require.Empty(t, w.shown)
	require.Equal(t, 2, w.finish.Compensated)
}

// People may take weeks. The next history asks nobody again, and shows the same.
func TestMapRunWhoseUndoingIsHeldContinuesInANewHistory(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, undoes)
	decided := false
	undoing(w, flow.Step{State: "pending_approval", After: time.Hour, ApprovalID: "appr_1"}, ofB(), func() bool { return decided })
	next := w.history(flow.MapInput{}, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { w.grown.Store(20_000) }, 5*time.Minute)
	})
	require.NotNil(t, next)
	require.Len(t, next.Carried.Open, 1)
	require.Equal(t, "compensate", next.Carried.Open[0].Name())
	require.Equal(t, []stepmachine.Status{stepmachine.StatusPending}, w.shown)

	require.Nil(t, w.history(*next, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { decided = true }, 5*time.Minute)
	}))
	require.Equal(t, stepmachine.StatusPending, w.shown[len(w.shown)-1])
	require.Equal(t, 1, w.tells, "others are told once")
	require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
	require.Equal(t, 2, w.finish.Compensated)
	require.Equal(t, []string{"shop:reserve", "shop:charge", "", ""}, w.calls)
}
