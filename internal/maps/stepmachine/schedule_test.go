package stepmachine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/test/simulate"
)

// schedules is how many random orders each case is run in.
const schedules = 8

// all returns the cases of both folders.
func all(t *testing.T) []named {
	t.Helper()
	return append(cases(t), shared(t)...)
}

// TestCasesInAnyOrder runs each case with its answers arriving in random orders, and with the
// state stored between any two events. The invariants must hold in all of them, and the end
// must be that of the order in which things are asked for, unless the case is a race.
func TestCasesInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, c := range all(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inOrder := run(t, &c.Case, simulate.Options{})
			for seed := range uint64(schedules) {
				order := rand.New(rand.NewPCG(seed, 1))
				w := watch{t: t, seed: seed, c: &c.Case}
				r := run(t, &c.Case, simulate.Options{Pick: order.IntN, Store: true, See: w.see})
				w.finished(r)
				if isRace(t, &c.Case) {
					continue
				}
				require.Equal(t, inOrder.State.Status, r.State.Status, "seed %d", seed)
				require.Equal(t, string(inOrder.Output), string(r.Output), "seed %d", seed)
				require.ElementsMatch(t, texts(inOrder.Calls, true), texts(r.Calls, true), "seed %d", seed)
			}
		})
	}
}

// isRace reports whether the order of answers decides what comes of the case.
func isRace(t *testing.T, c *simulate.Case) bool {
	t.Helper()
	def, faults := mapdef.Read(c.Map)
	require.Empty(t, faults)
	race := false
	mapdef.Walk(def.Steps, func(s *mapdef.Step) {
		switch do := s.Do.(type) {
		case *mapdef.DoParallel:
			race = race || do.Join != mapdef.JoinAll || do.OnBranchError != mapdef.Skip
		case *mapdef.DoForeach:
			race = race || do.Mode == mapdef.Concurrently && do.OnItemError != mapdef.Skip
		}
	})
	return race && (c.Expect.Status == stepmachine.StatusFailed || c.Expect.Status == stepmachine.StatusCompleted && len(c.Happens) > 0) || hasRace(def)
}

func hasRace(def *mapdef.Definition) bool {
	race := false
	mapdef.Walk(def.Steps, func(s *mapdef.Step) {
		do, ok := s.Do.(*mapdef.DoParallel)
		race = race || ok && do.Join != mapdef.JoinAll
	})
	return race
}

// watch checks what no schedule may break.
type watch struct {
	t    *testing.T
	seed uint64
	c    *simulate.Case
	runs map[string]execution
	// undoingWaits counts the events after which a call that undoes a step waits.
	undoingWaits int
}

// execution is what a schedule has shown of one execution.
type execution struct {
	started  map[string]bool // calls, timers and others, by reference
	ended    map[string]stepmachine.CallStatus
	done     map[string]int  // the numbers of calls that may have had an effect, by step
	harmless map[string]bool // calls that provably had no effect
	timers   map[string]bool
	asks     map[string]bool   // approvals and waits for events that are open
	over     []stepmachine.Ref // steps that have failed, whatever is in them
	closed   map[string]int    // steps that are written as ended, with the attempt, since the last Again
	kept     []int
	undone   []int
	broken   int // compensations whose arguments could not be made
	finished bool
}

// shows checks what a state says of what it waits for: nothing after the end, and always what its status
// says.
func (w *watch) shows(s *stepmachine.State) {
	t := w.t
	switch s.Status {
	case stepmachine.StatusPending:
		require.NotNil(t, s.WaitingFor, "seed %d", w.seed)
		require.Equal(t, stepmachine.WaitsApproval, s.WaitingFor.For, "seed %d", w.seed)
	case stepmachine.StatusRunning, stepmachine.StatusCompleted, stepmachine.StatusFailed, stepmachine.StatusCancelled:
		require.Nil(t, s.WaitingFor, "seed %d", w.seed)
	case stepmachine.StatusWaiting, stepmachine.StatusPaused, stepmachine.StatusEscalated:
	}
	if s.WaitingFor != nil && s.WaitingFor.UndoneBy != "" {
		w.undoingWaits++
	}
}

func (w *watch) see(id string, e stepmachine.Event, commands []stepmachine.Command) {
	if w.runs == nil {
		w.runs = map[string]execution{}
	}
	x, ok := w.runs[id]
	if !ok {
		x = execution{started: map[string]bool{}, ended: map[string]stepmachine.CallStatus{}, timers: map[string]bool{}, asks: map[string]bool{}, closed: map[string]int{}, done: map[string]int{}, harmless: map[string]bool{}}
	}
	x.event(e)
	for _, c := range commands {
		require.False(w.t, x.finished, "seed %d: %s after the end", w.seed, c.Name())
		w.command(&x, c)
	}
	w.runs[id] = x
}

