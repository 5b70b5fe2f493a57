package workflows_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"agentruntime/internal/dev/nextmachine"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/stepmachine"
)

// onMachine is an execution that waits, then makes a call, which is refused once where it is to fail.
func onMachine(t *testing.T, version int, fails bool) *mapWorld {
	t.Helper()
	w := newMapWorld(t, `[{"id":"w","type":"wait","for":"2h"},{"id":"bill","type":"verb","verb":"shop:bill","args":{}}]`)
	w.machine, w.length = version, long
	w.answers["shop:bill"] = func(look int) flow.MapCallEnd {
		end := executed(`{"paid":true}`)
		if fails && look == 1 {
			end.End = stepmachine.CallEnd{Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_REJECTED", "no")}
		}
		return end
	}
	return w
}

// versionOf returns the version of the machine that has made a state.
func versionOf(t *testing.T, state flow.MachineState) int {
	t.Helper()
	var in struct{ Version int }
	require.NoError(t, json.Unmarshal(state, &in))
	return in.Version
}

// A Map waits while a release brings the next version of the machine. It goes on in a new history,
// fails, and is retried, all on the machine that it began on.
func TestMapRunStaysOnTheMachineItBeganOn(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]int{"the row names it": stepmachine.Version, "the history is from before rows were asked": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onMachine(t, row, true)
			next := w.history(flow.MapInput{}, nil)
			require.NotNil(t, next)
			require.Equal(t, stepmachine.Version, versionOf(t, next.Carried.State))

			w.machines, w.length = nextmachine.Machines(), 0
			require.Nil(t, w.history(*next, nil))
			require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
			require.Equal(t, stepmachine.Version, versionOf(t, w.finished.State))

			w.again, w.state = &stepmachine.Again{}, w.finished.State
			require.Nil(t, w.history(flow.MapInput{MapRef: flow.MapRef{Attempt: 2}}, nil))
			require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
			require.JSONEq(t, `{"paid":true}`, string(w.finish.Output.JSON))
			require.Equal(t, []string{"shop:bill", "shop:bill"}, w.calls)
		})
	}
}

// Beside it, a new execution begins on the next version, and stays there.
func TestMapRunBeginsOnTheMachineOfItsRow(t *testing.T) {
	t.Parallel()
	w := onMachine(t, nextmachine.Version, true)
	w.machines = nextmachine.Machines()
	next := w.history(flow.MapInput{}, nil)
	require.NotNil(t, next)
	require.Equal(t, nextmachine.Version, versionOf(t, next.Carried.State))
	w.length = 0
	require.Nil(t, w.history(*next, nil))
	require.Equal(t, nextmachine.Version, versionOf(t, w.finished.State))
	w.again, w.state = &stepmachine.Again{}, w.finished.State
	require.Nil(t, w.history(flow.MapInput{MapRef: flow.MapRef{Attempt: 2}}, nil))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
}

// A worker of the release before cannot go on with it, and must not end it either: the panic fails the
// workflow task only, and a worker that has the machine takes it.
func TestMapRunWithoutItsMachineIsNotEnded(t *testing.T) {
	t.Parallel()
	w := onMachine(t, nextmachine.Version, false)
	env := w.environment()
	env.ExecuteWorkflow(flow.WorkflowMapRun, flow.MapInput{})
	var panicked *temporal.PanicError
	require.ErrorAs(t, env.GetWorkflowError(), &panicked)
	require.ErrorContains(t, panicked, "version "+strconv.Itoa(nextmachine.Version)+" of the step machine")
	require.Nil(t, w.finish)
}
