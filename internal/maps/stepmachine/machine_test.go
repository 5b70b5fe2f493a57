package stepmachine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/test/simulate"
)

// written writes commands as text, to be compared.
func written(t *testing.T, commands []stepmachine.Command) string {
	t.Helper()
	var all strings.Builder
	for _, c := range commands {
		raw, err := exactjson.Encode(c)
		require.NoError(t, err)
		fmt.Fprintf(&all, "%s %s;", c.Name(), raw)
	}
	return all.String()
}

// program compiles a definition in YAML.
func program(t *testing.T, text string) *stepmachine.Program {
	t.Helper()
	raw, faults := mapdef.FromYAML([]byte(text))
	require.Empty(t, faults)
	def, faults := mapdef.Read(complete(t, raw))
	require.Empty(t, faults)
	p, err := stepmachine.Compile(def)
	require.NoError(t, err)
	return p
}

// fromYAML makes a case of a definition in YAML.
func fromYAML(t *testing.T, text string) *simulate.Case {
	t.Helper()
	raw, faults := mapdef.FromYAML([]byte(text))
	require.Empty(t, faults)
	return &simulate.Case{Map: complete(t, raw), Trigger: simulate.Trigger{Payload: json.RawMessage(`{}`)}}
}

func at(seconds int) time.Time {
	return time.Date(2026, time.January, 1, 0, 0, seconds, 0, time.UTC)
}

// player gives a machine its events by hand.
type player struct {
	t *testing.T
	p *stepmachine.Program
	s *stepmachine.State
}

func start(t *testing.T, text string) (*player, []stepmachine.Command) {
	t.Helper()
	p := program(t, text)
	s, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{Execution: "exec_1"})
	return &player{t, p, s}, commands
}

// next stores the state, and gives it an event.
func (x *player) next(now time.Time, e stepmachine.Event) []stepmachine.Command {
	x.t.Helper()
	raw, err := x.s.Encode()
	require.NoError(x.t, err)
	x.s, err = stepmachine.Decode(raw)
	require.NoError(x.t, err)
	s, commands, err := stepmachine.Next(x.p, x.s, now, e)
	require.NoError(x.t, err)
	x.s = s
	return commands
}

// find returns the first command of the type.
func find[C stepmachine.Command](t *testing.T, commands []stepmachine.Command) C {
	t.Helper()
	for _, c := range commands {
		if found, ok := c.(C); ok {
			return found
		}
	}
	var none C
	require.Failf(t, "no command", "%T among %s", none, written(t, commands))
	return none
}

func executed(r stepmachine.Ref, result string) stepmachine.VerbEnded {
	return stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{
		Ref: r, Status: stepmachine.CallExecuted, Result: stepmachine.Of(json.RawMessage(result)), Sent: true, Wrote: true,
	}}
}

func TestNextIgnoresEventsThatNothingWaitsFor(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `steps: [{id: a, type: verb, verb: "shop:a"}, {id: b, type: wait, for: 1h}]`)
	call := find[stepmachine.StartVerb](t, commands).Ref
	before, err := x.s.Encode()
	require.NoError(t, err)
	for _, e := range []stepmachine.Event{
		executed(stepmachine.Ref{Path: "/steps/0", Attempt: 2}, `1`),
		executed(stepmachine.Ref{Path: "/steps/1", Attempt: 1}, `1`),
		executed(stepmachine.Ref{Path: "/steps/9"}, `1`),
		stepmachine.TimerFired{Ref: stepmachine.Ref{Path: "/steps/0"}, Timer: stepmachine.TimerRetry},
		stepmachine.Evaluated{Ref: stepmachine.Ref{Path: "/steps/0"}, Number: 1},
		stepmachine.Decided{Ref: call, Decision: stepmachine.Approve},
		stepmachine.EventArrived{Ref: call, ID: "e"},
		stepmachine.Resolved{CallEnd: executed(call, `1`).CallEnd},
		stepmachine.CompensationEnded{Seq: 1, Attempt: 1},
		stepmachine.Continued{},
		stepmachine.ResumeRequested{},
		stepmachine.Again{},
	} {
		require.Empty(t, x.next(at(1), e), e.Name())
		after, err := x.s.Encode()
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), e.Name())
	}
	x.next(at(2), executed(call, `1`))
	require.Empty(t, x.next(at(3), executed(call, `2`)), "the same answer again")
	timer := stepmachine.TimerFired{Ref: stepmachine.Ref{Path: "/steps/1"}, Timer: stepmachine.TimerWait}
	require.Empty(t, x.next(at(4), timer), "before its time")
	require.Equal(t, stepmachine.StatusCompleted, find[stepmachine.Finish](t, x.next(at(2+3600), timer)).Status)
	require.Empty(t, x.next(at(9999), timer))
	require.Empty(t, x.next(at(9999), stepmachine.CancelRequested{}))
}

