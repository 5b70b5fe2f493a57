package workflows_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// long is the length of a history that goes on in a new one.
const long = 20_000

// twice runs two histories of an execution. What the world does in the first one makes it long.
func (w *mapWorld) twice(in flow.MapInput) {
	w.t.Helper()
	next := w.history(in, nil)
	require.NotNil(w.t, next, "the first history goes on in a new one")
	require.NotNil(w.t, next.Carried)
	require.Nil(w.t, w.history(*next, nil))
}

// Whether a failed Map frees its name depends on what was written in any of its histories.
func TestMapRunTakesAlongThatItHasWritten(t *testing.T) {
	t.Parallel()
	for name, wrote := range map[string]bool{"a write": true, "a read": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMapWorld(t, `[{"id":"s","type":"verb","verb":"shop:ship","args":{}},{"id":"w","type":"wait","for":"1h"},
				{"id":"no","type":"raise","error":{"code":"NO_STOCK"}}]`)
			w.answers["shop:ship"] = func(int) flow.MapCallEnd {
				w.grown.Store(long)
				end := executed(`{}`)
				end.End.Wrote = wrote
				return end
			}
			w.twice(flow.MapInput{})
			require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
			require.Equal(t, wrote, w.finished.Wrote)
			require.Len(t, w.calls, 1)
		})
	}
}

// How far the events are read goes along, so that the new history does not read them all again.
func TestMapRunTakesAlongHowFarEventsAreRead(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","event":{"type":"custom.paid"}}]`)
	w.places = func() map[string]string {
		w.grown.Store(long)
		return map[string]string{"/steps/0": "evt_7"}
	}
	w.events = func() []stepmachine.EventArrived {
		if len(w.looked) == 1 {
			return nil
		}
		return []stepmachine.EventArrived{arrives("/steps/0", "evt_8", `{}`)}
	}
	w.twice(flow.MapInput{})
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Empty(t, w.looked[0].Places)
	require.Equal(t, map[string]string{"/steps/0": "evt_7"}, w.looked[1].Places)
}

// A wait has ended in the last task of a history. Its row is still there, because that task may be
// lost. The new history reads no events for it, and takes it back.
func TestMapRunTakesAlongTheWaitsThatHaveEnded(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","event":{"type":"custom.paid"}},{"id":"p","type":"wait","for":"2h"},
		{"id":"v","type":"wait","event":{"type":"custom.paid"}}]`)
	w.events = func() (arrived []stepmachine.EventArrived) {
		for _, path := range w.waits {
			if !slices.Contains(w.endedAt, path) {
				arrived = append(arrived, arrives(path, "evt_1", `{}`))
			}
		}
		if len(w.looked) == 1 {
			w.grown.Store(long)
		}
		return arrived
	}
	next := w.history(flow.MapInput{}, nil)
	require.NotNil(t, next)
	require.Equal(t, []string{"/steps/0"}, w.waits, "the row of the wait that has ended is there")
	require.Len(t, w.looked, 1)
	require.Nil(t, w.history(*next, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SetCurrentHistoryLength(10) }, time.Minute) // a later task
	}))
	require.Equal(t, []string{"/steps/0"}, w.looked[1].Ended)
	require.Equal(t, []string{"/steps/2"}, w.waits)
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
}

// Others hear once of a wait, however many histories it lasts.
func TestMapRunTakesAlongOfWhatOthersWereTold(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","for":"3h"}]`)
	w.length = long
	next := w.history(flow.MapInput{}, nil)
	require.NotNil(t, next)
	require.Equal(t, 1, w.tells)
	w.length = 0
	require.Nil(t, w.history(*next, nil))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Equal(t, 1, w.tells)
}

// A step that makes more records than its time has numbers counts on in the new history.
func TestMapRunTakesAlongTheNumbersOfItsRecords(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"l","type":"foreach","items":[0`+strings.Repeat(",0", 29)+`],"steps":[{"id":"n","type":"transform","expr":"${item}"}]},
		{"id":"s","type":"verb","verb":"shop:ship","args":{}},{"id":"w","type":"wait","for":"1h"}]`)
	w.answers["shop:ship"] = func(int) flow.MapCallEnd {
		w.grown.Store(long)
		return executed(`{}`)
	}
	// The trigger was later than this clock says, so that the time alone gives no numbers.
	id := uuid.Must(uuid.NewV7())
	ms := uint64(time.Now().Add(24 * time.Hour).UnixMilli())
	copy(id[:6], binary.BigEndian.AppendUint64(nil, ms<<16))
	w.twice(flow.MapInput{MapRef: flow.MapRef{ID: id}})
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.True(t, slices.IsSorted(w.seqs), "%v", w.seqs)
	require.GreaterOrEqual(t, w.finished.Seq, 30)
}

// manyOpen is a Map with as many iterations under way as there may be, each after so many steps.
func manyOpen(steps int, last string) string {
	items := "[0" + strings.Repeat(",0", 49) + "]"
	each := func(id, inner string) string {
		return fmt.Sprintf(`[{"id":%q,"type":"foreach","mode":"parallel","concurrency":50,"items":%s,"steps":%s}]`, id, items, inner)
	}
	var list []string
	for n := range steps {
		list = append(list, fmt.Sprintf(`{"id":"s%d","type":"transform","expr":"x"}`, n))
	}
	return each("a", each("b", "["+strings.Join(append(list, last), ",")+"]"))
}

// The server takes 2 MiB into a new history, and ends a workflow that wants more. So the execution fails
// before: it undoes what it has done, and its state is not kept for a retry, which could not read it.
func TestMapRunFailsWhereItsStateIsTooLargeForANewHistory(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{
		"waits": `{"id":"w","type":"wait","event":{"type":"custom.paid"}}`, "calls that would begin there": `{"id":"c","type":"verb","verb":"shop:ship","args":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			many := manyOpen(60, last)
			w := newMapWorld(t, `[{"id":"stock","type":"verb","verb":"shop:reserve","args":{},"compensate":{"verb":"shop:release","args":{}}},`+many[1:])
			w.length = long
			w.run(nil)
			require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
			require.Equal(t, "STORAGE_LIMIT", w.finish.Error.Code)
			require.Equal(t, 1, w.finish.Compensated)
			require.Len(t, w.calls, 2, "the call of the first step, and the one that undoes it")
			require.Nil(t, w.finished.State)
		})
	}
}

// A test of its own looks after each thing that goes along.
func TestMapCarriedHasNothingElse(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(flow.MapCarried{
		State: []byte(`{}`), Places: map[string]string{"a": "b"}, Stopped: []stepmachine.StopAwaiting{{}}, Wrote: true, Told: []string{"a"}, Tainted: true, Sources: []string{"a"}, Reads: []string{"a"},
	})
	require.NoError(t, err)
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &members))
	require.ElementsMatch(t, []string{"private", "state", "open", "seq", "places", "stopped", "wrote", "told", "tainted", "sources", "reads"}, slices.Collect(maps.Keys(members)))
}