func (x *execution) event(e stepmachine.Event) {
	switch e := e.(type) {
	case stepmachine.VerbEnded:
		x.ends(e.CallEnd)
	case stepmachine.ModelEnded:
		x.ends(e.CallEnd)
	case stepmachine.MapEnded:
		x.ends(e.CallEnd)
	case stepmachine.Resolved:
		e.MayRepeat = e.Status == stepmachine.CallFailed
		x.ends(e.CallEnd)
	case stepmachine.TimerFired:
		delete(x.timers, e.Ref.String()+string(e.Timer))
	case stepmachine.Decided:
		delete(x.asks, "approval "+e.Ref.String())
	case stepmachine.Again:
		x.finished, x.over = false, nil
		clear(x.closed)
	}
}

// ends notes the end of a call: whether it may have had an effect.
func (x *execution) ends(e stepmachine.CallEnd) {
	key, step := e.Ref.String(), e.Ref.Path+"@"+e.Ref.Iteration
	x.ended[key] = e.Status
	if x.harmless[key] = e.MayRepeat || e.Status == stepmachine.CallCancelled; !x.harmless[key] {
		x.done[step] = e.Ref.Attempt
	} else if x.done[step] == e.Ref.Attempt {
		delete(x.done, step)
	}
}

// begins notes a call: each is made once.
func (w *watch) begins(x *execution, r stepmachine.Ref) {
	key := r.String()
	again := slices.ContainsFunc(w.c.Happens, func(h simulate.Happening) bool { return h.Again != nil })
	require.True(w.t, !x.started[key] || again && x.ended[key] != "", "seed %d: %s is called twice", w.seed, key)
	// What has changed something is only made again under its number, which makes it the same call.
	n, done := x.done[r.Path+"@"+r.Iteration]
	require.True(w.t, !done || n == r.Attempt, "seed %d: %s was made as number %d", w.seed, key, n)
	if before := r; r.Attempt > 1 {
		before.Attempt--
		require.True(w.t, x.harmless[before.String()], "seed %d: %s begins, and what came of the call before may have had an effect", w.seed, key)
	}
	x.started[key] = true
	delete(x.ended, key)
}

func (w *watch) command(x *execution, c stepmachine.Command) {
	switch c := c.(type) {
	case stepmachine.StartVerb:
		w.begins(x, c.Ref)
		for _, r := range x.over {
			require.False(w.t, within(c.Ref, r), "seed %d: %s begins in %s, which has failed", w.seed, c.Ref, r)
		}
	case stepmachine.RecordStep:
		if c.Status == stepmachine.StepFailed {
			x.over = append(x.over, c.Ref)
		}
		w.records(x, c)
	case stepmachine.StartModel:
		w.begins(x, c.Ref)
	case stepmachine.StartMap:
		w.begins(x, c.Ref)
	case stepmachine.StopCall:
		require.True(w.t, x.started[c.Ref.String()] && x.ended[c.Ref.String()] == "", "seed %d: %s is not in flight", w.seed, c.Ref)
	case stepmachine.StartTimer:
		key := c.Ref.String() + string(c.Timer)
		require.False(w.t, x.timers[key], "seed %d: the timer %s runs already", w.seed, key)
		x.timers[key] = true
	case stepmachine.CancelTimer:
		key := c.Ref.String() + string(c.Timer)
		require.True(w.t, x.timers[key], "seed %d: the timer %s does not run", w.seed, key)
		delete(x.timers, key)
	case stepmachine.AskApproval:
		w.asks(x, "approval "+c.Ref.String())
	case stepmachine.CloseApproval:
		w.closes(x, "approval "+c.Ref.String(), c.Expired)
	case stepmachine.AwaitEvent:
		w.asks(x, "event "+c.Ref.String())
	case stepmachine.StopAwaiting:
		w.closes(x, "event "+c.Ref.String(), false)
	case stepmachine.KeepCompensation:
		require.Equal(w.t, len(x.kept)+x.broken+1, c.Seq)
		if c.Error != nil {
			x.broken++
			return
		}
		x.kept = append(x.kept, c.Seq)
	case stepmachine.Compensate:
		if c.Attempt == 1 {
			x.undone = append(x.undone, c.Seq)
		}
	case stepmachine.Finish:
		x.finished = true
		w.ends(x, c)
	}
}

