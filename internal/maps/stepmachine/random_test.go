package stepmachine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/test/simulate"
)

// fate answers the commands of a machine as it likes.
type fate struct {
	*author

	t   *testing.T
	p   *stepmachine.Program
	now time.Time
	// waiting is what can happen next, in any order; then has what follows on an event of a call.
	waiting []stepmachine.Event
	then    map[string][]stepmachine.Event
	// made are the ends of calls that are final: another call of their number is the same one.
	made map[string]stepmachine.CallEnd
	// asked has the ends of the calls of models that have asked something, and asks the signals that
	// the machine knows them to wait for.
	asked   map[string]stepmachine.Event
	asks    map[string]string
	timers  []stepmachine.StartTimer
	unknown []stepmachine.Ref
	// later are the ends of other Maps that wait for people of their own.
	later   []stepmachine.Event
	awaited []stepmachine.AwaitEvent
	events  int
}

// answer puts the answers to commands on their way.
func (f *fate) answer(commands []stepmachine.Command) {
	for _, c := range commands {
		switch c := c.(type) {
		case stepmachine.StartVerb:
			f.begin(c.Ref, stepmachine.VerbEnded{CallEnd: f.verb(c.Ref)})
		case stepmachine.StartModel:
			f.model(c)
		case stepmachine.StartMap:
			f.startMap(c)
		case stepmachine.TakeInput:
			f.goOn(c.Ref)
		case stepmachine.StopCall:
			f.goOn(c.Ref)
		case stepmachine.Compensate:
			what := []stepmachine.Waiting{stepmachine.WaitsApproval, stepmachine.WaitsKillSwitch}[f.IntN(2)]
			f.waiting = append(f.waiting,
				stepmachine.CompensationWaits{Seq: c.Seq, Attempt: c.Attempt, For: what, Call: "exec_2"},
				stepmachine.CompensationGoesOn{Seq: c.Seq, Attempt: c.Attempt},
				stepmachine.CompensationEnded{Seq: c.Seq, Attempt: c.Attempt, Status: stepmachine.CallExecuted})
		case stepmachine.Evaluate:
			e, err := f.p.Evaluate(f.t.Context(), sandbox{}, c, nil)
			require.NoError(f.t, err)
			f.waiting = append(f.waiting, e)
		case stepmachine.StartTimer:
			f.timers = append(f.timers, c)
		case stepmachine.CancelTimer:
			f.timers = slices.DeleteFunc(f.timers, func(s stepmachine.StartTimer) bool { return s.Ref == c.Ref && s.Timer == c.Timer })
		case stepmachine.AskApproval:
			f.decide(c)
		case stepmachine.CloseApproval:
			if c.Expired {
				f.waiting = append(f.waiting, stepmachine.Decided{Ref: c.Ref, Decision: stepmachine.Expired})
			}
		case stepmachine.AwaitEvent:
			f.awaited = append(f.awaited, c)
		case stepmachine.StopAwaiting:
			f.awaited = slices.DeleteFunc(f.awaited, func(a stepmachine.AwaitEvent) bool { return a.Ref == c.Ref })
		case stepmachine.Continue:
			f.waiting = append(f.waiting, stepmachine.Continued{})
		}
	}
}

// begin makes a call, which may have to wait before it ends.
func (f *fate) begin(r stepmachine.Ref, end stepmachine.Event, waits ...stepmachine.Waiting) {
	if f.IntN(4) > 0 {
		f.waiting = append(f.waiting, end)
		return
	}
	waits = append(waits, stepmachine.WaitsApproval, stepmachine.WaitsKillSwitch)
	f.waiting = append(f.waiting, stepmachine.CallWaits{Ref: r, For: waits[f.IntN(len(waits))]})
	if f.IntN(2) == 0 {
		f.then[r.String()] = append(f.then[r.String()], stepmachine.CallGoesOn{Ref: r})
	}
	f.then[r.String()] = append(f.then[r.String()], end)
}

