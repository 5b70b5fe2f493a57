package stepmachine_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/test/simulate"
)

// numbers returns a JSON array of n texts.
func numbers(n int) string {
	list := make([]string, 0, n)
	for i := range n {
		list = append(list, fmt.Sprintf(`"item %d"`, i))
	}
	return "[" + strings.Join(list, ",") + "]"
}

const loop = `
steps:
  - {id: each, type: foreach, items: "${trigger_data.items}", mode: parallel, concurrency: 50, steps: [{id: a, type: verb, verb: "shop:a", args: {n: "${index}"}}]}
`

// TestForeachOverManyItemsKeepsItsStateSmall runs a loop whose items and outputs are far larger
// than what a state may have in it.
func TestForeachOverManyItemsKeepsItsStateSmall(t *testing.T) {
	t.Parallel()
	const items = 10_000
	c := fromYAML(t, loop)
	c.Trigger.Payload = json.RawMessage(`{"items":` + numbers(items) + `}`)
	largest, most := 0, 0
	c.Answers = []simulate.Answer{{Verb: "shop:a", Result: json.RawMessage(`"` + strings.Repeat("x", 100) + `"`), Times: items}}
	var state *stepmachine.State
	events := 0
	r := run(t, c, simulate.Options{See: func(_ string, _ stepmachine.Event, commands []stepmachine.Command) {
		most = max(most, len(commands))
		if events++; state != nil && events%100 == 0 {
			raw, err := state.Encode()
			require.NoError(t, err)
			largest = max(largest, len(raw))
		}
	}, Began: func(s *stepmachine.State) { state = s }})
	require.Equal(t, stepmachine.StatusCompleted, r.State.Status)
	var outputs []string
	require.NoError(t, json.Unmarshal(r.Output, &outputs))
	require.Len(t, outputs, items)
	require.Len(t, r.Calls, items)
	require.JSONEq(t, `{"n":9999}`, string(r.Calls[items-1].Args))
	require.Positive(t, largest)
	require.Less(t, largest, 3*stepmachine.MaxInline)
	require.Less(t, most, 200)
}

// A loop over many items keeps numbers of calls only where another call could write twice. All first calls
// end without an effect, so that the second ones have other numbers.
func TestLoopKeepsNumbersOfItsWritesOnly(t *testing.T) {
	t.Parallel()
	const items = 10_000
	for name, c := range map[string]struct {
		wrote bool
		kept  int
	}{"reads": {false, 0}, "writes": {true, items}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, `
steps:
  - id: each
    type: foreach
    items: "${trigger_data.items}"
    mode: parallel
    concurrency: 50
    steps: [{id: a, type: verb, verb: "shop:a", retry: {max_attempts: 2}}]
`)
			s, queue := stepmachine.Start(p, at(0), stepmachine.Beginning{TriggerData: stepmachine.Of(json.RawMessage(`{"items":[` + strings.Repeat("1,", items-1) + `1]}`))})
			for now := at(0); len(queue) > 0; {
				var e stepmachine.Event
				switch asked := queue[0].(type) {
				case stepmachine.StartVerb:
					end := stepmachine.CallEnd{Ref: asked.Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true}
					if asked.Ref.Attempt == 2 {
						end = stepmachine.CallEnd{Ref: asked.Ref, Status: stepmachine.CallExecuted, Result: stepmachine.Of(json.RawMessage(`1`)), Sent: true, Wrote: c.wrote}
					}
					e = stepmachine.VerbEnded{CallEnd: end}
				case stepmachine.StartTimer:
					now, e = asked.At, stepmachine.TimerFired{Ref: asked.Ref, Timer: asked.Timer}
				}
				if queue = queue[1:]; e != nil {
					_, commands, err := stepmachine.Next(p, s, now, e)
					require.NoError(t, err)
					queue = append(queue, commands...)
				}
			}
			require.Equal(t, stepmachine.StatusCompleted, s.Status)
			require.Len(t, s.Attempts, c.kept)
		})
	}
}

// TestTheWorkOfALoopGrowsWithItsItems compares what ten times as many items allocate.
func TestTheWorkOfALoopGrowsWithItsItems(t *testing.T) { //nolint:paralleltest // it measures
	work := func(items int) uint64 {
		p := program(t, loop)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{TriggerData: stepmachine.Of(json.RawMessage(`{"items":[` + strings.Repeat("1,", items-1) + `1]}`))})
		for len(commands) > 0 {
			var next []stepmachine.Command
			for _, c := range commands {
				if call, ok := c.(stepmachine.StartVerb); ok {
					_, more, err := stepmachine.Next(p, s, at(1), executed(call.Ref, `"result"`))
					require.NoError(t, err)
					next = append(next, more...)
				}
			}
			commands = next
		}
		require.Equal(t, stepmachine.StatusCompleted, s.Status)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	work(100)
	require.Less(t, work(8_000), 14*work(800))
}