// What cannot be stored fails, and ends as any failure does. An end that is under way goes on.
func TestStateThatIsTooLargeFailsTheExecution(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - {id: a, type: verb, verb: "shop:a", compensate: {verb: "shop:undo"}}
  - {id: w, type: wait, for: 1h}
on_failure: [{id: tell, type: verb, verb: "shop:tell"}]
`)
	x.next(at(1), executed(find[stepmachine.StartVerb](t, commands).Ref, `1`))
	undo := find[stepmachine.Compensate](t, x.next(at(2), stepmachine.StateTooLarge{}))
	require.Empty(t, x.next(at(3), stepmachine.StateTooLarge{}))
	commands = x.next(at(4), stepmachine.CompensationEnded{Seq: undo.Seq, Attempt: undo.Attempt, Status: stepmachine.CallExecuted})
	tell := find[stepmachine.StartVerb](t, commands)
	require.Empty(t, x.next(at(5), stepmachine.StateTooLarge{}))
	finish := find[stepmachine.Finish](t, x.next(at(6), executed(tell.Ref, `1`)))
	require.Equal(t, "STORAGE_LIMIT", finish.Error.Code)
	require.Equal(t, 1, finish.Compensated)
}

// A time of RFC 3339 with an offset can be in the year 10000 of UTC, which no JSON may have.
func TestWaitUntilTheYearTenThousandCanBeStored(t *testing.T) {
	t.Parallel()
	last := time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	for _, until := range []string{`"9999-12-31T23:59:59-23:59"`, `"${\"9999-12-31T23:59:59.5-00:01\"}"`} {
		x, commands := start(t, `steps: [{id: w, type: wait, until: `+until+`}]`)
		require.Equal(t, last, find[stepmachine.StartTimer](t, commands).At, until)
		raw, err := x.s.Encode()
		require.NoError(t, err, until)
		require.Contains(t, string(raw), `9999-12-31T23:59:59Z`)
		shown, err := json.Marshal(x.s.WaitingFor)
		require.NoError(t, err, until)
		require.Contains(t, string(shown), `9999-12-31T23:59:59Z`)
	}
}

func TestNextRefusesStatesOfAnotherMachine(t *testing.T) {
	t.Parallel()
	x, _ := start(t, `steps: [{id: a, type: wait, for: 1h}]`)
	raw, err := x.s.Encode()
	require.NoError(t, err)
	other := strings.Replace(string(raw), `"version":1`, `"version":2`, 1)
	_, err = stepmachine.Decode([]byte(other))
	require.ErrorAs(t, err, new(*stepmachine.VersionError))
	x.s.Version = 2
	_, _, err = stepmachine.Next(x.p, x.s, at(1), stepmachine.PauseRequested{})
	require.ErrorAs(t, err, new(*stepmachine.VersionError))
}

func TestStatusSaysWhatAnExecutionWaitsFor(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - id: p
    type: parallel
    branches:
      - {id: a, steps: [{id: call, type: verb, verb: "shop:a"}]}
      - {id: b, steps: [{id: event, type: wait, event: {type: custom.paid, timeout: 1h}}]}
      - {id: c, steps: [{id: people, type: approval, title: Go}]}
      - {id: d, steps: [{id: hand, type: escalate, reason: look, wait: true}]}
`)
	call := find[stepmachine.StartVerb](t, commands).Ref
	require.Equal(t, stepmachine.StatusRunning, x.s.Status)
	require.Nil(t, x.s.WaitingFor)

	x.next(at(1), stepmachine.CallWaits{Ref: call, For: stepmachine.WaitsKillSwitch})
	require.Equal(t, stepmachine.StatusPending, x.s.Status)
	require.Equal(t, &stepmachine.WaitsFor{
		For: stepmachine.WaitsApproval, Step: "people", Ref: stepmachine.Ref{Path: "/steps/0/branches/2/steps/0"}, Until: at(24 * 3600),
	}, x.s.WaitingFor)

	x.next(at(2), stepmachine.Decided{Ref: x.s.WaitingFor.Ref, Decision: stepmachine.Approve})
	require.Equal(t, stepmachine.StatusPaused, x.s.Status)
	require.Equal(t, "call", x.s.WaitingFor.Step)

	x.next(at(3), stepmachine.CallWaits{Ref: call, For: stepmachine.WaitsApproval})
	require.Equal(t, stepmachine.StatusPending, x.s.Status)

	x.next(at(4), stepmachine.CallGoesOn{Ref: call})
	require.Equal(t, stepmachine.StatusRunning, x.s.Status)
	x.next(at(5), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: call, Status: stepmachine.CallUnknown, Sent: true}})
	require.Equal(t, stepmachine.StatusEscalated, x.s.Status)
	require.Equal(t, &stepmachine.WaitsFor{
		For: stepmachine.WaitsSignal, Step: "hand", Ref: stepmachine.Ref{Path: "/steps/0/branches/3/steps/0"}, Event: "handled",
	}, x.s.WaitingFor)

	x.next(at(6), stepmachine.Signalled{Signal: "handled"})
	require.Equal(t, stepmachine.StatusWaiting, x.s.Status)
	require.Equal(t, stepmachine.WaitsResolve, x.s.WaitingFor.For)

	x.next(at(7), stepmachine.Resolved{CallEnd: executed(call, `1`).CallEnd})
	require.Equal(t, &stepmachine.WaitsFor{
		For: stepmachine.WaitsEvent, Step: "event", Ref: stepmachine.Ref{Path: "/steps/0/branches/1/steps/0"}, Event: "custom.paid", Until: at(3600),
	}, x.s.WaitingFor)

	x.next(at(8), stepmachine.PauseRequested{})
	require.Equal(t, stepmachine.StatusPaused, x.s.Status)
}

