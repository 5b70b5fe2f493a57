package stepmachine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/stepmachine"
)

// calls lets the execution go on to its end, and returns the calls that it makes. The first call of each
// number of a verb ends without an effect. What a second one has done is known, or not for shop:lost.
// Those of shop:a always end without an effect.
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