// TestNoEventBeginsTooMuch runs loops of steps that wait for nothing: the machine asks to be
// called again.
func TestNoEventBeginsTooMuch(t *testing.T) {
	t.Parallel()
	c := fromYAML(t, `
vars: {n: 0}
steps:
  - id: outer
    type: foreach
    items: "${trigger_data.items}"
    steps:
      - {id: inner, type: while, when: "${index < 100}", max_iterations: 100, steps: [{id: count, type: set, assign: {n: "${vars.n + 1}"}}]}
output: "${vars.n}"
`)
	c.Trigger.Payload = json.RawMessage(`{"items":` + numbers(100) + `}`)
	most, asked := 0, 0
	r := run(t, c, simulate.Options{Store: true, See: func(_ string, _ stepmachine.Event, commands []stepmachine.Command) {
		most = max(most, len(commands))
		for _, command := range commands {
			if _, ok := command.(stepmachine.Continue); ok {
				asked++
			}
		}
	}})
	require.Equal(t, "10000", string(r.Output))
	require.GreaterOrEqual(t, asked, 20)
	require.Less(t, most, 1000)
}

// TestLargeValuesAreReferences passes on, reads and stores values that are too large for the
// state.
func TestLargeValuesAreReferences(t *testing.T) {
	t.Parallel()
	large := json.RawMessage(`{"id":7,"text":"` + strings.Repeat("x", 3<<20) + `","list":[{"n":1},{"n":2}]}`)
	c := fromYAML(t, `
steps:
  - {id: get, type: verb, verb: "shop:get"}
  - {id: pass, type: transform, expr: "${steps.get.output}"}
  - {id: keep, type: set, assign: {all: "${steps.pass.output}", id: "${steps.get.output.id}"}}
  - {id: list, type: transform, expr: "${vars.all.list}"}
  - id: each
    type: foreach
    items: "${steps.list.output}"
    steps: [{id: n, type: transform, expr: "${item.n + vars.id}"}]
  - id: p
    type: parallel
    branches:
      - {id: a, steps: [{id: pa, type: transform, expr: "${steps.get.output}"}]}
      - {id: b, steps: []}
  - {id: send, type: verb, verb: "shop:send", args: {body: "${steps.p.output.a.text[:3]}", whole: "${steps.get.output}"}}
output: {each: "${steps.each.output}", sent: "${steps.send.output}"}
`)
	c.Answers = []simulate.Answer{{Verb: "shop:get", Result: large}, {Verb: "shop:send", Result: json.RawMessage(`true`)}}
	var stored []string
	evaluated := map[string]bool{}
	r := run(t, c, simulate.Options{Store: true, See: func(_ string, _ stepmachine.Event, commands []stepmachine.Command) {
		for _, command := range commands {
			switch command := command.(type) {
			case stepmachine.StoreValue:
				stored = append(stored, command.ID)
			case stepmachine.Evaluate:
				evaluated[command.Ref.String()+" "+command.What] = true
			}
		}
	}})
	require.JSONEq(t, `{"each":[8,9],"sent":true}`, string(r.Output))
	require.Equal(t, []string{"/steps/0:output", "/steps/6:input"}, stored, "a value that is passed on is stored once")
	require.Contains(t, evaluated, "/steps/2 assign/1")
	require.NotContains(t, evaluated, "/steps/1 input")
	raw, err := r.State.Encode()
	require.NoError(t, err)
	require.Less(t, len(raw), 10_000)
	var sent struct {
		Body  string          `json:"body"`
		Whole json.RawMessage `json:"whole"`
	}
	require.NoError(t, json.Unmarshal(r.Calls[1].Args, &sent))
	require.Equal(t, "xxx", sent.Body)
	require.JSONEq(t, string(large), string(sent.Whole))
}

// TestManyOpenBranchesAreFine keeps 200 branches waiting at once.
func TestManyOpenBranchesAreFine(t *testing.T) {
	t.Parallel()
	c := fromYAML(t, `
steps:
  - id: a
    type: foreach
    items: [1, 2, 3, 4]
    mode: parallel
    steps:
      - id: b
        type: foreach
        items: "${trigger_data.items}"
        mode: parallel
        concurrency: 50
        steps: [{id: w, type: wait, event: {type: custom.go}}]
`)
	c.Trigger.Payload = json.RawMessage(`{"items":` + numbers(50) + `}`)
	r := run(t, c, simulate.Options{})
	require.Equal(t, stepmachine.StatusWaiting, r.State.Status)
	raw, err := r.State.Encode()
	require.NoError(t, err)
	t.Logf("%d bytes for 200 branches", len(raw))
	require.Less(t, len(raw), 200*500)
}

