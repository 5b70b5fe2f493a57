package stepmachine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/test/simulate"
)

// calls lets the execution go on to its end, and returns the calls that it makes. The first call of each
// number of a verb ends without an effect. What a second one has done is known, or not for shop:lost.
// Those of shop:a always end without an effect, and shop:read has only read.
func (x *player) calls(commands []stepmachine.Command) (made []string) {
	x.t.Helper()
	now := at(0)
	for queue := commands; len(queue) > 0; {
		var e stepmachine.Event
		switch c := queue[0].(type) {
		case stepmachine.StartVerb:
			made = append(made, fmt.Sprintf("%s#%d", c.Verb, c.Ref.Attempt))
			end := stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true}
			switch {
			case c.Verb == "shop:a" || c.Ref.Attempt == 1:
			case c.Verb == "shop:lost":
				end.Sent, end.MayRepeat = true, false
			default:
				end = executed(c.Ref, `1`).CallEnd
				end.Wrote = c.Verb != "shop:read"
			}
			e = stepmachine.VerbEnded{CallEnd: end}
		case stepmachine.StartTimer:
			now = c.At
			e = stepmachine.TimerFired{Ref: c.Ref, Timer: c.Timer}
		}
		if queue = queue[1:]; e != nil {
			queue = append(queue, x.next(now, e)...)
		}
	}
	return made
}

// What on_failure has done after the first failure is the same call after the next one. A number of
// which the call had no effect does not come again.
func TestOnFailureMakesTheSameCallsAfterEachFailure(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps: [{id: a, type: verb, verb: "shop:a"}]
on_failure:
  - {id: tell, type: verb, verb: "shop:tell", retry: {max_attempts: 2}}
  - {id: each, type: foreach, items: [1], steps: [{id: one, type: verb, verb: "shop:one", retry: {max_attempts: 2}}]}
  - {id: lost, type: verb, verb: "shop:lost", retry: {max_attempts: 2}}
`)
	require.Equal(t, []string{"shop:a#1", "shop:tell#1", "shop:tell#2", "shop:one#1", "shop:one#2", "shop:lost#1", "shop:lost#2"}, x.calls(commands))
	for range 2 {
		require.Equal(t, []string{"shop:tell#2", "shop:one#2", "shop:lost#2"}, x.calls(x.next(at(0), stepmachine.Again{}))[1:])
	}
}

// A loop that begins again makes its reads again, from the first number on: a read cannot happen twice. A
// loop that has written does not begin again.
func TestLoopThatBeginsAgainMakesItsReadsFromTheFirstNumberOn(t *testing.T) {
	t.Parallel()
	const text = `
steps:
  - {id: each, type: foreach, items: [1, 2], steps: [{id: one, type: verb, verb: "shop:%s", retry: {max_attempts: 2}}]}
  - {id: a, type: verb, verb: "shop:a"}
`
	first := []string{"#1", "#2", "#1", "#2"}
	for name, c := range map[string]struct {
		verb  string
		again []string
	}{
		"reads":  {"read", first},
		"writes": {"write", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, fmt.Sprintf(text, c.verb))
			s, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{Execution: "exec_1"})
			x := &player{t, p, s}
			calls := func(numbers []string, last int) (made []string) {
				for _, number := range numbers {
					made = append(made, "shop:"+c.verb+number)
				}
				return append(made, fmt.Sprintf("shop:a#%d", last))
			}
			require.Equal(t, calls(first, 1), x.calls(commands))
			for n := 2; n < 4; n++ {
				require.Equal(t, calls(c.again, n), x.calls(x.next(at(0), stepmachine.Again{FromStep: "each"})))
			}
		})
	}
}

// A call that failed may have had an effect. Where its step runs again, it is the same call.
func TestFailedCallsKeepTheirNumbersWhereTheyMayHaveHadAnEffect(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - {id: each, type: foreach, items: [1], steps: [{id: one, type: verb, verb: "shop:lost", retry: {max_attempts: 2}, on_error: continue}]}
  - {id: skips, type: foreach, items: [1], on_item_error: skip, steps: [{id: two, type: verb, verb: "shop:lost", retry: {max_attempts: 2}}]}
  - {id: three, type: verb, verb: "shop:lost", retry: {max_attempts: 2}, on_error: continue}
  - {id: a, type: verb, verb: "shop:a"}
`)
	require.Equal(t, []string{"shop:lost#1", "shop:lost#2", "shop:lost#1", "shop:lost#2", "shop:lost#1", "shop:lost#2", "shop:a#1"}, x.calls(commands))
	for n := 2; n < 4; n++ {
		require.Equal(t, []string{"shop:lost#2", "shop:lost#2", "shop:lost#2", fmt.Sprintf("shop:a#%d", n)}, x.calls(x.next(at(0), stepmachine.Again{FromStep: "each"})))
	}
}

