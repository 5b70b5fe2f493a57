package stepmachine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
)

// The first of two steps that wait for a signal fails by it, and with it the Map. The second
// one was given up by then, so it does not complete.
func TestSignalStopsAtTheFailureItCauses(t *testing.T) {
	t.Parallel()
	x, _ := start(t, `
steps:
  - id: p
    type: parallel
    branches:
      - {id: a, steps: [{id: w, type: wait, event: {type: go, filter: "${.type}"}}]}
      - {id: b, steps: [{id: v, type: wait, event: {type: go}}]}
`)
	commands := x.next(at(1), stepmachine.Signalled{Signal: "go"})
	require.Equal(t, stepmachine.StatusFailed, find[stepmachine.Finish](t, commands).Status)
	require.NotContains(t, written(t, commands), `"id":"v","type":"wait","status":"completed"`)
}

// A kept signal fails the step, and the next one that was kept comes too late.
func TestKeptSignalsStopAtTheFailureTheyCause(t *testing.T) {
	t.Parallel()
	x, _ := start(t, `
steps:
  - {id: first, type: wait, event: {type: begin}}
  - {id: w, type: wait, event: {type: go, filter: "${.data}"}}
`)
	for _, data := range []string{`1`, `true`} {
		x.next(at(1), stepmachine.Signalled{Signal: "go", Data: stepmachine.Of(json.RawMessage(data))})
	}
	commands := x.next(at(2), stepmachine.Signalled{Signal: "begin"})
	require.Equal(t, stepmachine.StatusFailed, find[stepmachine.Finish](t, commands).Status)
	require.NotContains(t, written(t, commands), `"id":"w","type":"wait","status":"completed"`)
}

// A value names another one twice, and that one the one before, and so on: 2^40 times the first.
func TestValueThatMeansTooMuchIsNotMade(t *testing.T) {
	t.Parallel()
	text := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 1<<20)...), '"')
	stored := map[string]stepmachine.Value{}
	twice := func(id string) stepmachine.Value {
		at := stepmachine.Value{Stored: &stepmachine.Stored{ID: id}}
		return stepmachine.Value{Members: []stepmachine.Named{{Name: "a", Value: at}, {Name: "b", Value: at}}}
	}
	for i := 1; i < 40; i++ {
		stored[string(rune('A'+i))] = twice(string(rune('A' + i - 1)))
	}
	var load func(stepmachine.Stored) (json.RawMessage, error)
	load = func(s stepmachine.Stored) (json.RawMessage, error) {
		if s.ID == "A" {
			return text, nil
		}
		return stored[s.ID].Resolve(load)
	}
	_, err := twice("A").Resolve(load)
	require.NoError(t, err)
	_, err = twice(string(rune('A' + 39))).Resolve(load)
	require.ErrorIs(t, err, stepmachine.ErrTooLarge)

	p := program(t, `steps: [{id: a, type: transform, expr: "${trigger_data | length}"}]`)
	e, err := p.Evaluate(t.Context(), nil, stepmachine.Evaluate{
		Ref: stepmachine.Ref{Path: "/steps/0"}, What: "input",
		Scope: stepmachine.Scope{TriggerData: &stepmachine.Value{Stored: &stepmachine.Stored{ID: string(rune('A' + 39))}}},
	}, load)
	require.NoError(t, err, "it would be tried again")
	require.Equal(t, expression.CodeLimit, e.Failure.Code)
}

// A workflow that computes for a second is given up and repeated. So it leaves to activities what costs
// much, whether one step asks for it or many steps after each other.
func TestMachineEvaluatesLittleItself(t *testing.T) {
	t.Parallel()
	nested := func(depth, size int) stepmachine.Value {
		return stepmachine.Of(json.RawMessage(strings.Repeat(`{"a":`, depth) + `{"p":[` + strings.Repeat("1,", size/2) + `1],"z":1}` + strings.Repeat("}", depth)))
	}
	// Each list is of other paths than the others.
	step := func(paths int) string {
		var list []string
		for i := range paths {
			list = append(list, `"${trigger_data`+strings.Repeat(".a", i%57)+fmt.Sprintf(".x%d", i)+`}"`)
		}
		return `{id: s, type: transform, expr: [` + strings.Join(list, ",") + `]}`
	}
	var steps []string
	for i := range 150 {
		steps = append(steps, strings.Replace(step(10), "id: s", fmt.Sprintf("id: s%d", i), 1))
	}
	const schema = `{type: array, items: {type: integer, minimum: 0}}`
	for name, tc := range map[string]struct {
		steps   string
		payload stepmachine.Value
		here    bool
	}{
		"a few paths":                {step(20), nested(57, 10_000), true},
		"many paths":                 {step(1100), nested(57, 30_000), true},
		"many steps":                 {strings.Join(steps, ","), nested(57, 30_000), false},
		"small comparison":           {`{id: s, type: transform, expr: "${trigger_data.z == 1}"}`, nested(0, 1000), true},
		"much of the payload, often": {`{id: s, type: transform, expr: [` + strings.Repeat(`"${trigger_data.p}",`, 100) + `1]}`, nested(0, 20_000), false},
		"a quick check":              {`{id: s, type: validate, value: "${trigger_data.p}", schema: ` + schema + `}`, nested(0, 40), true},
		"a check that lasts":         {`{id: s, type: validate, value: "${trigger_data.p}", schema: ` + schema + `}`, nested(0, 30_000), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, "steps: ["+tc.steps+"]")
			_, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{Execution: "e", TriggerData: tc.payload})
			asks := slices.ContainsFunc(commands, func(c stepmachine.Command) bool { _, is := c.(stepmachine.Evaluate); return is })
			require.Equal(t, tc.here, !asks)
		})
	}
}

// The state has the id of each event that a wait in a loop has used. It has to stay small.
func TestWaitsInLoopsUseABoundedNumberOfEvents(t *testing.T) {
	t.Parallel()
	for _, used := range []int{stepmachine.MaxSeen - 2, stepmachine.MaxSeen - 1} {
		x, _ := start(t, `
steps:
  - id: each
    type: foreach
    items: [1, 2]
    steps: [{id: w, type: wait, event: {type: go}}]
`)
		x.s.Seen = map[string][]string{"/steps/7": make([]string, used)}
		commands := x.next(at(1), stepmachine.Signalled{Signal: "go"})
		if used < stepmachine.MaxSeen-1 {
			commands = x.next(at(2), stepmachine.Signalled{Signal: "go"})
			require.Equal(t, stepmachine.StatusCompleted, find[stepmachine.Finish](t, commands).Status)
			continue
		}
		require.Equal(t, "EVENTS_LIMIT", find[stepmachine.Finish](t, commands).Error.Code)
	}
}