// A signal that answers people's steps is kept until one waits for it, and is used once.
func TestSignalForPeopleMayComeEarly(t *testing.T) {
	t.Parallel()
	early := func(name string) stepmachine.Signalled {
		return stepmachine.Signalled{Signal: name, Data: stepmachine.Of([]byte(`"early"`)), Keeps: true}
	}
	x, commands := start(t, `steps: [{id: a, type: agent, goal: g}, {id: e, type: escalate, reason: look, wait: true}, {id: f, type: escalate, reason: again, wait: true}]`)
	model := find[stepmachine.StartModel](t, commands).Ref
	require.Empty(t, x.next(at(1), early("input")))
	asks := stepmachine.CallWaits{Ref: model, For: stepmachine.WaitsInput, Ask: 2, Until: at(100)}
	given := find[stepmachine.TakeInput](t, x.next(at(2), asks))
	require.JSONEq(t, `"early"`, string(given.Data.JSON))
	require.Equal(t, stepmachine.StatusRunning, x.s.Status)
	x.next(at(3), asks)
	require.Equal(t, stepmachine.StatusWaiting, x.s.Status, "the signal was used")
	require.Equal(t, at(100), x.s.WaitingFor.Until)

	x.next(at(4), early("handled"))
	x.next(at(5), stepmachine.ModelEnded{CallEnd: executed(model, `1`).CallEnd})
	require.Equal(t, stepmachine.StatusEscalated, x.s.Status)
	require.Equal(t, "f", x.s.WaitingFor.Step, "the first step has used the signal")
}

