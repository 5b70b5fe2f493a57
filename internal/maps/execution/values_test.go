package execution_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
)

// grown has the execution store a value of a MiB, and values of which each has the one before twice.
// It returns the last one, which means 2^n MiB.
func (r *rig) grown(ref flow.MapRef, n int) stepmachine.Value {
	r.t.Helper()
	name := func(i int) stepmachine.Value {
		return stepmachine.Value{Stored: &stepmachine.Stored{ID: "v" + strconv.Itoa(i)}}
	}
	commands := []stepmachine.Command{stepmachine.StoreValue{ID: "v0", Value: stepmachine.Of(json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`))}}
	for i := 1; i <= n; i++ {
		commands = append(commands, stepmachine.StoreValue{ID: "v" + strconv.Itoa(i), Value: stepmachine.Value{
			Members: []stepmachine.Named{{Name: "a", Value: name(i - 1)}, {Name: "b", Value: name(i - 1)}},
		}})
	}
	_, err := r.Write(r.t.Context(), flow.MapWrites{MapRef: ref, Commands: commands})
	require.NoError(r.t, err)
	return name(n)
}

// A tenant can make values that mean any amount of memory. What reads them is refused, and the
// execution comes to its end.
func TestValuesThatMeanTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"M","steps":[{"id":"a","type":"transform","expr":"${trigger_data | length}"}]}`)
	ref := r.triggered("one")
	huge := r.grown(ref, 30)
	begun, err := r.Head(t.Context(), ref)
	require.NoError(t, err)

	_, err = r.Resolve(t.Context(), begun, huge, nil)
	require.ErrorIs(t, err, stepmachine.ErrTooLarge)
	evaluated, err := r.Evaluate(t.Context(), flow.MapEvaluation{MapRef: ref, Ask: stepmachine.Evaluate{
		Ref: stepmachine.Ref{Path: "/steps/0"}, What: "input", Scope: stepmachine.Scope{TriggerData: &huge},
	}})
	require.NoError(t, err)
	require.Equal(t, expression.CodeLimit, evaluated.Failure.Code)
	asked, err := r.Ask(t.Context(), flow.MapAsk{MapWrites: flow.MapWrites{MapRef: ref}, Ask: stepmachine.AskApproval{Ref: stepmachine.Ref{Path: "/steps/0"}, Payload: huge}})
	require.NoError(t, err)
	require.Equal(t, expression.CodeLimit, asked.Failure.Code)
	start := starts(ref, 1, `{}`)
	start.Start.Payload = huge
	other, err := r.StartOther(t.Context(), start)
	require.NoError(t, err)
	require.Equal(t, "INVALID_ARGS", other.End.Error.Code)
	_, err = r.Write(t.Context(), flow.MapWrites{MapRef: ref, Commands: []stepmachine.Command{stepmachine.Emit{ID: "e", Type: "custom.x", Data: huge}}})
	require.NoError(t, err)
	require.Equal(t, 1, r.number(`SELECT count(*) FROM events WHERE type = 'custom.x'`))

	result, err := r.Finish(t.Context(), flow.MapFinish{MapWrites: flow.MapWrites{MapRef: ref}, Finish: stepmachine.Finish{Status: stepmachine.StatusCompleted, Output: huge}})
	require.NoError(t, err)
	require.Equal(t, stepmachine.StatusFailed, result.Status)
	require.Equal(t, 1, r.number(`SELECT count(*) FROM map_executions WHERE status = 'failed' AND output IS NULL AND state IS NULL`))
}

// The outputs of a loop refer to one value that each of them has.
func TestOutputsOfALoopThatMeanTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.triggered("one")
	at := r.grown(ref, 0)
	loop := stepmachine.Ref{Path: "/steps/0"}
	var commands []stepmachine.Command
	for i := range 100 {
		commands = append(commands, stepmachine.StoreIteration{Ref: loop, Index: i, Output: at})
	}
	e, err := r.Head(t.Context(), ref)
	require.NoError(t, err)
	all := stepmachine.Value{Stored: &stepmachine.Stored{ID: stepmachine.Iterations(loop)}}
	_, err = r.Resolve(t.Context(), e, all, commands)
	require.ErrorIs(t, err, stepmachine.ErrTooLarge, "not written yet")
	_, err = r.Write(t.Context(), flow.MapWrites{MapRef: ref, Commands: commands})
	require.NoError(t, err)
	_, err = r.Resolve(t.Context(), e, all, nil)
	require.ErrorIs(t, err, stepmachine.ErrTooLarge)
	r.exec(`DELETE FROM map_values WHERE name LIKE 'iterations:%' AND name > 'iterations:/steps/0/00010'`)
	whole, err := r.Resolve(t.Context(), e, all, nil)
	require.NoError(t, err)
	require.Greater(t, len(whole), 10<<20)
}

// countingSandbox evaluates anything to true, and counts how often it does.
type countingSandbox struct{ runs *atomic.Int32 }

func (countingSandbox) Spend(int) bool { return true }

func (s countingSandbox) Run(context.Context, string, expression.Roots) ([]json.RawMessage, error) {
	s.runs.Add(1)
	return []json.RawMessage{json.RawMessage("true")}, nil
}

// Any number of executions may wait for one event.
func TestFilterIsEvaluatedOnceForEachEventAndValues(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	runs := &atomic.Int32{}
	r.Service = r.service(nothing{sandbox: countingSandbox{runs}})
	r.maps.program = r.program(`{"schema_version":"1","name":"M","steps":[{"id":"w","type":"wait","event":{"type":"custom.x","filter":"${[.data.n] | contains([trigger_data.n])}"}}]}`)
	refs := make([]flow.MapRef, 12)
	for i := range refs {
		refs[i] = r.triggered("m" + strconv.Itoa(i))
	}
	r.exec(`UPDATE map_executions SET map_id = $1`, refs[0].ID)
	all := func(wanted string, dot stepmachine.Value) int32 {
		before := runs.Load()
		var together sync.WaitGroup
		for i, ref := range refs {
			together.Go(func() {
				data := stepmachine.Of(json.RawMessage(wanted))
				at := stepmachine.Ref{Path: "/steps/0", Iteration: strconv.Itoa(i)}
				out, err := r.Evaluate(t.Context(), flow.MapEvaluation{MapRef: ref, Ask: stepmachine.Evaluate{
					Ref: at, What: "event/filter", Number: i, Scope: stepmachine.Scope{TriggerData: &data, Dot: &dot},
				}})
				if want := (stepmachine.Evaluated{Ref: at, Number: i, Value: stepmachine.Of(json.RawMessage("true"))}); err != nil || !reflect.DeepEqual(want, out) {
					t.Errorf("%+v, %v", out, err)
				}
			})
		}
		together.Wait()
		return runs.Load() - before
	}
	first, second := stepmachine.Of(json.RawMessage(`{"data":{"n":1}}`)), stepmachine.Of(json.RawMessage(`{"data":{"n":2}}`))
	require.EqualValues(t, 1, all(`{"n":1}`, first))
	require.EqualValues(t, 0, all(`{"n":1}`, first))
	require.EqualValues(t, 1, all(`{"n":1}`, second), "another event")
	require.EqualValues(t, 1, all(`{"n":2}`, second), "another value")
	large := stepmachine.Value{Stored: &stepmachine.Stored{ID: "event:e1"}}
	require.EqualValues(t, 1, all(`{"n":2}`, large), "an event that is too large to be carried")
	own := stepmachine.Evaluate{What: "event/filter", Scope: stepmachine.Scope{Dot: &stepmachine.Value{Stored: &stepmachine.Stored{ID: "event:signal:1:go"}}}}
	require.Empty(t, own.SameAs(), "a signal is the execution's own")
}
