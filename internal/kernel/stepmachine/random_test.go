package stepmachine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/exactjson"
	"agentruntime/internal/kernel/mapdef"
	"agentruntime/internal/kernel/stepmachine"
	"agentruntime/internal/kernel/stepmachine/simulate"
)

// author writes random definitions.
type author struct {
	*rand.Rand

	steps int
}

type object = map[string]any

// list writes a list of steps.
func (a *author) list(depth int) []any {
	list := []any{}
	for range a.IntN(4) {
		list = append(list, a.step(depth))
	}
	return list
}

func (a *author) step(depth int) object {
	a.steps++
	s := object{"id": fmt.Sprintf("s%d", a.steps)}
	if a.IntN(8) == 0 {
		s["skip_if"] = fmt.Sprintf("${%t}", a.IntN(2) == 0)
	}
	switch a.IntN(10) {
	case 0:
		s["on_error"] = "continue"
	case 1:
		if depth > 5 {
			break
		}
		s["catch"] = []any{object{"errors": []string{"*"}, "as": "e", "steps": a.list(depth + 1)}}
	}
	if depth > 3 || a.steps > 60 || a.IntN(2) == 0 {
		return a.leaf(s)
	}
	return a.block(s, depth)
}

func (a *author) leaf(s object) object {
	put := func(more object) object {
		maps.Copy(s, more)
		return s
	}
	switch a.IntN(8) {
	case 0:
		return put(object{"type": "set", "assign": object{"x": "${[range(2)] | length}"}})
	case 1:
		return put(object{"type": "wait", "for": "1m"})
	case 2:
		return put(object{"type": "raise", "error": object{"code": "NO"}})
	case 3:
		return put(object{"type": "approval", "title": "Go"})
	case 4:
		return put(object{"type": "transform", "expr": "${vars}"})
	}
	put(object{"type": "verb", "verb": "shop:a", "args": object{"x": "${vars.x}"}})
	if a.IntN(6) == 0 {
		s["compensate"] = object{"verb": "shop:undo", "args": object{"of": fmt.Sprintf("${steps.%s.output}", s["id"])}}
	}
	if a.IntN(3) == 0 {
		s["retry"] = object{"max_attempts": 2}
	}
	return s
}

func (a *author) block(s object, depth int) object {
	steps := a.list(depth + 1)
	switch a.IntN(4) {
	case 0:
		s["type"], s["cases"] = "switch", []any{object{"when": "${vars.x == 0}", "steps": steps}}
		s["default"] = a.list(depth + 1)
	case 1:
		s["type"], s["when"], s["max_iterations"], s["steps"] = "while", "${index < 2}", 3, steps
	case 2:
		s["type"], s["items"], s["steps"] = "foreach", []int{1, 2, 3}[:a.IntN(4)], steps
		s["mode"] = []string{"seq", "parallel"}[a.IntN(2)]
		s["on_item_error"] = []string{"stop", "skip"}[a.IntN(2)]
	default:
		s["type"] = "parallel"
		s["join"] = []string{"all", "any", "race"}[a.IntN(3)]
		s["on_branch_error"] = []string{"stop", "skip"}[a.IntN(2)]
		s["branches"] = []any{object{"id": "l", "steps": steps}, object{"id": "r", "steps": a.list(depth + 1)}}
	}
	return s
}

func (a *author) definition(t *testing.T) *stepmachine.Program {
	t.Helper()
	steps := a.list(0)
	d := object{"schema_version": "1", "name": "random", "vars": object{"x": 0}, "steps": steps}
	if a.IntN(3) == 0 {
		d["on_failure"] = a.list(2)
	} else if a.IntN(3) == 0 { // something is undone
		made := object{"id": "made", "type": "verb", "verb": "shop:a", "compensate": object{"verb": "shop:undo"}}
		d["steps"] = slices.Concat([]any{made}, steps, []any{object{"id": "stop", "type": "raise", "error": object{"code": "STOP"}}})
	}
	raw, err := exactjson.Encode(d)
	require.NoError(t, err)
	def, faults := mapdef.Read(raw)
	require.Empty(t, faults)
	p, err := stepmachine.Compile(def)
	require.NoError(t, err)
	return p
}

