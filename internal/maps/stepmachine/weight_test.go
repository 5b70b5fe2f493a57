package stepmachine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/stepmachine"
)

// stateLimit is what the server takes as the input of a workflow.
const stateLimit = 2 << 20

func (x *player) bytes() int {
	x.t.Helper()
	raw, err := x.s.Encode()
	require.NoError(x.t, err)
	return len(raw)
}

// A Map reads the large outputs of 150 steps at its end. Its state stays small enough for a new
// history.
func TestStateStaysSmallWithManyOutputs(t *testing.T) {
	t.Parallel()
	var steps, reads []string
	for i := range 150 {
		steps = append(steps, fmt.Sprintf(`  - {id: s%d, type: verb, verb: "shop:read"}`, i))
		reads = append(reads, fmt.Sprintf("steps.s%d.output", i))
	}
	x, commands := start(t, "steps:\n"+strings.Join(steps, "\n")+"\n  - {id: all, type: transform, expr: \"${["+strings.Join(reads, ",")+"]}\"}")
	result := `"` + strings.Repeat("x", 30<<10) + `"`
	most := 0
	for i := range 150 {
		call := find[stepmachine.StartVerb](t, commands)
		state, next, err := stepmachine.Next(x.p, x.s, at(i), executed(call.Ref, result))
		require.NoError(t, err)
		x.s, commands = state, next
		most = max(most, x.bytes())
	}
	find[stepmachine.Evaluate](t, commands)
	require.Less(t, most, stateLimit/2)
}

// underWay runs loops within loops until as many iterations as there may be wait for an event, each after
// so many calls with such a result. filter is the condition of the wait. It returns how many bytes go
// along into a new history, and how many iterations made calls.
func underWay(t *testing.T, calls int, result json.RawMessage, filter string, loops ...string) (carried, iterations int) {
	t.Helper()
	items := "[" + strings.TrimSuffix(strings.Repeat("1,", 50), ",") + "]"
	var list []string
	for n := range calls {
		list = append(list, fmt.Sprintf(`{"id":"read%d","type":"verb","verb":"shop:read","args":{}}`, n))
	}
	steps := "[" + strings.Join(append(list, `{"id":"w","type":"wait","event":{"type":"go"`+filter+`}}`), ",") + "]"
	for _, id := range loops {
		steps = fmt.Sprintf(`[{"id":%q,"type":"foreach","mode":"parallel","concurrency":50,"items":%s,"steps":%s}]`, id, items, steps)
	}
	x, commands := start(t, `{"steps":`+steps+`}`)
	made, most := 0, 0
	var open []stepmachine.Command
	for queue := commands; len(queue) > 0; {
		command := queue[0]
		queue = queue[1:]
		var e stepmachine.Event
		switch c := command.(type) {
		case stepmachine.StartVerb:
			made++
			e = stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallExecuted, Result: stepmachine.Of(result), Sent: true}}
		case stepmachine.Continue:
			e = stepmachine.Continued{}
		default:
			if waitsForAnswer(command) {
				open = append(open, command)
			}
			continue
		}
		state, more, err := stepmachine.Next(x.p, x.s, at(1), e)
		require.NoError(t, err)
		x.s, queue = state, append(queue, more...)
		if made%100 == 0 {
			most = max(most, x.bytes())
		}
	}
	require.Equal(t, stepmachine.StatusWaiting, x.s.Status)
	return max(most, x.carried(open)), made / calls
}

// reads is the filter of a wait that reads the outputs of so many calls.
func reads(calls int) string {
	var list []string
	for n := range calls {
		list = append(list, fmt.Sprintf("steps.read%d.output", n))
	}
	return `,"filter":"${[` + strings.Join(list, ",") + `] == 1}"`
}

// Loops within loops have many iterations under way, each with its outputs.
func TestStateStaysSmallWithLoopsInLoops(t *testing.T) {
	t.Parallel()
	carried, iterations := underWay(t, 1, json.RawMessage(`"`+strings.Repeat("x", 20<<10)+`"`), reads(1), "c", "b", "a")
	require.GreaterOrEqual(t, iterations, 50, "each of the first loop goes on")
	require.LessOrEqual(t, iterations, stepmachine.MaxOpen)
	require.Less(t, carried, stateLimit*3/4)
}