// asks notes an approval, or a wait for events: each is open once at a time.
func (w *watch) asks(x *execution, key string) {
	require.False(w.t, x.asks[key], "seed %d: %s is open already", w.seed, key)
	x.asks[key] = true
}

// closes takes it back. The answer to one that has expired is still to come.
func (w *watch) closes(x *execution, key string, answered bool) {
	require.True(w.t, x.asks[key], "seed %d: %s is not open", w.seed, key)
	if !answered {
		delete(x.asks, key)
	}
}

// records notes what is written of a step. Its end is taken back only by its next attempt, or by an
// outcome that is not known: those who write the records count on that.
func (w *watch) records(x *execution, c stepmachine.RecordStep) {
	path := stepmachine.Ref{Path: c.Ref.Path, Iteration: c.Ref.Iteration}.String()
	if c.Ended.IsZero() {
		attempt, ended := x.closed[path]
		require.True(w.t, !ended || c.Ref.Attempt > attempt || c.Status == stepmachine.StepUnknown, "seed %d: %s is %s after its end", w.seed, c.Ref, c.Status)
		return
	}
	x.closed[path] = c.Ref.Attempt
}

// within reports whether a step is in the blocks of another one, apart from its catch.
func within(r, outer stepmachine.Ref) bool {
	below, ok := strings.CutPrefix(r.Path, outer.Path+"/")
	return ok && !strings.HasPrefix(below, "catch/") &&
		(outer.Iteration == "" || r.Iteration == outer.Iteration || strings.HasPrefix(r.Iteration, outer.Iteration+"."))
}

// ends checks an execution that has ended.
func (w *watch) ends(x *execution, c stepmachine.Finish) {
	t := w.t
	require.Empty(t, x.timers, "seed %d: timers run after the end", w.seed)
	require.Empty(t, x.asks, "seed %d: people or events are waited for after the end", w.seed)
	for key := range x.started {
		require.NotEmpty(t, x.ended[key], "seed %d: %s is in flight after the end", w.seed, key)
	}
	if c.Status == stepmachine.StatusCompleted {
		require.Empty(t, x.undone)
		return
	}
	undone := slices.Clone(x.undone)
	slices.Reverse(undone)
	require.Equal(t, x.kept, undone, "seed %d: what is undone", w.seed)
}

// finished compares the whole: a case has ended when its state says so.
func (w *watch) finished(r *simulate.Report) {
	w.t.Helper()
	switch r.State.Status {
	case stepmachine.StatusCompleted, stepmachine.StatusFailed, stepmachine.StatusCancelled:
		require.NotNil(w.t, r.Finish)
	default:
		require.Nil(w.t, r.Finish)
	}
}

// TestCancelAtAnyMoment cancels each case after a random number of events: all that is in
// flight ends, and what completed is undone in reverse order, whatever the moment.
func TestCancelAtAnyMoment(t *testing.T) { //nolint:tparallel // what follows its cases looks at all of them
	t.Parallel()
	var met sync.Map
	t.Run("each case", func(t *testing.T) {
		for _, c := range all(t) {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				events := run(t, &c.Case, simulate.Options{}).Events
				for seed := range uint64(schedules) {
					order := rand.New(rand.NewPCG(seed, 3))
					left := order.IntN(events + 2)
					w, found := watch{t: t, seed: seed, c: &c.Case}, moment("")
					r, err := simulate.Run(t.Context(), &c.Case, simulate.Options{
						Pick: order.IntN, Store: true, Sandbox: sandbox{},
						See: func(id string, e stepmachine.Event, commands []stepmachine.Command) {
							w.see(id, e, commands)
							if _, again := e.(stepmachine.Again); again && id == "exec" {
								found = "" // what goes on now was not cancelled
							}
						},
						Disturb: func(s *stepmachine.State) []stepmachine.Event {
							if left--; left == -1 {
								found = momentOf(s)
								return []stepmachine.Event{stepmachine.CancelRequested{}}
							}
							return nil
						},
					})
					if err != nil { // something happens that the cancelled Map does not wait for
						require.ErrorContains(t, err, "asks nobody")
						continue
					}
					w.finished(r)
					require.True(t, endsAfterCancel(found, r), "seed %d: it was cancelled %s, and is %s", seed, found, r.State.Status)
					met.Store(found, true)
				}
			})
		}
	})
	for _, m := range []moment{whileItRuns, whileItUndoes, inOnFailure} {
		_, was := met.Load(m)
		require.True(t, was, "no case was cancelled %s", m)
	}
}

// moment is when a cancellation finds an execution; "" for one that needs no further look.
type moment string

