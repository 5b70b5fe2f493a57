package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/workflows"
)

// mapWorld is all that is outside of the workflow of a Map: it has the row of the execution, and
// the answers to calls. It may be used by several histories of one execution.
type mapWorld struct {
	t *testing.T
	// answers returns how far the call of a verb is, at its nth look.
	answers map[string]func(look int) flow.MapCallEnd
	// news is what others want, from a moment on.
	news func() flow.MapNews
	// events returns what has arrived for waits, when the workflow looks.
	events func() []stepmachine.EventArrived
	// places returns how far the events are read now, by the path of the step that waits.
	places func() map[string]string
	// signals returns those after a number, and the number of the last one.
	signals func(after int64) ([]stepmachine.Signalled, int64)
	// short: the activities of calls leave their records to later ones where they may.
	short bool
	// faults is how often each activity fails before it succeeds.
	faults int
	// length is what the history's length is said to be at its beginning, grown what it is said to be
	// from the next answer of an activity on. 0 says nothing.
	length int
	grown  atomic.Int64
	// stopped: a call was asked to end early.
	stopped atomic.Bool

	def *mapdef.Definition
	// again is what a retry goes on with, state the state before.
	again *stepmachine.Again
	state flow.MachineState

	mu     sync.Mutex
	failed map[string]int
	looks  map[string]int
	calls  []string // verbs whose calls have ended, in that order
	// tainted has of each call whether a model had read what others wrote.
	tainted []bool
	// timeLeft is how much time each call was given.
	timeLeft []time.Duration
	ended    map[string]time.Duration
	steps    map[string]stepmachine.RecordStep
	shown    []stepmachine.Status
	// waitedFor is what was waited for where that was shown.
	waitedFor []*stepmachine.WaitsFor
	finish    *stepmachine.Finish
	finished  flow.MapFinish // that of finish
	tells     int            // how often others were told of a wait
	looked    []flow.MapLook
	writes    int
	seqs      []int // of the writes
	numbers   []int // of their records
	// runs are the runs that the records name, by the path of the step.
	runs    map[string]uuid.UUID
	stops   int      // of other Maps
	waits   []string // the steps that have rows of waits for events
	endedAt []string // those of them that the last look had nothing read for
	began   time.Time
	env     *testsuite.TestWorkflowEnvironment
}

func newMapWorld(t *testing.T, steps string) *mapWorld {
	t.Helper()
	def, faults := mapdef.Read([]byte(`{"schema_version":"1","name":"Test","steps":` + steps + `}`))
	require.Empty(t, faults)
	return &mapWorld{
		t: t, def: def, answers: map[string]func(int) flow.MapCallEnd{}, failed: map[string]int{}, looks: map[string]int{},
		ended: map[string]time.Duration{}, steps: map[string]stepmachine.RecordStep{}, runs: map[string]uuid.UUID{},
	}
}

// executed is the end of a call that had its effect.
func executed(result string) flow.MapCallEnd {
	return flow.MapCallEnd{Step: flow.Step{Done: true}, End: stepmachine.CallEnd{
		Status: stepmachine.CallExecuted, Sent: true, Wrote: true, Result: stepmachine.Of(json.RawMessage(result)),
	}}
}

// fault fails an activity by a fault of ours as often as the world says.
func (w *mapWorld) fault(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed[name] < w.faults {
		w.failed[name]++
		return temporal.NewApplicationError("step failed: INTERNAL_ERROR", "INTERNAL_ERROR")
	}
	return nil
}

func (w *mapWorld) look(verb string, ref stepmachine.Ref) flow.MapCallEnd {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := w.answers[verb]
	if answer == nil {
		answer = func(int) flow.MapCallEnd { return executed(`{}`) }
	}
	w.looks[verb]++
	at := answer(w.looks[verb])
	if at.Step.Done {
		w.calls = append(w.calls, verb)
		w.ended[verb] = w.env.Now().Sub(w.began)
	}
	at.End.Ref = ref
	at.Run.RunID = uuid.NewSHA1(uuid.Nil, []byte(verb))
	return at
}