// Another Map may wait for a signal of its own. That is no question of this execution.
func TestSignalAnswersTheModelThatAsksBesideAnotherMapThatWaits(t *testing.T) {
	t.Parallel()
	for signal, waits := range map[string]stepmachine.Waiting{"input": stepmachine.WaitsInput, "handled": stepmachine.WaitsSignal} {
		x, commands := start(t, `steps: [{id: p, type: parallel, branches: [
			{id: l, steps: [{id: m, type: map, map_id: 0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95}]}, {id: r, steps: [{id: a, type: agent, goal: g}]}]}]`)
		x.next(at(1), stepmachine.CallWaits{Ref: find[stepmachine.StartMap](t, commands).Ref, For: waits})
		model := find[stepmachine.StartModel](t, commands).Ref
		x.next(at(1), stepmachine.CallWaits{Ref: model, For: waits, Ask: 1})
		given := find[stepmachine.TakeInput](t, x.next(at(2), stepmachine.Signalled{Signal: signal, Data: stepmachine.Of([]byte(`1`)), Keeps: true}))
		require.Equal(t, model, given.Ref)
	}
}

func TestDeadlineDoesNotCountWaitsForPeople(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `steps: [{id: a, type: verb, verb: "shop:a", timeout: 1m, retry: {max_attempts: 3, initial: 10s}}]`)
	call := find[stepmachine.StartVerb](t, commands)
	require.Equal(t, at(60), call.Deadline)
	x.next(at(10), stepmachine.CallWaits{Ref: call.Ref, For: stepmachine.WaitsApproval})
	commands = x.next(at(1010), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{
		Ref: call.Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true,
	}})
	timer := find[stepmachine.StartTimer](t, commands)
	require.Equal(t, at(1020), timer.At)
	again := find[stepmachine.StartVerb](t, x.next(timer.At, stepmachine.TimerFired{Ref: timer.Ref, Timer: timer.Timer}))
	require.Equal(t, at(1060), again.Deadline)
	require.Equal(t, 2, again.Ref.Attempt)
}

// The time for which people, or a kill switch, keep a call that undoes a step does not count either, also
// where a state is stored meanwhile and the caller says again that the call waits.
func TestDeadlineOfUndoingDoesNotCountWaits(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `{defaults: {timeout: 1m}, steps: [{id: a, type: verb, verb: "shop:a", compensate: {verb: "shop:undo"}}, {id: b, type: raise, error: {code: "NO"}}]}`)
	call := find[stepmachine.StartVerb](t, commands)
	undo := find[stepmachine.Compensate](t, x.next(at(0), executed(call.Ref, `1`)))
	require.Equal(t, at(60), undo.Deadline)
	waits := stepmachine.CompensationWaits{Seq: 1, Attempt: 1, For: stepmachine.WaitsKillSwitch, Ref: call.Ref, Call: "exec_2"}
	x.next(at(10), waits)
	require.Equal(t, stepmachine.StatusPaused, x.s.Status)
	x.next(at(510), stepmachine.CompensationGoesOn{Seq: 1, Attempt: 1})
	require.Equal(t, stepmachine.StatusRunning, x.s.Status)
	require.Nil(t, x.s.WaitingFor)
	waits.For = stepmachine.WaitsApproval
	x.next(at(511), waits)
	x.next(at(700), waits)
	require.Equal(t, stepmachine.StatusPending, x.s.Status)
	require.Equal(t, &stepmachine.WaitsFor{For: stepmachine.WaitsApproval, Step: "a", Ref: call.Ref, UndoneBy: "exec_2"}, x.s.WaitingFor)

	busy := stepmachine.NewError("RATE_LIMITED", "")
	busy.RetryAfterMS = 5000
	timer := find[stepmachine.StartTimer](t, x.next(at(1011), stepmachine.CompensationEnded{
		Seq: 1, Attempt: 1, Status: stepmachine.CallFailed, Error: busy, MayRepeat: true,
	}))
	require.Equal(t, stepmachine.StatusRunning, x.s.Status)
	again := find[stepmachine.Compensate](t, x.next(timer.At, stepmachine.TimerFired{Ref: timer.Ref, Timer: timer.Timer}))
	require.Equal(t, stepmachine.Compensate{Seq: 1, Attempt: 2, Deadline: at(60 + 500 + 500)}, again)
	before, err := x.s.Encode()
	require.NoError(t, err)
	for _, late := range []stepmachine.Event{
		waits,
		stepmachine.CompensationGoesOn{Seq: 1, Attempt: 1},
		stepmachine.CompensationWaits{Seq: 2, Attempt: 2, For: stepmachine.WaitsApproval},
		stepmachine.CompensationWaits{Seq: 1, Attempt: 2},
	} {
		require.Empty(t, x.next(at(1100), late))
		after, err := x.s.Encode()
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "%+v is about another call, or about none", late)
	}
}