const (
	whileItRuns   moment = "while it ran"
	whileItUndoes moment = "while it was failing, before on_failure has begun"
	inOnFailure   moment = "while on_failure ran"
)

func momentOf(s *stepmachine.State) moment {
	switch end := s.Ending; {
	case end == nil:
		return whileItRuns
	case end.Phase == "on_failure":
		return inOnFailure
	case end.Status == stepmachine.StatusFailed && end.Phase != "finished":
		return whileItUndoes
	default:
		return ""
	}
}

// endsAfterCancel reports whether the case is where a cancellation at this moment leads. People are still
// asked about calls that undo steps. A cancellation ends what is left of on_failure, but changes nothing of
// an execution that is failing and has not come to it.
func endsAfterCancel(found moment, r *simulate.Report) bool {
	waits := r.State.WaitingFor
	undoes := waits != nil && waits.UndoneBy != ""
	switch end := r.State.Ending; found {
	case whileItRuns:
		return end != nil && end.Status == stepmachine.StatusCancelled && (r.Finish != nil || undoes)
	case inOnFailure:
		return r.Finish != nil && r.Finish.Status == stepmachine.StatusFailed && r.Finish.OnFailureError == nil
	case whileItUndoes:
		return end.Status == stepmachine.StatusFailed && (r.Finish != nil || undoes || waits != nil && strings.HasPrefix(waits.Ref.Path, "/on_failure/"))
	default: // it was ending otherwise, or went on again
		return r.Finish != nil || waits != nil || r.State.Paused
	}
}

// TestPausesAndRepeatsChangeNothing pauses and resumes at random, and lets each answer come
// twice: the same comes of each case.
func TestPausesAndRepeatsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, c := range all(t) {
		// What is taken up again may make a call under the number of an earlier one.
		if slices.ContainsFunc(c.Happens, func(h simulate.Happening) bool { return h.Control != "" || h.Again != nil }) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inOrder := run(t, &c.Case, simulate.Options{})
			for seed := range uint64(schedules / 4) {
				random := rand.New(rand.NewPCG(seed, 4))
				w := watch{t: t, seed: seed, c: &c.Case}
				var last stepmachine.Event
				r := run(t, &c.Case, simulate.Options{
					Store: true,
					See: func(id string, e stepmachine.Event, commands []stepmachine.Command) {
						w.see(id, e, commands)
						if id == "exec" && isAnswer(e) {
							last = e
						}
					},
					Disturb: func(*stepmachine.State) []stepmachine.Event {
						var list []stepmachine.Event
						if random.IntN(3) == 0 {
							list = append(list, stepmachine.PauseRequested{})
						}
						if last != nil {
							list = append(list, last)
							last = nil
						}
						return append(list, stepmachine.ResumeRequested{})
					},
				})
				w.finished(r)
				require.Equal(t, inOrder.State.Status, r.State.Status, "seed %d", seed)
				require.Equal(t, string(inOrder.Output), string(r.Output), "seed %d", seed)
				require.Equal(t, texts(inOrder.Calls, false), texts(r.Calls, false), "seed %d", seed)
			}
		})
	}
}

// isAnswer reports whether the event answers a command: it has no effect when it comes again.
func isAnswer(e stepmachine.Event) bool {
	switch e.(type) {
	case stepmachine.VerbEnded, stepmachine.ModelEnded, stepmachine.MapEnded, stepmachine.Evaluated, stepmachine.TimerFired,
		stepmachine.Decided, stepmachine.EventArrived, stepmachine.CompensationEnded, stepmachine.Continued:
		return true
	default:
		return false
	}
}

// TestTheSameEventsGiveTheSameBytes replays the events of random schedules: the states and the
// commands are the same, whether or not the state was stored in between.
func TestTheSameEventsGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, c := range all(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(5) {
				once := func(store bool) (string, string) {
					order := rand.New(rand.NewPCG(seed, 2))
					var all strings.Builder
					r := run(t, &c.Case, simulate.Options{Pick: order.IntN, Store: store, See: func(id string, e stepmachine.Event, commands []stepmachine.Command) {
						event, err := exactjson.Encode(e)
						require.NoError(t, err)
						fmt.Fprintf(&all, "%s %s %s\n", id, event, written(t, commands))
					}})
					raw, err := r.State.Encode()
					require.NoError(t, err)
					return string(raw), all.String()
				}
				state, said := once(false)
				stateAgain, saidAgain := once(false)
				require.Equal(t, state, stateAgain)
				require.Equal(t, said, saidAgain)
				stored, saidStored := once(true)
				require.Equal(t, state, stored)
				require.Equal(t, said, saidStored)
			}
		})
	}
}