func (w *mapWorld) write(in flow.MapWrites) flow.MapNews {
	w.mu.Lock()
	w.writes++
	w.seqs = append(w.seqs, in.Seq)
	for i, command := range in.Commands {
		w.numbers = append(w.numbers, in.Number(i))
		if c, ok := command.(stepmachine.RecordStep); ok {
			path := stepmachine.Ref{Path: c.Ref.Path, Iteration: c.Ref.Iteration}.String()
			w.steps[path] = c
			if run := in.Run(i); run != uuid.Nil {
				w.runs[path] = run
			}
		}
	}
	for _, command := range in.Waits {
		switch c := command.(type) {
		case stepmachine.AwaitEvent:
			w.waits = append(w.waits, c.Ref.Path)
		case stepmachine.StopAwaiting:
			w.waits = slices.DeleteFunc(w.waits, func(path string) bool { return path == c.Ref.Path })
		}
	}
	if in.Show != nil {
		w.shown, w.waitedFor = append(w.shown, in.Show.Status), append(w.waitedFor, in.Show.WaitingFor)
		if !in.Show.Tell.IsZero() {
			w.tells++
		}
	}
	w.mu.Unlock()
	if w.news != nil {
		return w.news()
	}
	return flow.MapNews{}
}

// register has one history of the execution meet the world.
func (w *mapWorld) register(env *testsuite.TestWorkflowEnvironment) {
	verbs := map[uuid.UUID]string{}
	local := func(name string, f any) { env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	local(string(flow.BeginMap), func(context.Context, flow.MapRef) (flow.MapBegun, error) {
		return flow.MapBegun{
			Definition: w.def.Source(), State: w.state, Again: w.again,
			Beginning: stepmachine.Beginning{Execution: "exec_1", TriggerData: stepmachine.Of(json.RawMessage(`{}`))},
		}, w.fault("begin")
	})
	local(string(flow.CallFromMap), func(_ context.Context, in flow.MapCall) (flow.MapCallEnd, error) {
		if err := w.fault(in.Call.Verb); err != nil {
			return flow.MapCallEnd{}, err
		}
		later := w.short && in.Later
		if !later {
			w.write(in.MapWrites)
		}
		at := w.look(in.Call.Verb, in.Call.Ref)
		at.Unwritten = later
		w.mu.Lock()
		w.timeLeft = append(w.timeLeft, in.Call.Deadline.Sub(w.env.Now()))
		w.tainted = append(w.tainted, in.Tainted)
		verbs[at.Run.RunID] = in.Call.Verb
		w.mu.Unlock()
		return at, nil
	})
	goOn := func(stops bool) func(context.Context, flow.MapCallRef) (flow.MapCallEnd, error) {
		return func(_ context.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
			w.stopped.CompareAndSwap(false, stops)
			w.mu.Lock()
			verb := verbs[in.Run.RunID]
			w.mu.Unlock()
			at := w.look(verb, in.Ref)
			at.HandedOver = in.HandOver || in.Look
			return at, nil
		}
	}
	local(string(flow.GoOnWithCall), goOn(false))
	local(string(flow.StopCallOfMap), goOn(true))
	local(string(flow.WriteMap), func(_ context.Context, in flow.MapWrites) (flow.MapNews, error) {
		if err := w.fault("write"); err != nil {
			return flow.MapNews{}, err
		}
		return w.write(in), nil
	})
	local(string(flow.LookAtMap), func(_ context.Context, in flow.MapLook) (flow.MapNews, error) {
		news := w.write(in.MapWrites)
		if w.signals != nil {
			news.Signals, news.Looked = w.signals(in.After)
		}
		in.Places = maps.Clone(in.Places) // the workflow goes on with its own
		w.endedAt, w.looked = in.Ended, append(w.looked, in)
		if w.places != nil {
			news.Places = w.places()
		}
		if w.events != nil {
			news.Arrived = w.events()
		}
		return news, nil
	})
	local(string(flow.FinishMap), func(_ context.Context, in flow.MapFinish) (flow.MapResult, error) {
		w.write(in.MapWrites)
		w.finish, w.finished = &in.Finish, in
		return flow.MapResult{Status: in.Finish.Status}, nil
	})
}

// environment is that of the next history of the execution.
func (w *mapWorld) environment() *testsuite.TestWorkflowEnvironment {
	w.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	// A worker gives up a task that computes for a second. A busy machine takes longer with the race
	// detector.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	env.RegisterWorkflowWithOptions(workflows.MapRun, workflow.RegisterOptions{Name: flow.WorkflowMapRun})
	w.env = env
	// An activity runs beside the workflow and may not set what that reads. This is called between
	// the workflow's tasks.
	env.SetOnLocalActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) {
		if n := w.grown.Swap(0); n > 0 {
			env.SetCurrentHistoryLength(int(n))
		}
	})
	if w.began.IsZero() {
		w.began = env.Now()
	} else {
		env.SetStartTime(w.began.Add(time.Hour))
	}
	w.register(env)
	return env
}