// TestALargeResultIsCheckedWhereItIs checks stored values by Evaluate.
func TestALargeResultIsCheckedWhereItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, result, code string }{
		{"one that fits", `{"id":1,"text":"%s"}`, ""},
		{"one that does not", `{"text":"%s"}`, "RESULT_MISMATCH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := fromYAML(t, `
steps:
  - {id: get, type: verb, verb: "shop:get", expect: {type: object, required: [id]}}
  - {id: v, type: validate, value: "${steps.get.output}", schema: {type: object, required: [text]}}
`)
			x.Answers = []simulate.Answer{{Verb: "shop:get", Result: json.RawMessage(fmt.Sprintf(c.result, strings.Repeat("x", 1<<20)))}}
			checks := 0
			r := run(t, x, simulate.Options{Store: true, See: func(_ string, _ stepmachine.Event, commands []stepmachine.Command) {
				for _, command := range commands {
					if e, ok := command.(stepmachine.Evaluate); ok && e.What == "check" {
						checks++
					}
				}
			}})
			if c.code == "" {
				require.Equal(t, stepmachine.StatusCompleted, r.State.Status)
				require.Equal(t, 2, checks)
				return
			}
			require.Equal(t, c.code, r.Finish.Error.Code)
			require.Equal(t, "/id is required", r.Finish.Error.Detail)
		})
	}
}

// A loop can make as many large values as it has items. It ends where all of them are too large.
func TestExecutionThatStoresTooMuchFails(t *testing.T) {
	t.Parallel()
	c := fromYAML(t, `
steps:
  - {id: each, type: while, when: "${true}", max_iterations: 1000, steps: [{id: v, type: transform, expr: "${trigger_data.large}"}]}
`)
	c.Trigger.Payload = json.RawMessage(`{"large":"` + strings.Repeat("x", 1<<20) + `"}`)
	r := run(t, c, simulate.Options{Began: func(s *stepmachine.State) { s.Kept += stepmachine.MaxKept - 8<<20 }})
	require.Equal(t, stepmachine.StatusFailed, r.State.Status)
	require.Equal(t, "STORAGE_LIMIT", r.State.Ending.Error.Code)
	require.Greater(t, r.State.Kept, int64(stepmachine.MaxKept))
	require.Less(t, r.State.Steps, 20)
}

func TestExecutionEmitsAtMostSoManyEvents(t *testing.T) {
	t.Parallel()
	c := fromYAML(t, `
steps:
  - {id: each, type: foreach, items: "${[range(1010)]}", on_item_error: skip, steps: [{id: e, type: emit, event: custom.x, data: {n: 1}}]}
`)
	emitted := 0
	r := run(t, c, simulate.Options{See: func(_ string, _ stepmachine.Event, commands []stepmachine.Command) {
		for _, command := range commands {
			if _, is := command.(stepmachine.Emit); is {
				emitted++
			}
		}
	}})
	require.Equal(t, stepmachine.StatusCompleted, r.State.Status)
	require.Equal(t, stepmachine.MaxEmitted, emitted)
}

// An execution asks whether its tenant has room for the events of its steps: for one, then for as many as
// it has emitted. One without room fails its emit step, and goes on.
func TestEmitStepsAskForRoom(t *testing.T) {
	t.Parallel()
	const loop = `{"id":"each","type":"foreach","items":"${trigger_data.items}","on_item_error":"skip",%s,"steps":[{"id":"e","type":"emit","event":"custom.x","data":{"n":1}}]}`
	for name, c := range map[string]struct {
		mode          string
		items         int
		room          int
		asks, emitted int
		wished        int
		dry           bool
	}{
		"one":               {mode: `"mode":"seq"`, items: 1, room: 100, asks: 1, wished: 1, emitted: 1},
		"one after another": {mode: `"mode":"seq"`, items: 100, room: 1000, asks: 8, wished: 128, emitted: 100},
		"at once":           {mode: `"mode":"parallel","concurrency":50`, items: 1000, room: 2000, asks: 309, wished: 1046, emitted: 1000},
		"too little room":   {mode: `"mode":"seq"`, items: 8, room: 4, asks: 7, wished: 11, emitted: 4},
		"a dry run":         {mode: `"mode":"seq"`, items: 8, dry: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, `{"steps":[`+fmt.Sprintf(loop, c.mode)+`,{"id":"after","type":"set","assign":{"a":1}}],"vars":{"a":0}}`)
			s, queue := stepmachine.Start(p, at(0), stepmachine.Beginning{
				Execution: "exec_1", DryRun: c.dry, TriggerData: stepmachine.Of(json.RawMessage(`{"items":` + numbers(c.items) + `}`)),
			})
			asks, wished, emitted, room := 0, 0, 0, c.room
			for len(queue) > 0 {
				command := queue[0]
				queue = queue[1:]
				var e stepmachine.Event
				switch command := command.(type) {
				case stepmachine.Emit:
					emitted++
				case stepmachine.Continue:
					e = stepmachine.Continued{}
				case stepmachine.Evaluate:
					n := command.Room()
					asks, wished = asks+1, wished+n
					if n > room {
						e = command.Refused("QUOTA_EXCEEDED", "no room")
						break
					}
					room -= n
					e = command.Given(n)
				}
				if e == nil {
					continue
				}
				var more []stepmachine.Command
				var err error
				s, more, err = stepmachine.Next(p, s, at(0), e)
				require.NoError(t, err)
				queue = append(queue, more...)
			}
			require.Equal(t, stepmachine.StatusCompleted, s.Status)
			require.Equal(t, []int{c.asks, c.wished, c.emitted}, []int{asks, wished, emitted})
		})
	}
	p := program(t, `steps: [{id: e, type: emit, event: custom.x, data: {n: 1}}]`)
	s, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{Execution: "exec_1"})
	s, _, err := stepmachine.Next(p, s, at(0), find[stepmachine.Evaluate](t, commands).Refused("QUOTA_EXCEEDED", "no room"))
	require.NoError(t, err)
	require.Equal(t, []string{"QUOTA_EXCEEDED", "no room"}, []string{s.Ending.Error.Code, s.Ending.Error.Detail})
}

// Only its text tells whether a stored value is an object. One that is known to be an object is passed on
// as it is.
func TestStoredDataOfAnEventIsCheckedToBeAnObject(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", stepmachine.MaxInline) + `"`
	const (
		once = `{id: tell, type: emit, event: custom.x, data: "${steps.get.output}"}`
		each = `{id: each, type: foreach, items: "${steps.get.output}", steps: [{id: tell, type: emit, event: custom.x, data: "${item}"}]}`
		all  = `{id: tell, type: emit, event: custom.x, data: "${trigger_data}"}`
	)
	for name, c := range map[string]struct {
		step, result string
		status       stepmachine.Status
		asks         int
	}{
		"an object":                 {once, `{"text":` + long + `}`, stepmachine.StatusCompleted, 1},
		"a text":                    {once, long, stepmachine.StatusFailed, 1},
		"an item of a stored array": {each, `[5,` + long + `]`, stepmachine.StatusFailed, 1},
		"the payload":               {all, `1`, stepmachine.StatusCompleted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := fromYAML(t, "steps:\n  - {id: get, type: verb, verb: \"shop:get\"}\n  - "+c.step+"\n")
			one.Trigger.Payload = json.RawMessage(`{"text":` + long + `}`)
			one.Answers = []simulate.Answer{{Verb: "shop:get", Result: json.RawMessage(c.result)}}
			asked := 0
			r := run(t, one, simulate.Options{Store: true, See: func(_ string, _ stepmachine.Event, commands []stepmachine.Command) {
				for _, command := range commands {
					if c, is := command.(stepmachine.Evaluate); is && c.Room() == 0 {
						asked++
					}
				}
			}})
			require.Equal(t, c.status, r.State.Status)
			require.Equal(t, c.asks, asked)
			if c.status == stepmachine.StatusFailed {
				require.Equal(t, "EXPRESSION_RESULT", r.State.Ending.Error.Code)
			}
		})
	}
}

