package workflows_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// arrives is an event for the step of the path.
func arrives(path, id, body string) stepmachine.EventArrived {
	return stepmachine.EventArrived{Ref: stepmachine.Ref{Path: path}, ID: id, Event: stepmachine.Of(json.RawMessage(body))}
}

// What is read is read in pages, and an event that is read twice counts once.
func TestMapRunReadsAllNewsOfAWait(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[
		{"id":"w","type":"wait","event":{"type":"custom.paid","filter":"${.sum > 1}"}},
		{"id":"again","type":"wait","event":{"type":"go"}},
		{"id":"o","type":"transform","expr":["${steps.w.output.sum}","${steps.again.output.data}"]}]`)
	looks := 0
	w.news = func() flow.MapNews {
		looks++
		switch looks {
		case 1, 2: // what is shown, and the first look after the wait was written
			return flow.MapNews{More: true, Arrived: []stepmachine.EventArrived{arrives("/steps/0", "evt_1", `{"sum":1}`)}}
		case 3:
			return flow.MapNews{
				Arrived: []stepmachine.EventArrived{arrives("/steps/0", "evt_1", `{"sum":1}`), arrives("/steps/0", "evt_2", `{"sum":2}`)},
				Signals: []stepmachine.Signalled{{Signal: "go", Data: stepmachine.Of(json.RawMessage(`"yes"`))}}, Looked: 1,
			}
		default:
			return flow.MapNews{}
		}
	}
	w.run(nil)
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.JSONEq(t, `[2,"yes"]`, string(w.finish.Output.JSON))
}

// A wait is written before the workflow looks for events that came before, without being told.
func TestMapRunLooksForEventsThatCameBefore(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","event":{"type":"custom.paid","since":"step"}},{"id":"v","type":"wait","event":{"type":"custom.paid"}}]`)
	var asked []string
	w.events = func() (arrived []stepmachine.EventArrived) {
		for _, path := range w.waits {
			if slices.Contains(w.endedAt, path) {
				continue
			}
			asked = append(asked, path)
			arrived = append(arrived, arrives(path, "evt_1", `{}`))
		}
		return arrived
	}
	w.run(nil)
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Equal(t, []string{"/steps/0", "/steps/1"}, asked)
	require.Equal(t, []string{"/steps/0"}, w.endedAt, "its row stays, because the task that ended it may be lost")
}

// A worker may die after its task has written what it did with an event. The repeat of the task finds
// the event by the wait, so the wait is taken back by a later task, or by a later history.
func TestMapRunTakesAWaitBackInALaterTask(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int{"in a later task": 10, "in a later history": 20_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMapWorld(t, `[{"id":"w","type":"wait","event":{"type":"custom.paid"}},{"id":"s","type":"verb","verb":"shop:ship","args":{}},
				{"id":"v","type":"wait","event":{"type":"custom.paid"}}]`)
			var asked [][]string
			w.events = func() (arrived []stepmachine.EventArrived) {
				asked = append(asked, slices.Clone(w.waits))
				for _, path := range w.waits {
					arrived = append(arrived, arrives(path, "evt_1", `{}`))
				}
				return arrived
			}
			w.answers["shop:ship"] = func(int) flow.MapCallEnd {
				require.Equal(t, []string{"/steps/0"}, w.waits)
				w.grown.Store(int64(length))
				return executed(`{}`)
			}
			for next := (&flow.MapInput{}); next != nil; {
				next = w.history(*next, nil)
			}
			require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
			require.Equal(t, []string{"/steps/0"}, asked[0])
			require.Equal(t, []string{"/steps/2"}, asked[len(asked)-1])
		})
	}
}