// history runs one history of the execution and returns the input of the next; nil at the end.
func (w *mapWorld) history(in flow.MapInput, before func(*testsuite.TestWorkflowEnvironment)) *flow.MapInput {
	w.t.Helper()
	env := w.environment()
	if w.length > 0 {
		env.SetCurrentHistoryLength(w.length)
	}
	if before != nil {
		before(env)
	}
	env.ExecuteWorkflow(flow.WorkflowMapRun, in)
	require.True(w.t, env.IsWorkflowCompleted())
	err := env.GetWorkflowError()
	again, continued := errors.AsType[*workflow.ContinueAsNewError](err)
	if !continued {
		require.NoError(w.t, err)
		return nil
	}
	next := &flow.MapInput{}
	require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(again.Input, next))
	return next
}

func (w *mapWorld) run(before func(*testsuite.TestWorkflowEnvironment)) {
	w.t.Helper()
	require.Nil(w.t, w.history(flow.MapInput{MapRef: flow.MapRef{ID: uuid.Must(uuid.NewV7())}}, before))
	require.NotNil(w.t, w.finish)
}

func (w *mapWorld) passed() time.Duration { return w.env.Now().Sub(w.began) }

func TestMapRunWaitsThirtyDays(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","for":"30d"},{"id":"a","type":"verb","verb":"shop:ship","args":{}}]`)
	w.run(nil)
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.GreaterOrEqual(t, w.ended["shop:ship"], 30*24*time.Hour)
	require.Equal(t, stepmachine.StatusWaiting, w.shown[0])
	require.LessOrEqual(t, w.writes, 4, "a wait is shown once, and its end goes with the claim of the call after it")
}

// A task that was lost may have written records that its repeat does not make. The repeat comes later,
// so its records have higher numbers, and count.
func TestMapRunNumbersItsRecordsByTime(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"a","type":"verb","verb":"shop:ship","args":{}},{"id":"w","type":"wait","for":"1h"},{"id":"b","type":"verb","verb":"shop:ship","args":{}}]`)
	w.run(nil)
	require.IsIncreasing(t, slices.Compact(w.seqs))
	require.Less(t, w.seqs[1], 100)
	require.GreaterOrEqual(t, w.seqs[len(w.seqs)-1], 60*60*100)
}

// Each history counts from the trigger, so none has numbers that another one has had before.
func TestMapRunNumbersItsRecordsFromItsTrigger(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"a","type":"verb","verb":"shop:ship","args":{}},{"id":"w","type":"wait","for":"1h"},{"id":"b","type":"verb","verb":"shop:ship","args":{}}]`)
	w.began = time.Now() // the history begins an hour later
	require.Nil(t, w.history(flow.MapInput{MapRef: flow.MapRef{ID: uuid.Must(uuid.NewV7())}}, nil))
	require.GreaterOrEqual(t, w.seqs[0], 60*60*100-1)
	require.GreaterOrEqual(t, w.seqs[len(w.seqs)-1], 2*60*60*100-1)
}

// A call that lasts keeps no task: other branches go on beside it.
func TestMapRunWritesInTimeBesideACallThatLasts(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"both","type":"parallel","branches":[
		{"id":"slow","steps":[{"id":"s","type":"verb","verb":"shop:export","args":{}}]},
		{"id":"quick","steps":[{"id":"w","type":"wait","for":"1s"},{"id":"q","type":"verb","verb":"shop:ship","args":{}}]}]}]`)
	w.answers["shop:export"] = func(look int) flow.MapCallEnd {
		if look < 5 {
			return flow.MapCallEnd{Step: flow.Step{State: "sending", After: 10 * time.Second, UnderWay: true}}
		}
		return executed(`{"url":"u"}`)
	}
	w.run(nil)
	require.Equal(t, []string{"shop:ship", "shop:export"}, w.calls)
	require.Less(t, w.ended["shop:ship"], 2*time.Second)
	require.GreaterOrEqual(t, w.ended["shop:export"], 40*time.Second)
	require.JSONEq(t, `{"slow":{"url":"u"},"quick":{}}`, string(w.finish.Output.JSON))
}

// The end of a call is signalled, so that the Map does not wait until it looks again.
func TestMapRunIsToldOfTheEndOfItsCall(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"s","type":"verb","verb":"shop:export","args":{}}]`)
	w.answers["shop:export"] = func(look int) flow.MapCallEnd {
		if look == 1 {
			return flow.MapCallEnd{Step: flow.Step{State: "sending", After: time.Hour, UnderWay: true}}
		}
		return executed(`{}`)
	}
	w.run(func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRunEnded, nil) }, 20*time.Second)
	})
	require.Less(t, w.ended["shop:export"], time.Minute)
}

func TestMapRunIsCancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[
		{"id":"stock","type":"verb","verb":"shop:reserve","args":{},"compensate":{"verb":"shop:release","args":{}}},
		{"id":"w","type":"wait","for":"30d"},{"id":"a","type":"verb","verb":"shop:ship","args":{}}]`)
	w.news = func() flow.MapNews { return flow.MapNews{Cancel: w.passed() >= time.Hour} }
	w.run(func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRecheck, nil) }, time.Hour)
	})
	require.Equal(t, stepmachine.StatusCancelled, w.finish.Status)
	require.Equal(t, 1, w.finish.Compensated)
	require.Len(t, w.calls, 2, "the call and the one that undoes it")
	require.Less(t, w.passed(), 2*time.Hour)
	require.Equal(t, stepmachine.StepCancelled, w.steps["/steps/1"].Status)
}

// The workflow task that ended the execution was repeated, because a signal came at that moment. Its
// rows say that it has ended.
func TestMapRunWhoseRowsHaveEndedEnds(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","for":"30d"}]`)
	w.news = func() flow.MapNews { return flow.MapNews{Over: w.passed() >= time.Hour} }
	next := w.history(flow.MapInput{}, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRecheck, nil) }, time.Hour)
	})
	require.Nil(t, next)
	require.Nil(t, w.finish, "nothing is ended twice")
	require.Less(t, w.passed(), 2*time.Hour)
}

// An operator cancels in the Temporal UI.
func TestMapRunThatTemporalCancelsEndsCancelled(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","for":"30d"}]`)
	w.run(func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
	})
	require.Equal(t, stepmachine.StatusCancelled, w.finish.Status)
}

func TestMapRunIsPausedBeforeTheNextStep(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"w","type":"wait","for":"1m"},{"id":"a","type":"verb","verb":"shop:ship","args":{}}]`)
	w.news = func() flow.MapNews {
		return flow.MapNews{Pause: w.passed() >= 30*time.Second && w.passed() < time.Hour}
	}
	w.run(func(env *testsuite.TestWorkflowEnvironment) {
		for _, at := range []time.Duration{30 * time.Second, time.Hour} {
			env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRecheck, nil) }, at)
		}
	})
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.GreaterOrEqual(t, w.ended["shop:ship"], time.Hour)
	require.Contains(t, w.shown, stepmachine.StatusPaused)
}

// Every activity fails twice and more by a fault of ours. The trace is that of a run without.
func TestMapRunRetriesFaults(t *testing.T) {
	t.Parallel()
	const steps = `[{"id":"l","type":"foreach","items":[1,2,3],"steps":[{"id":"a","type":"verb","verb":"shop:ship","args":{"n":"${item}"}}]},
		{"id":"w","type":"wait","for":"1h"},{"id":"b","type":"transform","expr":"${steps.l.output | length}"}]`
	plain, faulty := newMapWorld(t, steps), newMapWorld(t, steps)
	faulty.faults = 5
	plain.run(nil)
	faulty.run(nil)
	require.Equal(t, plain.calls, faulty.calls)
	require.Equal(t, statuses(plain), statuses(faulty))
	require.Equal(t, plain.finish, faulty.finish)
}

func statuses(w *mapWorld) map[string]stepmachine.StepStatus {
	out := map[string]stepmachine.StepStatus{}
	for path, step := range w.steps {
		out[path] = step.Status
	}
	return out
}

// A history that is long goes on in a new one: with the timers, and with the calls that wait.
func TestMapRunContinuesInANewHistory(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"both","type":"parallel","branches":[
		{"id":"slow","steps":[{"id":"s","type":"verb","verb":"shop:export","args":{}}]},
		{"id":"loop","steps":[{"id":"l","type":"foreach","items":["a","b"],"steps":[
			{"id":"w","type":"wait","for":"2h"},{"id":"q","type":"verb","verb":"shop:ship","args":{"n":"${item}"}}]}]}]},
		{"id":"out","type":"transform","expr":"${steps.both.output.slow.url}"}]`)
	w.length = 20_000
	w.answers["shop:export"] = func(look int) flow.MapCallEnd {
		if w.passed() < 90*time.Minute {
			return flow.MapCallEnd{Step: flow.Step{State: "sending", After: 30 * time.Minute, UnderWay: true}}
		}
		return executed(`{"url":"u"}`)
	}
	next := w.history(flow.MapInput{}, nil)
	require.NotNil(t, next)
	require.NotNil(t, next.Carried)
	require.Nil(t, w.finish)
	open := []string{}
	for _, c := range next.Carried.Open {
		open = append(open, c.Name())
	}
	slices.Sort(open)
	require.Equal(t, []string{"start_timer", "start_verb"}, open)
	// An hour passes between the two.
	w.length = 0
	require.Nil(t, w.history(*next, nil))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.JSONEq(t, `"u"`, string(w.finish.Output.JSON))
	require.Equal(t, []string{"shop:export", "shop:ship", "shop:ship"}, w.calls)
	require.InDelta(t, (4 * time.Hour).Seconds(), w.ended["shop:ship"].Seconds(), 60, "the wait counts from its beginning")
	require.Equal(t, stepmachine.StepCompleted, w.steps["/steps/0/branches/1/steps/0/steps/1@1"].Status)
}

