package workflows_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/workflows"
)

// runOf is the run of a call of the verb in the world.
func runOf(verb string) uuid.UUID { return uuid.NewSHA1(uuid.Nil, []byte(verb)) }

// Their rows are written once, with the runs of the calls. Numbers stay as they were given.
func TestMapRunOfShortCallsWritesItsStepsAtItsEnd(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"a","type":"verb","verb":"shop:a","args":{}},{"id":"b","type":"set","assign":{"n":1}},
		{"id":"c","type":"verb","verb":"shop:c","args":{}}]`)
	w.short = true
	w.run(nil)
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Equal(t, 1, w.writes, "at the end")
	require.Equal(t, map[string]uuid.UUID{"/steps/0": runOf("shop:a"), "/steps/2": runOf("shop:c")}, w.runs)
	require.Len(t, w.numbers, 5, "two for each call, one for the step between")
	require.True(t, slices.IsSorted(w.numbers), "%v", w.numbers)
	require.Len(t, slices.Compact(w.numbers), 5)
	require.Equal(t, w.numbers[4], w.finished.Last())
}

// Others see what was done until then.
func TestMapRunWritesTheStepsOfShortCallsBeforeItWaits(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"a","type":"verb","verb":"shop:a","args":{}},{"id":"w","type":"wait","for":"1h"}]`)
	w.short = true
	written := 0
	w.news = func() flow.MapNews {
		if written == 0 {
			written = len(w.steps)
			require.Equal(t, stepmachine.StepCompleted, w.steps["/steps/0"].Status)
			require.Equal(t, runOf("shop:a"), w.runs["/steps/0"])
		}
		return flow.MapNews{}
	}
	w.run(nil)
	require.Equal(t, 2, written, "the call and the wait")
}

// An execution that goes on in a new history takes no records along: they are written before.
func TestMapRunWritesTheStepsOfShortCallsBeforeANewHistory(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"a","type":"verb","verb":"shop:a","args":{}},{"id":"w","type":"wait","for":"1h"},
		{"id":"b","type":"verb","verb":"shop:b","args":{}}]`)
	w.short = true
	w.answers["shop:a"] = func(int) flow.MapCallEnd {
		w.grown.Store(long)
		return executed(`{}`)
	}
	next := w.history(flow.MapInput{}, nil)
	require.NotNil(t, next)
	require.Equal(t, stepmachine.StepCompleted, w.steps["/steps/0"].Status)
	require.Nil(t, w.history(*next, nil))
	require.Equal(t, map[string]uuid.UUID{"/steps/0": runOf("shop:a"), "/steps/2": runOf("shop:b")}, w.runs)
}

// How many records wait is bounded, and only those of steps do.
func TestMapRunWritesWithACallWhatMayNotWait(t *testing.T) {
	t.Parallel()
	set := `{"id":"sN","type":"set","assign":{"n":1}},`
	var many strings.Builder
	for i := range 40 {
		many.WriteString(strings.Replace(set, "N", string(rune('a'+i/26))+string(rune('a'+i%26)), 1))
	}
	for name, before := range map[string]string{
		"many records": many.String(),
		"an event":     `{"id":"e","type":"emit","event":"custom.seen","data":{}},`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMapWorld(t, `[`+before+`{"id":"a","type":"verb","verb":"shop:a","args":{}}]`)
			w.short = true
			w.run(func(env *testsuite.TestWorkflowEnvironment) { crowdedFor(w, env, 0) }) // which answers the emit step too
			require.Equal(t, 2, w.writes, "with the call, and at the end")
		})
	}
}

// Two calls are under way at once, and the one that began first comes back last: its records are older.
func TestRecordsThatWaitStandInTheirOrder(t *testing.T) {
	t.Parallel()
	is := func(status stepmachine.StepStatus) stepmachine.Command {
		return stepmachine.RecordStep{Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, Status: status}
	}
	first := flow.MapWrites{Seq: 4, Commands: []stepmachine.Command{is(stepmachine.StepRunning), is(stepmachine.StepWaiting)}}
	second := flow.MapWrites{Seq: 6, Commands: []stepmachine.Command{is(stepmachine.StepCompleted)}}
	for name, left := range map[string]flow.MapWrites{"in turn": workflows.Kept(first, second), "the first one last": workflows.Kept(second, first), "given twice": workflows.Kept(workflows.Kept(first, second))} {
		require.Equal(t, append(slices.Clone(first.Commands), second.Commands...), left.Commands, name)
		require.Equal(t, []flow.MapKept{{Number: 5}, {Number: 6}, {Number: 7}}, left.Kept, name)
	}
}