// model has a model do a step. It may ask something first.
func (f *fate) model(c stepmachine.StartModel) {
	result := map[mapdef.Type]string{
		mapdef.TypeAgent: `"done"`, mapdef.TypeExtract: `{}`, mapdef.TypeClassify: `{"label":"a"}`, mapdef.TypeSummarize: `{"summary":"s"}`,
		mapdef.TypeReason: `{"answer":"no","reason":"r"}`,
	}[c.Type]
	end := f.end(c.Ref, stepmachine.Of(json.RawMessage(result)))
	if c.Type == mapdef.TypeAgent && end.Sent {
		end.Actions = f.IntN(3)
	}
	end = f.final(end)
	if c.Type != mapdef.TypeAgent || f.IntN(2) == 0 {
		f.begin(c.Ref, stepmachine.ModelEnded{CallEnd: end})
		return
	}
	ask := []stepmachine.Waiting{stepmachine.WaitsInput, stepmachine.WaitsSignal}[f.IntN(2)]
	f.asked[c.Ref.String()] = stepmachine.ModelEnded{CallEnd: end}
	f.waiting = append(f.waiting, stepmachine.CallWaits{Ref: c.Ref, For: ask, Ask: 1, Until: f.now.Add(time.Hour)})
}

// goOn lets the call of a model end that has asked something.
func (f *fate) goOn(r stepmachine.Ref) {
	if end, asks := f.asked[r.String()]; asks {
		delete(f.asked, r.String())
		delete(f.asks, r.String())
		f.waiting = append(f.waiting, end)
	}
}

// startMap starts another Map, which may wait for all that Maps wait for.
func (f *fate) startMap(c stepmachine.StartMap) {
	if !c.Wait {
		result := stepmachine.Of(json.RawMessage(`{"execution_id":"exec_2"}`))
		f.waiting = append(f.waiting, stepmachine.MapEnded{CallEnd: stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallExecuted, Result: result, Wrote: true}})
		return
	}
	end := stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("NO_STOCK", "")}
	switch f.IntN(6) {
	case 0:
		end.MayRepeat = true
	case 1:
		end.Wrote = true
	case 2:
		end.Status, end.Error = stepmachine.CallCancelled, nil
	default:
		end.Status, end.Error, end.Result, end.Wrote = stepmachine.CallExecuted, nil, stepmachine.Of(json.RawMessage(`1`)), true
	}
	ended := stepmachine.MapEnded{CallEnd: f.final(end)}
	if f.IntN(3) > 0 {
		f.begin(c.Ref, ended, stepmachine.WaitsTimer, stepmachine.WaitsEvent, stepmachine.WaitsMap)
		return
	}
	f.waiting = append(f.waiting, stepmachine.CallWaits{Ref: c.Ref, For: []stepmachine.Waiting{stepmachine.WaitsInput, stepmachine.WaitsSignal}[f.IntN(2)]})
	f.later = append(f.later, ended)
}

// decide has people decide, or nobody in time.
func (f *fate) decide(c stepmachine.AskApproval) {
	answers := []stepmachine.Decision{stepmachine.Approve, stepmachine.Edit, stepmachine.Respond, stepmachine.Reject, ""}
	if d := answers[f.IntN(len(answers))]; d != "" {
		f.waiting = append(f.waiting, stepmachine.Decided{Ref: c.Ref, Decision: d, Response: stepmachine.Of(json.RawMessage(`1`)), Payload: stepmachine.Of(json.RawMessage(`{}`))})
	}
}

// verb returns the end of a call of a verb. What came of it may not be known.
func (f *fate) verb(r stepmachine.Ref) stepmachine.CallEnd {
	if _, made := f.made[r.String()]; !made && f.IntN(8) == 0 {
		f.unknown = append(f.unknown, r)
		return stepmachine.CallEnd{Ref: r, Status: stepmachine.CallUnknown, Error: stepmachine.NewError("PROVIDER_ERROR", ""), Sent: true}
	}
	return f.final(f.end(r, stepmachine.Of(json.RawMessage(`1`))))
}