func TestJitterIsTheSameForTheSameAttempt(t *testing.T) {
	t.Parallel()
	wait := func(execution string) time.Duration {
		p := program(t, `steps: [{id: a, type: verb, verb: "shop:a", retry: {max_attempts: 3, initial: 100s, max_interval: 100s, jitter: 0.5}}]`)
		s, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{Execution: execution})
		x := &player{t, p, s}
		commands = x.next(at(0), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{
			Ref: find[stepmachine.StartVerb](t, commands).Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true,
		}})
		return find[stepmachine.StartTimer](t, commands).At.Sub(at(0))
	}
	first := wait("exec_1")
	require.Equal(t, first, wait("exec_1"))
	require.NotEqual(t, first, wait("exec_2"))
	for i := range 50 {
		d := wait(fmt.Sprint("exec_", i))
		require.GreaterOrEqual(t, d, 50*time.Second)
		require.LessOrEqual(t, d, 100*time.Second)
	}
}

func TestCancelWaitsForCallsInFlightAndUndoesWhatCompleted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		end         stepmachine.CallStatus
		compensated int
		unknown     int
	}{
		{"one that completes is undone", stepmachine.CallExecuted, 2, 0},
		{"one that did not happen is not", stepmachine.CallCancelled, 1, 0},
		{"one whose outcome is not known is listed", stepmachine.CallUnknown, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, commands := start(t, `
steps:
  - {id: a, type: verb, verb: "shop:a", compensate: {verb: "shop:undo"}}
  - {id: b, type: verb, verb: "shop:b", compensate: {verb: "shop:undo", args: {id: "${steps.b.output}"}}}
`)
			commands = x.next(at(1), executed(find[stepmachine.StartVerb](t, commands).Ref, `1`))
			second := find[stepmachine.StartVerb](t, commands).Ref
			commands = x.next(at(2), stepmachine.CancelRequested{})
			require.Equal(t, []stepmachine.Command{stepmachine.StopCall{Ref: second}}, commands)
			require.Equal(t, stepmachine.StatusRunning, x.s.Status)

			end := executed(second, `7`)
			end.Status = c.end
			commands = x.next(at(3), end)
			for n := c.compensated; n > 0; n-- {
				undo := find[stepmachine.Compensate](t, commands)
				require.Equal(t, n, undo.Seq)
				commands = x.next(at(4), stepmachine.CompensationEnded{Seq: n, Attempt: undo.Attempt, Status: stepmachine.CallExecuted})
			}
			finish := find[stepmachine.Finish](t, commands)
			require.Equal(t, stepmachine.StatusCancelled, finish.Status)
			require.Equal(t, c.compensated, finish.Compensated)
			require.Len(t, finish.Unknown, c.unknown)
		})
	}
}

