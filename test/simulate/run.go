package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// Options say how a case is run.
type Options struct {
	// Pick chooses which of n answers arrives next; nil takes them in their order.
	Pick func(n int) int
	// Sandbox evaluates what the machine does not.
	Sandbox expression.Sandbox
	// Store stores and reads the state between any two events.
	Store bool
	// Disturb returns events that come in between, for the execution of the case, whose state it is shown;
	// nil for none.
	Disturb func(*stepmachine.State) []stepmachine.Event
	// Began is told of the state of the case when it has begun; nil for nobody.
	Began func(*stepmachine.State)
	// See is told of each event and its commands; nil for nobody.
	See func(execution string, e stepmachine.Event, commands []stepmachine.Command)
}

// Report is what came of a case.
type Report struct {
	State   *stepmachine.State
	Finish  *stepmachine.Finish // nil where the Map still waits
	Output  json.RawMessage     // of Finish, with what was stored
	Calls   []Call
	Changes []Change
	Skipped []string
	Trace   []string
	// Events is how many events the machine got.
	Events int
}

// epoch is when the Map is triggered.
func epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// mostEvents bounds a case, so that none runs for ever.
const mostEvents = 1_000_000

// Run runs a case to its end, or until it waits for something that does not happen. The error
// says what the case does not answer.
func Run(ctx context.Context, c *Case, opts Options) (*Report, error) {
	p, err := compile(c.Map)
	if err != nil {
		return nil, err
	}
	w := &world{
		ctx: ctx, c: c, opts: opts, now: epoch(), happens: c.Happens, taken: make([]int, len(c.Answers)), report: &Report{},
	}
	if w.opts.Pick == nil {
		w.opts.Pick = func(int) int { return 0 }
	}
	w.root = w.start("exec", p, stepmachine.Of(c.Trigger.Payload), c.Trigger.DryRun) //nolint:contextcheck // the machine does no I/O
	if opts.Began != nil {
		opts.Began(w.root.state)
	}
	if err := w.run(); err != nil { //nolint:contextcheck // the machine does no I/O
		return w.report, err
	}
	w.report.State = w.root.state
	if f := w.root.finish; f != nil {
		w.report.Finish = f
		w.report.Output, err = f.Output.Resolve(w.root.load)
	}
	return w.report, err
}

// world is all that is outside of the machine.
type world struct {
	ctx     context.Context //nolint:containedctx // lives as long as the call that passes it
	c       *Case
	opts    Options
	now     time.Time
	root    *execution
	all     []*execution
	arrives []arrival // what can arrive now
	timers  []arrival
	happens []Happening
	came    []stepmachine.EventArrived // events so far
	about   []*Outside                 // and what they were made of
	taken   []int                      // how many calls each answer has answered
	report  *Report
	failed  error
}

// execution is one run of a Map.
type execution struct {
	// made are the calls of verbs that were executed.
	made      map[stepmachine.Ref]madeCall
	w         *world
	id        string
	program   *stepmachine.Program
	state     *stepmachine.State
	parent    *execution
	ref       stepmachine.Ref // in the parent
	finish    *stepmachine.Finish
	stored    map[string]stepmachine.Value
	iterated  map[string][]stepmachine.Value
	arrays    map[string][]json.RawMessage // stored ones, decoded
	kept      map[int]stepmachine.KeepCompensation
	approvals map[string]stepmachine.Ref // by id of the step
	unknown   map[string]stepmachine.Ref
	waiting   map[string]waitingCall // by verb
	awaited   []stepmachine.AwaitEvent
}

// waitingCall is a call that undoes a step and waits, with how it ends afterwards.
type waitingCall struct {
	call Call
	end  stepmachine.CompensationEnded
}

// arrival is an event on its way.
type arrival struct {
	x  *execution
	e  stepmachine.Event
	at time.Time
}

func (w *world) start(id string, p *stepmachine.Program, payload stepmachine.Value, dryRun bool) *execution {
	x := &execution{
		w: w, id: id, program: p, stored: map[string]stepmachine.Value{}, iterated: map[string][]stepmachine.Value{},
		arrays: map[string][]json.RawMessage{}, made: map[stepmachine.Ref]madeCall{},
		kept: map[int]stepmachine.KeepCompensation{}, approvals: map[string]stepmachine.Ref{}, unknown: map[string]stepmachine.Ref{},
		waiting: map[string]waitingCall{},
	}
	w.all = append(w.all, x)
	state, commands := stepmachine.Start(p, w.now, stepmachine.Beginning{
		Execution: id, TriggerData: payload, Context: stepmachine.Of(json.RawMessage(`{"execution_id":"` + id + `"}`)), DryRun: dryRun,
	})
	x.state = state
	w.see(x, nil, commands)
	x.obey(commands)
	return x
}