// final returns the end of a call: that of an earlier one of its number where that may not be repeated.
// So the fence answers.
func (f *fate) final(end stepmachine.CallEnd) stepmachine.CallEnd {
	key := end.Ref.String()
	if before, made := f.made[key]; made {
		return before
	}
	if !end.MayRepeat {
		f.made[key] = end
	}
	return end
}

func (f *fate) end(r stepmachine.Ref, result stepmachine.Value) stepmachine.CallEnd {
	end := stepmachine.CallEnd{Ref: r, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true}
	switch f.IntN(8) {
	case 0: // it fails without an effect
	case 1:
		end.Sent, end.MayRepeat = true, false
	default:
		end.Status, end.Error, end.Result, end.Sent, end.Wrote, end.MayRepeat = stepmachine.CallExecuted, nil, result, true, true, false
	}
	return end
}

// next picks what happens next; not ok where nothing can.
func (f *fate) next(s *stepmachine.State) (stepmachine.Event, bool) {
	if f.IntN(60) == 0 {
		return stepmachine.CancelRequested{}, true
	}
	if f.IntN(300) == 0 {
		return stepmachine.StateTooLarge{}, true
	}
	if f.IntN(20) == 0 {
		return []stepmachine.Event{stepmachine.PauseRequested{}, stepmachine.ResumeRequested{}}[f.IntN(2)], true
	}
	if f.IntN(20) == 0 && len(s.Signals) < stepmachine.MaxSignals {
		return f.signal(names[f.IntN(len(names))]), true
	}
	if len(f.awaited) > 0 && f.IntN(8) == 0 {
		f.waiting = append(f.waiting, f.arrives(f.awaited[f.IntN(len(f.awaited))], f.IntN(2)))
	}
	if n := len(f.waiting); n > 0 {
		i := f.IntN(n)
		e := f.waiting[i]
		f.waiting = slices.Delete(f.waiting, i, i+1)
		f.follow(e)
		return e, true
	}
	if s.Paused {
		return stepmachine.ResumeRequested{}, true
	}
	if len(f.timers) > 0 {
		first := slices.MinFunc(f.timers, func(a, b stepmachine.StartTimer) int { return a.At.Compare(b.At) })
		f.timers = slices.DeleteFunc(f.timers, func(s stepmachine.StartTimer) bool { return s == first })
		f.now = first.At
		return stepmachine.TimerFired{Ref: first.Ref, Timer: first.Timer}, true
	}
	return f.last(s)
}

// last picks what people and others do when nothing else can happen.
func (f *fate) last(s *stepmachine.State) (stepmachine.Event, bool) {
	if len(f.unknown) > 0 {
		end := stepmachine.CallEnd{Ref: f.unknown[0], Status: stepmachine.CallFailed}
		if f.unknown = f.unknown[1:]; f.IntN(2) == 0 {
			end.Status, end.Wrote = stepmachine.CallExecuted, true
			end = f.final(end)
		}
		return stepmachine.Resolved{CallEnd: end}, true
	}
	if len(f.awaited) > 0 {
		return f.arrives(f.awaited[0], 1), true
	}
	if asks := slices.Sorted(maps.Values(f.asks)); len(asks) > 0 {
		return f.signal(asks[0]), true
	}
	if len(f.later) > 0 {
		e := f.later[0]
		f.later = f.later[1:]
		return e, true
	}
	if w := s.WaitingFor; w != nil && w.Event != "" {
		return f.signal(w.Event), true
	}
	return nil, false
}

// follow puts on its way what follows on an event of a call.
func (f *fate) follow(e stepmachine.Event) {
	var r stepmachine.Ref
	switch e := e.(type) {
	case stepmachine.CallWaits:
		r = e.Ref
		if _, asks := f.asked[r.String()]; asks {
			f.asks[r.String()] = map[stepmachine.Waiting]string{stepmachine.WaitsInput: stepmachine.SignalInput, stepmachine.WaitsSignal: stepmachine.SignalHandled}[e.For]
		}
	case stepmachine.CallGoesOn:
		r = e.Ref
	default:
		return
	}
	if then := f.then[r.String()]; len(then) > 0 {
		f.waiting, f.then[r.String()] = append(f.waiting, then[0]), then[1:]
	}
}