func TestCompensationWaitsForAProviderThatAsksForIt(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - {id: a, type: verb, verb: "shop:a", compensate: {verb: "shop:undo"}}
  - {id: b, type: raise, error: {code: "NO"}}
`)
	commands = x.next(at(0), executed(find[stepmachine.StartVerb](t, commands).Ref, `1`))
	require.Equal(t, 1, find[stepmachine.Compensate](t, commands).Attempt)
	commands = x.next(at(1), stepmachine.CompensationEnded{
		Seq: 1, Attempt: 1, Status: stepmachine.CallFailed, Error: stepmachine.NewError("CIRCUIT_OPEN", ""), MayRepeat: true,
	})
	timer := find[stepmachine.StartTimer](t, commands)
	require.Equal(t, at(2), timer.At)
	commands = x.next(timer.At, stepmachine.TimerFired{Ref: timer.Ref, Timer: timer.Timer})
	require.Equal(t, 2, find[stepmachine.Compensate](t, commands).Attempt)
	finish := find[stepmachine.Finish](t, x.next(at(3), stepmachine.CompensationEnded{
		Seq: 1, Attempt: 2, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_REJECTED", "no"), Call: "exec_1",
	}))
	want := stepmachine.NewError("PROVIDER_REJECTED", "no")
	require.Equal(t, []stepmachine.NotUndone{{Seq: 1, Call: "exec_1", Status: stepmachine.CallFailed, Code: want.Code, Title: want.Title}}, finish.NotCompensated)
}

// A loser of a race is in flight when its step has ended: the Map goes on, and its end waits.
func TestALoserOfARaceIsUndoneWithTheRest(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - id: each
    type: foreach
    items: [x]
    steps:
      - id: p
        type: parallel
        join: race
        branches:
          - {id: slow, steps: [{id: s, type: verb, verb: "shop:slow", compensate: {verb: "shop:undo", args: {item: "${item}", id: "${steps.s.output}"}}}]}
          - {id: quick, steps: [{id: q, type: verb, verb: "shop:quick"}]}
  - {id: last, type: verb, verb: "shop:last"}
`)
	slow := commands[1].(stepmachine.StartVerb).Ref
	quick := commands[3].(stepmachine.StartVerb).Ref
	commands = x.next(at(1), executed(quick, `1`))
	require.Equal(t, slow, find[stepmachine.StopCall](t, commands).Ref)
	last := find[stepmachine.StartVerb](t, commands).Ref
	failed := stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: last, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", "")}}
	for _, c := range x.next(at(2), failed) {
		require.NotEqual(t, "finish", c.Name(), "a call is in flight")
	}
	commands = x.next(at(3), executed(slow, `5`))
	kept := find[stepmachine.KeepCompensation](t, commands)
	require.JSONEq(t, `{"item":"x","id":5}`, string(kept.Args.JSON))
	require.Equal(t, 1, find[stepmachine.Compensate](t, commands).Seq)
	finish := find[stepmachine.Finish](t, x.next(at(4), stepmachine.CompensationEnded{Seq: 1, Attempt: 1, Status: stepmachine.CallExecuted}))
	require.Equal(t, stepmachine.StatusFailed, finish.Status)
	require.Equal(t, 2, finish.Actions)
}

// What the caller has stored while it evaluated is kept as all else is.
func TestValuesThatAnEvaluationHasStoredCountAsKept(t *testing.T) {
	t.Parallel()
	p := program(t, `
steps:
  - {id: a, type: transform, expr: '${[range(3)]}'}
  - {id: b, type: transform, expr: '${[range(3)]}'}
  - {id: c, type: transform, expr: '${[range(3)]}'}
`)
	s, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{Execution: "exec_1"})
	for range 2 {
		ask := find[stepmachine.Evaluate](t, commands)
		stored := stepmachine.Value{Stored: &stepmachine.Stored{ID: ask.Ref.String() + ":" + ask.What, Bytes: stepmachine.MaxKept/2 + 1}}
		var err error
		s, commands, err = stepmachine.Next(p, s, at(1), stepmachine.Evaluated{Ref: ask.Ref, Number: ask.Number, Value: stored})
		require.NoError(t, err)
	}
	require.Equal(t, "STORAGE_LIMIT", find[stepmachine.Finish](t, commands).Error.Code)
}