// A branch that failed has changed something, and its parallel step went on without it. That is not run
// again.
func TestStepWithABranchThatFailedAfterItWroteIsNotRunAgain(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - {id: first, type: transform, expr: 1}
  - id: p
    type: parallel
    on_branch_error: skip
    branches:
      - {id: l, steps: [{id: one, type: verb, verb: "shop:one", expect: {type: string}, retry: {max_attempts: 2}}]}
      - {id: r, steps: []}
  - {id: a, type: verb, verb: "shop:a"}
`)
	require.Equal(t, []string{"shop:one#1", "shop:one#2", "shop:a#1"}, x.calls(commands))
	require.Equal(t, []string{"shop:a#2"}, x.calls(x.next(at(0), stepmachine.Again{FromStep: "first"})))
}

// What began again has ended when the Map failed. It does not end once more, after it has begun.
func TestStepsThatBeginAgainDoNotEndOnceMore(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - id: p
    type: parallel
    branches:
      - id: l
        steps: [{id: s, type: switch, cases: [{when: "${trigger_data == 1}", steps: []}], default: [{id: a, type: verb, verb: "shop:lost", catch: [{errors: ["*"], steps: [{id: w, type: wait, for: 1h}]}]}]}]
      - {id: r, steps: [{id: b, type: verb, verb: "shop:b"}]}
`)
	calls := map[string]stepmachine.Ref{}
	for _, c := range commands {
		if call, is := c.(stepmachine.StartVerb); is {
			calls[call.Verb] = call.Ref
		}
	}
	fails := func(verb string) stepmachine.VerbEnded {
		return stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: calls[verb], Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), Sent: true}}
	}
	x.next(at(1), fails("shop:lost"))
	find[stepmachine.Finish](t, x.next(at(2), fails("shop:b")))
	for _, c := range x.next(at(3), stepmachine.Again{FromStep: "p"}) {
		if record, is := c.(stepmachine.RecordStep); is {
			require.Zero(t, record.Ended, "%s is %s", record.Ref, record.Status)
		}
	}
}

func TestCanGoOnSaysWhyNot(t *testing.T) {
	t.Parallel()
	const text = `
steps:
  - {id: a, type: verb, verb: "shop:a"}
  - id: s
    type: switch
    cases: [{when: "${true}", steps: [{id: b, type: verb, verb: "shop:b"}]}]
  - {id: later, type: verb, verb: "shop:later"}
`
	x, commands := start(t, text)
	require.ErrorContains(t, stepmachine.CanGoOn(x.p, x.s, stepmachine.Again{}), "CONFLICT")
	commands = x.next(at(1), executed(find[stepmachine.StartVerb](t, commands).Ref, `1`))
	x.next(at(2), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{
		Ref: find[stepmachine.StartVerb](t, commands).Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true,
	}})
	require.Equal(t, stepmachine.StatusFailed, x.s.Status)
	edit := func(id string) stepmachine.Again {
		return stepmachine.Again{Edits: []stepmachine.Named{{Name: id}}}
	}
	for _, c := range []struct {
		name  string
		again stepmachine.Again
		want  string
	}{
		{"as it is", stepmachine.Again{}, ""},
		{"from the failed step", stepmachine.Again{FromStep: "b"}, ""},
		{"from the block around it", stepmachine.Again{FromStep: "s"}, ""},
		{"from the beginning", stepmachine.Again{FromStep: "a"}, ""},
		{"from a later step", stepmachine.Again{FromStep: "later"}, "must be the id of the failed step"},
		{"from no step", stepmachine.Again{FromStep: "none"}, "is not the id of a step of this Map"},
		{"with the failed input edited", edit("b"), ""},
		{"with a later input edited", edit("later"), ""},
		{"with a write edited that was done", edit("a"), "already changed something"},
		{"with a step edited that has no input", edit("s"), "no input"},
		{"with an unknown step edited", edit("none"), "not the id"},
	} {
		err := stepmachine.CanGoOn(x.p, x.s, c.again)
		if c.want == "" {
			require.NoError(t, err, c.name)
			continue
		}
		require.ErrorContains(t, err, c.want, c.name)
	}
}