func (f *fate) signal(name string) stepmachine.Signalled {
	s := stepmachine.Signalled{Signal: name, Data: stepmachine.Of(json.RawMessage(`1`))}
	s.Keeps = s.ForPeople()
	return s
}

// heard checks that no signal is kept for later while a model waits for it.
func (f *fate) heard(seed uint64, s *stepmachine.State) {
	for r, name := range f.asks {
		for _, kept := range s.Signals {
			require.False(f.t, strings.HasSuffix(kept.ID, ":"+name), "seed %d: %s is kept, and %s waits for it", seed, kept.ID, r)
		}
	}
}

// arrives is an event for a step that waits: sometimes one that it has seen.
func (f *fate) arrives(a stepmachine.AwaitEvent, data int) stepmachine.Event {
	if f.events == 0 || f.IntN(4) > 0 {
		f.events++
	}
	body := fmt.Sprintf(`{"id":"evt_%d","type":%q,"data":%d}`, f.events, a.Type, data)
	return stepmachine.EventArrived{Ref: a.Ref, ID: fmt.Sprintf("evt_%d", f.events), Event: stepmachine.Of(json.RawMessage(body))}
}

// TestRandomMapsEndWhateverHappens runs random definitions with random answers in random
// order, with cancels and pauses at random, and takes failed ones up again: each ends, and no
// invariant is broken.
func TestRandomMapsEndWhateverHappens(t *testing.T) {
	t.Parallel()
	const definitions, most = 300, 20_000
	ends := map[stepmachine.Status]int{}
	revived, undoing, used := 0, 0, map[mapdef.Type]int{}
	for seed := range uint64(definitions) {
		a := &author{Rand: rand.New(rand.NewPCG(seed, 7)), used: used}
		p := a.definition(t)
		f := &fate{author: a, t: t, p: p, now: at(0), then: map[string][]stepmachine.Event{}, asked: map[string]stepmachine.Event{}, asks: map[string]string{}, made: map[string]stepmachine.CallEnd{}}
		w := watch{t: t, seed: seed, c: &simulate.Case{Happens: []simulate.Happening{{Again: &simulate.Again{}}}}}
		s, commands := stepmachine.Start(p, f.now, stepmachine.Beginning{Execution: "exec_1"})
		w.see("exec_1", nil, commands)
		f.answer(commands)
		for events := 0; ; events++ {
			require.Less(t, events, most, "seed %d does not end", seed)
			e, ok := f.next(s)
			if again := a.again(); !ok && a.IntN(4) > 0 && stepmachine.CanGoOn(p, s, again) == nil {
				e, ok = again, true
				revived++
			}
			if !ok {
				break
			}
			raw, err := s.Encode()
			require.NoError(t, err)
			s, err = stepmachine.Decode(raw)
			require.NoError(t, err)
			s, commands, err = stepmachine.Next(p, s, f.now, e)
			require.NoError(t, err)
			w.see("exec_1", e, commands)
			f.answer(commands)
			f.heard(seed, s)
			w.shows(s)
		}
		undoing += w.undoingWaits
		require.Contains(t, []stepmachine.Status{stepmachine.StatusCompleted, stepmachine.StatusFailed, stepmachine.StatusCancelled}, s.Status, "seed %d", seed)
		ends[s.Status]++
	}
	t.Log(ends, revived, "taken up again", undoing, "waits of calls that undo")
	require.Len(t, ends, 3)
	require.Greater(t, revived, 20)
	require.Greater(t, undoing, 20)
	for _, typ := range mapdef.Types() {
		require.Greater(t, used[typ], 10, "steps of the type %s", typ)
	}
}