// run delivers what arrives, then what happens, and then lets time pass.
func (w *world) run() error {
	for w.failed == nil {
		if w.report.Events > mostEvents {
			return fmt.Errorf("simulate: more than %d events", mostEvents)
		}
		if w.opts.Disturb != nil {
			for _, e := range w.opts.Disturb(w.root.state) {
				w.root.next(e)
			}
		}
		if n := len(w.arrives); n > 0 {
			i := w.opts.Pick(n)
			a := w.arrives[i]
			w.arrives = slices.Delete(w.arrives, i, i+1)
			a.x.next(a.e)
			continue
		}
		if len(w.happens) > 0 && !epoch().Add(w.happens[0].After.Std()).After(w.now) {
			h := w.happens[0]
			w.happens = w.happens[1:]
			w.happen(h)
			continue
		}
		if !w.pass() {
			break
		}
	}
	return w.failed
}

// pass lets time pass until the next timer or happening, and reports whether there is one.
func (w *world) pass() bool {
	first := -1
	for i, t := range w.timers {
		if first < 0 || t.at.Before(w.timers[first].at) {
			first = i
		}
	}
	var at time.Time
	if len(w.happens) > 0 {
		at = epoch().Add(w.happens[0].After.Std())
	}
	switch {
	case first >= 0 && (at.IsZero() || w.timers[first].at.Before(at)):
		t := w.timers[first]
		w.timers = slices.Delete(w.timers, first, first+1)
		w.now = t.at
		t.x.next(t.e)
	case !at.IsZero():
		w.now = at
	default:
		return false
	}
	return true
}

func (w *world) fail(format string, args ...any) {
	if w.failed == nil {
		w.failed = fmt.Errorf("simulate: "+format, args...)
	}
}

// next gives the machine one event.
func (x *execution) next(e stepmachine.Event) {
	w := x.w
	w.report.Events++
	if w.opts.Store {
		raw, err := x.state.Encode()
		if err != nil {
			w.fail("%v", err)
			return
		}
		if x.state, err = stepmachine.Decode(raw); err != nil {
			w.fail("%v", err)
			return
		}
	}
	state, commands, err := stepmachine.Next(x.program, x.state, w.now, e)
	if err != nil {
		w.fail("%v", err)
		return
	}
	x.state = state
	w.see(x, e, commands)
	x.obey(commands)
}

func (w *world) see(x *execution, e stepmachine.Event, commands []stepmachine.Command) {
	w.report.Trace = append(w.report.Trace, lines(x, e, commands)...)
	if w.opts.See != nil {
		w.opts.See(x.id, e, commands)
	}
}

// arrive puts an answer on its way.
func (x *execution) arrive(e stepmachine.Event) {
	x.w.arrives = append(x.w.arrives, arrival{x: x, e: e})
}

// load returns a stored value.
func (x *execution) load(s stepmachine.Stored) (json.RawMessage, error) {
	if item, ok := x.item(s); ok {
		return item, nil
	}
	var raw json.RawMessage
	var err error
	if outputs, ok := x.iterated[s.ID]; ok {
		raw, err = array(outputs, x.load)
	} else {
		raw, err = x.stored[s.ID].Resolve(x.load)
	}
	if err != nil || s.At == "" {
		return raw, err
	}
	return at(raw, s.At)
}

// item returns an item of a stored array, which is decoded once.
func (x *execution) item(s stepmachine.Stored) (json.RawMessage, bool) {
	i, err := strconv.Atoi(strings.TrimPrefix(s.At, "/"))
	if _, iterated := x.iterated[s.ID]; err != nil || iterated {
		return nil, false
	}
	items, ok := x.arrays[s.ID]
	if !ok {
		raw, err := x.stored[s.ID].Resolve(x.load)
		if err != nil || json.Unmarshal(raw, &items) != nil {
			return nil, false
		}
		x.arrays[s.ID] = items
	}
	if i >= len(items) {
		return nil, false
	}
	return items[i], true
}

func array(values []stepmachine.Value, load func(stepmachine.Stored) (json.RawMessage, error)) (json.RawMessage, error) {
	list := make([]json.RawMessage, 0, len(values))
	for _, v := range values {
		raw, err := v.Resolve(load)
		if err != nil {
			return nil, err
		}
		list = append(list, raw)
	}
	return exactjson.Encode(list)
}

// executionID is the output of a Map that is started without waiting for it.
func executionID(id string) stepmachine.Value {
	return stepmachine.Of(json.RawMessage(`{"execution_id":"` + id + `"}`))
}

// stepID returns the id of the step at a path.
func (x *execution) stepID(path string) string {
	id := ""
	find := func(s *mapdef.Step) {
		if s.Pointer == path {
			id = s.ID
		}
	}
	mapdef.Walk(x.program.Definition().Steps, find)
	mapdef.Walk(x.program.Definition().OnFailure, find)
	return id
}