// The iterations of a loop that are over are not run again with another input.
func TestCanGoOnRefusesEditsOfIterationsThatAreOver(t *testing.T) {
	t.Parallel()
	const text = `
steps:
  - {id: done, type: foreach, items: [1], steps: [{id: x, type: verb, verb: "shop:x"}]}
  - {id: each, type: foreach, items: [1, 2], steps: [{id: a, type: verb, verb: "shop:a"}, {id: b, type: verb, verb: "shop:b"}]}
`
	x, commands := start(t, text)
	for n := range 4 { // x, and a and b of the first item, and a of the second
		commands = x.next(at(n), executed(find[stepmachine.StartVerb](t, commands).Ref, `1`))
	}
	x.next(at(5), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{
		Ref: find[stepmachine.StartVerb](t, commands).Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true,
	}})
	require.Equal(t, stepmachine.StatusFailed, x.s.Status)
	for _, c := range []struct {
		step, from string
		may        bool
	}{
		{"b", "", true}, {"b", "b", true}, {"b", "a", true}, {"a", "", false}, {"a", "a", false}, {"x", "", false}, {"x", "done", false}, {"b", "each", false}, {"b", "done", false},
	} {
		err := stepmachine.CanGoOn(x.p, x.s, stepmachine.Again{FromStep: c.from, Edits: []stepmachine.Named{{Name: c.step}}})
		if c.may {
			require.NoError(t, err, "%s from %q", c.step, c.from)
		} else {
			require.ErrorContains(t, err, "already changed something", "%s from %q", c.step, c.from)
		}
	}
}

// A call that may have had its effect is never made under another number, so that the run's
// fence answers it.
func TestAgainKeepsTheNumberOfACallThatMayHaveHadItsEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		fromStep  string
		mayRepeat bool
		want      int
	}{
		{"it may have", "", false, 1},
		{"it has not", "", true, 2},
		{"it may have, in a block that begins again", "s", false, 1},
		{"it has not, in a block that begins again", "s", true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, commands := start(t, `steps: [{id: s, type: switch, cases: [{when: "${true}", steps: [{id: a, type: verb, verb: "shop:a"}]}]}]`)
			commands = x.next(at(1), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{
				Ref: find[stepmachine.StartVerb](t, commands).Ref, Status: stepmachine.CallFailed, Sent: true, MayRepeat: c.mayRepeat,
				Error: stepmachine.NewError("PROVIDER_ERROR", ""),
			}})
			require.Equal(t, stepmachine.StatusFailed, find[stepmachine.Finish](t, commands).Status)
			commands = x.next(at(2), stepmachine.Again{FromStep: c.fromStep})
			require.Equal(t, c.want, find[stepmachine.StartVerb](t, commands).Ref.Attempt)
		})
	}
}