// What ended steps leave behind in each iteration has no bound but the number of steps. Ten steps fit
// for all iterations that may be under way at a time. Where it is too much for a new history, the workflow
// has the execution fail.
func TestStateHasRoomForTenStepsInEachIterationUnderWay(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]string{"small": `1`, "as long as a heavy state takes": `"` + strings.Repeat("x", 62) + `"`, "stored": `"` + strings.Repeat("x", 2<<10) + `"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			carried, iterations := underWay(t, 10, json.RawMessage(result), reads(10), "b", "a")
			require.Greater(t, iterations, 900)
			require.Less(t, carried, stateLimit*7/8)
		})
	}
}

// What the machine reads of an input itself is not lost where the state only refers to the input.
func TestTextsForPeopleAreReadWhereTheStateIsHeavy(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 2<<10)
	var steps, reads []string
	for i := range 20 {
		steps = append(steps, fmt.Sprintf(`  - {id: s%d, type: verb, verb: "shop:read"}`, i))
		reads = append(reads, fmt.Sprintf("steps.s%d.output", i))
	}
	last := "\n  - {id: all, type: transform, expr: \"${[" + strings.Join(reads, ",") + "]}\"}"
	for name, c := range map[string]struct {
		step string
		read func(t *testing.T, commands []stepmachine.Command) string
	}{
		"title": {`{id: p, type: approval, title: "` + text + `", payload: {n: 1}}`, func(t *testing.T, commands []stepmachine.Command) string {
			t.Helper()
			ask := find[stepmachine.AskApproval](t, commands)
			require.Equal(t, "/payload", ask.Payload.Stored.At)
			return ask.Title
		}},
		"reason": {`{id: p, type: escalate, reason: "` + text + `", wait: true}`, func(t *testing.T, commands []stepmachine.Command) string {
			t.Helper()
			return find[stepmachine.Escalate](t, commands).Reason
		}},
		"correlate": {`{id: p, type: wait, event: {type: go, correlate: "` + text + `"}}`, func(t *testing.T, commands []stepmachine.Command) string {
			t.Helper()
			return find[stepmachine.AwaitEvent](t, commands).Correlate
		}},
		"detail": {`{id: p, type: raise, error: {code: NO, detail: "` + text + `"}}`, func(t *testing.T, commands []stepmachine.Command) string {
			t.Helper()
			return find[stepmachine.Finish](t, commands).Error.Detail
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, commands := start(t, "steps:\n"+strings.Join(steps, "\n")+"\n  - "+c.step+last)
			for i := range 20 {
				call := find[stepmachine.StartVerb](t, commands)
				state, next, err := stepmachine.Next(x.p, x.s, at(i), executed(call.Ref, `"`+strings.Repeat("x", 30<<10)+`"`))
				require.NoError(t, err)
				x.s, commands = state, next
			}
			require.Equal(t, text, c.read(t, commands))
		})
	}
}

// A text that is too large for any state is named, and nothing goes on without it.
func TestInputsOverTheBoundAreReferredTo(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", stepmachine.MaxInline)
	_, commands := start(t, `{"steps":[{"id":"p","type":"approval","title":"Go?","payload":{"text":"`+text+`"}}]}`)
	ask := find[stepmachine.AskApproval](t, commands)
	require.Equal(t, "Go?", ask.Title)
	require.Nil(t, ask.StoredTitle)
	require.Equal(t, "/payload", ask.Payload.Stored.At)

	x, commands := start(t, `{"steps":[{"id":"p","type":"wait","event":{"type":"go","correlate":"${[range(9)] | tojson}"}}]}`)
	evaluate := find[stepmachine.Evaluate](t, commands)
	large := stepmachine.Value{Stored: &stepmachine.Stored{ID: "large", Bytes: len(text) + 2}}
	_, commands, err := stepmachine.Next(x.p, x.s, at(1), stepmachine.Evaluated{Ref: evaluate.Ref, Number: evaluate.Number, Value: large})
	require.NoError(t, err)
	require.Equal(t, "EXPRESSION_LIMIT", find[stepmachine.Finish](t, commands).Error.Code)

	x, commands = start(t, `{"steps":[{"id":"p","type":"approval","title":"${[range(9)] | tojson}"}]}`)
	evaluate = find[stepmachine.Evaluate](t, commands)
	_, commands, err = stepmachine.Next(x.p, x.s, at(1), stepmachine.Evaluated{Ref: evaluate.Ref, Number: evaluate.Number, Value: large})
	require.NoError(t, err)
	ask = find[stepmachine.AskApproval](t, commands)
	require.Equal(t, "/title", ask.StoredTitle.Stored.At)
}