// A loop can have iterations without a step. Each counts like one, so the loop lets others come to their
// turn, and ends.
func TestIterationsWithoutStepsCount(t *testing.T) {
	t.Parallel()
	for name, loop := range map[string]string{
		"foreach":          `{"id":"a","type":"foreach","items":"${trigger_data.items}","steps":[]}`,
		"foreach, at once": `{"id":"a","type":"foreach","items":"${trigger_data.items}","mode":"parallel","concurrency":50,"steps":[]}`,
		"while":            `{"id":"a","type":"while","when":"${true}","max_iterations":1000,"steps":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, `{"limits":{"max_steps":800},"steps":[`+loop+`]}`)
			items := `{"items":[` + strings.Repeat("1,", 4999) + `1]}`
			s, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{Execution: "exec_1", TriggerData: stepmachine.Of(json.RawMessage(items))})
			turns := 0
			for ; s.Status == stepmachine.StatusRunning; turns++ {
				require.LessOrEqual(t, len(commands), 1600, "what one turn does is bounded")
				require.True(t, slices.ContainsFunc(commands, func(c stepmachine.Command) bool { return c == stepmachine.Continue{} }))
				var err error
				s, commands, err = stepmachine.Next(p, s, at(0), stepmachine.Continued{})
				require.NoError(t, err)
			}
			require.Equal(t, mapdef.CodeStepsLimit, find[stepmachine.Finish](t, commands).Error.Code)
			require.Equal(t, 1, turns)
		})
	}
}