// otherMap has a step start another Map, which is as far as at says, at its nth look.
func otherMap(w *mapWorld, at func(look int, stopped bool) flow.MapOfMap) func(*testsuite.TestWorkflowEnvironment) {
	child, looks, stopped := uuid.New(), 0, false
	w.stops = 0
	look := func(ref stepmachine.Ref) flow.MapOfMap {
		looks++
		out := at(looks, stopped)
		out.Child, out.End.Ref = child, ref
		return out
	}
	return func(env *testsuite.TestWorkflowEnvironment) {
		local := func(name string, f any) { env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
		local(string(flow.StartMapOfMap), func(_ context.Context, in flow.MapStart) (flow.MapOfMap, error) {
			w.write(in.MapWrites)
			return look(in.Start.Ref), nil
		})
		local(string(flow.LookAtMapOfMap), func(_ context.Context, in flow.MapOfMapRef) (flow.MapOfMap, error) { return look(in.Ref), nil })
		local(string(flow.StopMapOfMap), func(_ context.Context, in flow.MapOfMapRef) (flow.MapOfMap, error) {
			stopped = true
			w.stops++
			return look(in.Ref), nil
		})
	}
}

const startsAnother = `{"id":"sub","type":"map","map_id":"0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a22"`

func ended(status stepmachine.CallStatus, result string) flow.MapOfMap {
	return flow.MapOfMap{Done: true, End: stepmachine.CallEnd{Status: status, Result: stepmachine.Of(json.RawMessage(result))}}
}

// The signal of the end is lost: the execution finds it by looking, and seldom.
func TestMapRunFindsTheEndOfAnotherMap(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[`+startsAnother+`}]`)
	looks := 0
	w.run(otherMap(w, func(look int, _ bool) flow.MapOfMap {
		looks = look
		if w.passed() < 24*time.Hour {
			return flow.MapOfMap{Waits: stepmachine.WaitsEvent}
		}
		return ended(stepmachine.CallExecuted, `{"n":1}`)
	}))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.JSONEq(t, `{"n":1}`, string(w.finish.Output.JSON))
	require.Contains(t, w.shown, stepmachine.StatusWaiting, "it waits for what the other Map waits for")
	require.LessOrEqual(t, looks, 32)
	require.Less(t, w.passed(), 26*time.Hour)
}

func TestMapRunIsToldOfTheEndOfAnotherMap(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[`+startsAnother+`}]`)
	register := otherMap(w, func(look int, _ bool) flow.MapOfMap {
		if look == 1 {
			return flow.MapOfMap{}
		}
		return ended(stepmachine.CallExecuted, `{}`)
	})
	w.run(func(env *testsuite.TestWorkflowEnvironment) {
		register(env)
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalMapEnded, nil) }, 20*time.Second)
	})
	require.Less(t, w.passed(), time.Minute)
}

// A step that is given up cancels the other Map once, and waits for its end.
func TestMapRunStopsTheOtherMapOfAStepThatTakesTooLong(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[`+startsAnother+`,"timeout":"10s","catch":[{"errors":["STEP_TIMEOUT"],"steps":[]}]},{"id":"o","type":"transform","expr":"${steps.sub.error.code}"}]`)
	after := 0
	w.run(otherMap(w, func(_ int, stopped bool) flow.MapOfMap {
		if stopped {
			if after++; after > 2 {
				return ended(stepmachine.CallCancelled, `null`)
			}
		}
		return flow.MapOfMap{}
	}))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.JSONEq(t, `"STEP_TIMEOUT"`, string(w.finish.Output.JSON))
	require.Equal(t, 3, after)
	require.Equal(t, 1, w.stops)
}

// In a new history the wait and the other Map are taken up again.
func TestMapRunTakesWaitsIntoANewHistory(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"p","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"w","type":"wait","event":{"type":"custom.paid"}}]},
		{"id":"b","steps":[`+startsAnother+`}]}]}]`)
	w.length = 20_000
	over := false
	register := otherMap(w, func(int, bool) flow.MapOfMap {
		if !over {
			return flow.MapOfMap{Waits: stepmachine.WaitsEvent}
		}
		return ended(stepmachine.CallExecuted, `2`)
	})
	next := w.history(flow.MapInput{}, register)
	require.NotNil(t, next)
	require.NotNil(t, next.Carried)
	require.Len(t, next.Carried.Open, 2)
	w.length, over = 0, true
	w.events = func() []stepmachine.EventArrived {
		return []stepmachine.EventArrived{arrives("/steps/0/branches/0/steps/0", "evt_1", `1`)}
	}
	require.Nil(t, w.history(*next, register))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.JSONEq(t, `{"a":1,"b":2}`, string(w.finish.Output.JSON))
}

// A signal that no step has used goes along into a new history, and is not read again.
func TestMapRunCountsASignalOnceInANewHistory(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[
		{"id":"first","type":"wait","event":{"type":"first"}},
		{"id":"kept","type":"wait","event":{"type":"kept"}},
		{"id":"o","type":"transform","expr":"${steps.kept.output.data}"}]`)
	sent := []stepmachine.Signalled{
		{Signal: "kept", Data: stepmachine.Of(json.RawMessage(`1`))}, {Signal: "first"}, {Signal: "kept", Data: stepmachine.Of(json.RawMessage(`2`))},
	}
	come := 1
	var read []int64
	w.signals = func(after int64) ([]stepmachine.Signalled, int64) {
		read = append(read, after)
		return sent[after:come], int64(come)
	}
	w.length = 20_000
	next := w.history(flow.MapInput{}, nil)
	require.NotNil(t, next)
	w.length, come = 0, 3
	require.Nil(t, w.history(*next, nil))
	require.Equal(t, []int64{0, 1}, read[:2])
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.JSONEq(t, `1`, string(w.finish.Output.JSON), "the first of the two")
}

// What comes while the last of a history is written is not lost with it.
func TestMapRunHeedsWhatComesAtTheChangeToANewHistory(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","for":"1h"}]`)
	w.length = 20_000
	writes := 0
	w.news = func() flow.MapNews {
		if writes++; writes == 1 { // that of the change
			w.env.CancelWorkflow()
		}
		return flow.MapNews{}
	}
	require.Nil(t, w.history(flow.MapInput{}, nil))
	require.Equal(t, stepmachine.StatusCancelled, w.finish.Status)
}
