package workflows_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// timed counts the timers of a workflow.
func timed(timers *int) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnTimerScheduledListener(func(string, time.Duration) { *timers++ })
	}
}

// The server refuses an answer of more than 4 MiB. So results of many megabytes come in more than
// one workflow task: a timer ends each.
func TestMapRunEndsATaskThatHasTakenMuch(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"f","type":"foreach","items":`+numbers(t, 100)+`,"steps":[{"id":"v","type":"verb","verb":"shop:read","args":{}}]}]`)
	w.answers["shop:read"] = func(int) flow.MapCallEnd { return executed(`"` + strings.Repeat("x", 30<<10) + `"`) }
	timers := 0
	w.run(timed(&timers))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Equal(t, 2, timers, "one for each MiB of 3,000 KiB")
}

// News are read page by page, and many pages have more than one task may take.
func TestMapRunEndsATaskThatHasReadManyEvents(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","event":{"type":"custom.paid","filter":"${.n == 99}"}}]`)
	looks := 0
	w.news = func() flow.MapNews {
		looks++
		if looks == 1 {
			return flow.MapNews{}
		}
		n := looks - 2
		body := `{"n":` + string(mustJSON(t, n)) + `,"text":"` + strings.Repeat("x", 30<<10) + `"}`
		return flow.MapNews{More: n < 99, Arrived: []stepmachine.EventArrived{arrives("/steps/0", "evt_"+string(mustJSON(t, n)), body)}}
	}
	timers := 0
	w.run(timed(&timers))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Equal(t, 2, timers)
}

// News that no task can take all are left to the next history.
func TestMapRunLeavesNewsToTheNextHistory(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","event":{"type":"custom.paid"}}]`)
	w.length = 20_000
	w.news = func() flow.MapNews { return flow.MapNews{More: true} }
	next := w.history(flow.MapInput{}, nil)
	require.NotNil(t, next)
	w.length = 0
	w.news = func() flow.MapNews {
		return flow.MapNews{Arrived: []stepmachine.EventArrived{arrives("/steps/0", "evt_1", `1`)}}
	}
	require.Nil(t, w.history(*next, nil))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
}

// Steps without any call are written now and then, which is a pause, and a cancellation is seen.
func TestMapRunWritesWhileItOnlyComputes(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"f","type":"foreach","items":`+numbers(t, 10_000)+`,"steps":[
		{"id":"a","type":"set","assign":{"v":"${index}"}},{"id":"b","type":"set","assign":{"v":"${index}"}}]}]`)
	looks := 0
	w.news = func() flow.MapNews {
		looks++
		return flow.MapNews{Cancel: looks == 2}
	}
	w.run(nil)
	require.Equal(t, stepmachine.StatusCancelled, w.finish.Status)
	require.Less(t, len(w.steps), 15_000)
}

// numbers is the array of the first n numbers.
func numbers(t *testing.T, n int) string {
	t.Helper()
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return string(mustJSON(t, list))
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}