func TestAnOutcomeThatIsFoundWhileOnFailureRunsIsKept(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
limits: {max_duration: 1h}
steps: [{id: a, type: verb, verb: "shop:a"}, {id: b, type: verb, verb: "shop:b"}]
on_failure: [{id: w, type: wait, for: 1h}]
`)
	call := find[stepmachine.StartVerb](t, commands).Ref
	x.next(at(1), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: call, Status: stepmachine.CallUnknown, Sent: true}})
	commands = x.next(at(3600), stepmachine.TimerFired{Timer: stepmachine.TimerDuration})
	require.Equal(t, "/on_failure/0", find[stepmachine.StartTimer](t, commands).Ref.Path)
	require.Empty(t, x.next(at(3601), stepmachine.Resolved{CallEnd: executed(call, `1`).CallEnd}))
	commands = x.next(at(7200), stepmachine.TimerFired{Ref: stepmachine.Ref{Path: "/on_failure/0"}, Timer: stepmachine.TimerWait})
	require.Equal(t, stepmachine.StatusFailed, find[stepmachine.Finish](t, commands).Status)
	commands = x.next(at(7201), stepmachine.Again{})
	require.Equal(t, "/steps/1", find[stepmachine.StartVerb](t, commands).Ref.Path, "the first call is not made again")
}

func TestAnOutcomeThatWasFoundBeforeARetryEndsItsStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  stepmachine.CallEnd
		want stepmachine.Status
	}{
		{"it was executed", stepmachine.CallEnd{Status: stepmachine.CallExecuted, Sent: true, Wrote: true, Result: stepmachine.Of([]byte(`1`))}, stepmachine.StatusCompleted},
		{"it had no effect", stepmachine.CallEnd{Status: stepmachine.CallFailed, Sent: true}, stepmachine.StatusFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, commands := start(t, `
limits: {max_duration: 1h}
steps: [{id: a, type: verb, verb: "shop:a"}]
`)
			call := find[stepmachine.StartVerb](t, commands).Ref
			x.next(at(1), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: call, Status: stepmachine.CallUnknown, Sent: true}})
			x.next(at(3600), stepmachine.TimerFired{Timer: stepmachine.TimerDuration})
			x.next(at(3700), stepmachine.Again{})
			asked := stepmachine.Unsettled(x.p, x.s)
			require.Len(t, asked, 1)
			require.Equal(t, call, asked[0].Ref)
			c.end.Ref = call
			commands = x.next(at(3701), stepmachine.VerbEnded{CallEnd: c.end})
			finish := find[stepmachine.Finish](t, commands)
			require.Equal(t, c.want, finish.Status)
			require.Equal(t, 1, finish.Actions, "it was sent once")
		})
	}
}

// The blocks of a step whose catch has run are given up, and begin again with the step.
func TestBlocksThatWereCaughtMakeTheSameCallsAgain(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - id: p
    type: parallel
    branches:
      - id: l
        steps:
          - {id: s, type: switch, cases: [{when: "${true}", steps: [{id: one, type: verb, verb: "shop:one", retry: {max_attempts: 2}}]}]}
          - {id: lost, type: verb, verb: "shop:lost", retry: {max_attempts: 2}}
    catch: [{errors: ["*"], steps: [{id: a, type: verb, verb: "shop:a"}]}]
`)
	require.Equal(t, []string{"shop:one#1", "shop:one#2", "shop:lost#1", "shop:lost#2", "shop:a#1"}, x.calls(commands))
	require.Equal(t, []string{"shop:one#2", "shop:lost#2", "shop:a#2"}, x.calls(x.next(at(0), stepmachine.Again{FromStep: "p"})))
}

// A call that was in flight when its branch was given up has had its effect.
func TestCallOfABranchThatWasGivenUpIsTheSameAgain(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - {id: first, type: transform, expr: 1}
  - id: p
    type: parallel
    join: any
    branches:
      - {id: l, steps: [{id: w, type: wait, for: 1m}]}
      - {id: r, steps: [{id: one, type: verb, verb: "shop:one", retry: {max_attempts: 2}}]}
  - {id: a, type: verb, verb: "shop:a"}
`)
	call, wait := find[stepmachine.StartVerb](t, commands), find[stepmachine.StartTimer](t, commands)
	failed := stepmachine.CallEnd{Ref: call.Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true}
	retry := find[stepmachine.StartTimer](t, x.next(at(1), stepmachine.VerbEnded{CallEnd: failed}))
	call = find[stepmachine.StartVerb](t, x.next(retry.At, stepmachine.TimerFired{Ref: retry.Ref, Timer: retry.Timer}))
	require.Equal(t, 2, call.Ref.Attempt)
	last := find[stepmachine.StartVerb](t, x.next(wait.At, stepmachine.TimerFired{Ref: wait.Ref, Timer: wait.Timer}))
	x.next(at(70), executed(call.Ref, `1`))
	failed.Ref = last.Ref
	find[stepmachine.Finish](t, x.next(at(80), stepmachine.VerbEnded{CallEnd: failed}))
	require.Equal(t, call.Ref, find[stepmachine.StartVerb](t, x.next(at(90), stepmachine.Again{FromStep: "first"})).Ref)
}

func TestExecutionThatUsedUpItsStepsIsNotTakenUpAgain(t *testing.T) {
	t.Parallel()
	c := fromYAML(t, `
limits: {max_steps: 3}
steps:
  - {id: each, type: while, when: "${true}", max_iterations: 1000, steps: [{id: v, type: transform, expr: "${index}"}]}
`)
	r := run(t, c, simulate.Options{})
	require.Equal(t, "STEPS_LIMIT", r.State.Ending.Error.Code)
	d, faults := mapdef.Read(c.Map)
	require.Empty(t, faults)
	p, err := stepmachine.Compile(d)
	require.NoError(t, err)
	require.ErrorContains(t, stepmachine.CanGoOn(p, r.State, stepmachine.Again{}), "CONFLICT: The execution has used up")
}