// A loop that always has calls under way comes to a new history too: those under way end, and those
// that would follow are made there. What is stopped meanwhile is never made.
func TestMapRunInALoopOfManyCallsContinuesInANewHistory(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]bool{"all go well": false, "one fails and stops the others": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMapWorld(t, `[{"id":"l","type":"foreach","items":[0`+strings.Repeat(",0", 59)+`],"mode":"parallel","concurrency":7,"steps":[
				{"id":"q","type":"verb","verb":"shop:ship","args":{"n":"${item}"}}]}]`)
			w.answers["shop:ship"] = func(look int) flow.MapCallEnd {
				if look == 20 {
					w.grown.Store(20_000)
				}
				end := executed(`{}`)
				if fail && look == 22 {
					end.End.Status, end.End.Error = stepmachine.CallFailed, stepmachine.NewError("PROVIDER_REJECTED", "no")
				}
				return end
			}
			next, histories := &flow.MapInput{}, 0
			for ; next != nil; histories++ {
				next = w.history(*next, nil)
			}
			if fail {
				require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
				require.Less(t, len(w.calls), 60, "it stops before all")
				return
			}
			require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
			require.Equal(t, 2, histories)
			require.Len(t, w.calls, 60, "each call was made once")
		})
	}
}

// What was wanted while the new history began is not lost.
func TestMapRunInANewHistoryLooksWhatIsWanted(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"s","type":"verb","verb":"shop:export","args":{}}]`)
	w.answers["shop:export"] = func(int) flow.MapCallEnd {
		if !w.stopped.Load() {
			return flow.MapCallEnd{Step: flow.Step{State: "claimed", After: time.Hour}}
		}
		return flow.MapCallEnd{Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Status: stepmachine.CallCancelled}}
	}
	w.length = 20_000
	next := w.history(flow.MapInput{}, nil)
	require.NotNil(t, next)
	w.length = 0
	w.news = func() flow.MapNews { return flow.MapNews{Cancel: true} }
	require.Nil(t, w.history(*next, nil))
	require.Equal(t, stepmachine.StatusCancelled, w.finish.Status)
}

// Rows say for ever that an execution was to be cancelled, or to pause. That keeps it neither from
// undoing what it did nor from continuing in a new history.
func TestMapRunThatUndoesContinuesInANewHistory(t *testing.T) {
	t.Parallel()
	for name, wanted := range map[string]flow.MapNews{"cancelled": {Cancel: true}, "cancelled while it was paused": {Cancel: true, Pause: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMapWorld(t, `[
				{"id":"a","type":"verb","verb":"shop:reserve","args":{},"compensate":{"verb":"shop:release","args":{}}},
				{"id":"b","type":"verb","verb":"shop:charge","args":{},"compensate":{"verb":"shop:refund","args":{}}},
				{"id":"c","type":"verb","verb":"shop:ship","args":{},"compensate":{"verb":"shop:recall","args":{}}},
				{"id":"w","type":"wait","for":"1h"}]`)
			w.news = func() flow.MapNews {
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.calls) < 3 {
					return flow.MapNews{}
				}
				return wanted
			}
			w.answers[""] = func(int) flow.MapCallEnd { // the calls that undo
				w.grown.Store(20_000)
				return executed(`{}`)
			}
			next := w.history(flow.MapInput{}, nil)
			require.NotNil(t, next)
			require.Equal(t, []string{"shop:reserve", "shop:charge", "shop:ship", "", ""}, w.calls)
			before := w.writes
			for histories := 0; next != nil; histories++ {
				require.Less(t, histories, 3)
				next = w.history(*next, nil)
			}
			require.Equal(t, stepmachine.StatusCancelled, w.finish.Status)
			require.Equal(t, 3, w.finish.Compensated)
			require.Less(t, w.writes-before, 10)
		})
	}
}