// again takes an execution up, sometimes from an earlier step.
func (a *author) again() stepmachine.Again {
	if a.IntN(2) == 0 {
		return stepmachine.Again{}
	}
	return stepmachine.Again{FromStep: fmt.Sprintf("s%d", 1+a.IntN(a.steps+1))}
}

// fate answers the commands of a machine as it likes.
type fate struct {
	*author

	t       *testing.T
	p       *stepmachine.Program
	now     time.Time
	waiting []stepmachine.Event
	timers  []stepmachine.StartTimer
	unknown []stepmachine.Ref
	// made are the ends of calls that were executed. The fence answers another one of the number with them.
	made map[stepmachine.Ref]stepmachine.CallEnd
}

// answer puts the answers to commands on their way.
func (f *fate) answer(commands []stepmachine.Command) {
	for _, c := range commands {
		switch c := c.(type) {
		case stepmachine.StartVerb:
			f.waiting = append(f.waiting, stepmachine.VerbEnded{CallEnd: f.end(c.Ref)})
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
			f.waiting = append(f.waiting, stepmachine.Decided{Ref: c.Ref, Decision: []stepmachine.Decision{stepmachine.Approve, stepmachine.Reject}[f.IntN(2)]})
		case stepmachine.Continue:
			f.waiting = append(f.waiting, stepmachine.Continued{})
		}
	}
}

func (f *fate) end(r stepmachine.Ref) stepmachine.CallEnd {
	if before, made := f.made[r]; made {
		return before
	}
	end := stepmachine.CallEnd{Ref: r, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true}
	switch f.IntN(8) {
	case 0: // it fails without an effect
	case 1:
		end.Sent, end.MayRepeat = true, false
	case 2:
		end.Status, end.Sent, end.MayRepeat = stepmachine.CallUnknown, true, false
		f.unknown = append(f.unknown, r)
	default:
		end.Status, end.Error, end.Result, end.Sent, end.Wrote, end.MayRepeat = stepmachine.CallExecuted, nil, stepmachine.Of(json.RawMessage(`1`)), true, true, false
		f.made[r] = end
	}
	return end
}

// next picks what happens next; not ok where nothing can.
func (f *fate) next(s *stepmachine.State) (stepmachine.Event, bool) {
	if f.IntN(60) == 0 {
		return stepmachine.CancelRequested{}, true
	}
	if f.IntN(20) == 0 {
		return []stepmachine.Event{stepmachine.PauseRequested{}, stepmachine.ResumeRequested{}}[f.IntN(2)], true
	}
	if n := len(f.waiting); n > 0 {
		i := f.IntN(n)
		e := f.waiting[i]
		f.waiting = slices.Delete(f.waiting, i, i+1)
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
	if len(f.unknown) > 0 {
		end := stepmachine.CallEnd{Ref: f.unknown[0], Status: []stepmachine.CallStatus{stepmachine.CallExecuted, stepmachine.CallFailed}[f.IntN(2)]}
		f.unknown = f.unknown[1:]
		return stepmachine.Resolved{CallEnd: end}, true
	}
	return nil, false
}

// TestRandomMapsEndWhateverHappens runs random definitions with random answers in random
// order, with cancels and pauses at random, and takes failed ones up again: each ends, and no
// invariant is broken.
func TestRandomMapsEndWhateverHappens(t *testing.T) {
	t.Parallel()
	const definitions, most = 300, 20_000
	ends := map[stepmachine.Status]int{}
	revived, undoing := 0, 0
	for seed := range uint64(definitions) {
		a := &author{Rand: rand.New(rand.NewPCG(seed, 7))}
		p := a.definition(t)
		f := &fate{author: a, t: t, p: p, now: at(0), made: map[stepmachine.Ref]stepmachine.CallEnd{}}
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
			w.shows(s)
			f.answer(commands)
		}
		require.Contains(t, []stepmachine.Status{stepmachine.StatusCompleted, stepmachine.StatusFailed, stepmachine.StatusCancelled}, s.Status, "seed %d", seed)
		ends[s.Status]++
		undoing += w.undoingWaits
	}
	t.Log(ends, revived, "taken up again", undoing, "waits of calls that undo")
	require.Len(t, ends, 3)
	require.Greater(t, revived, 20)
	require.Greater(t, undoing, 20)
}
