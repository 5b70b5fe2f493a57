package stepmachine

import (
	"fmt"
	"slices"
	"time"

	"agentruntime/internal/maps/mapdef"
)

// maxBegun is how many steps one event may begin before the machine asks for Continued.
const maxBegun = 500

// Beginning is what an execution begins with.
type Beginning struct {
	// Execution is the id of the execution. Ids and jitter are derived from it.
	Execution   string
	TriggerData Value
	Context     Value
	DryRun      bool // also where the definition does not say so
}

// Start makes the state of a new execution, and returns it with the first commands. It never
// fails: what is wrong with the Map ends the execution.
//
// Workflows call Start and Next. The checker of workflows distrusts the reading of JSON in
// them; a test compares the bytes of repeated runs instead.
//
//workflowcheck:ignore
func Start(p *Program, now time.Time, b Beginning) (*State, []Command) {
	now = clean(now)
	s := &State{
		Version: Version, Execution: b.Execution, DryRun: b.DryRun || p.def.DryRun, Began: now,
		TriggerData: b.TriggerData, Context: b.Context,
		Root: &Task{Phase: phaseInside, Began: now},
	}
	s.link()
	m := &machine{p: p, s: s, now: now, left: mostHere}
	s.TriggerData = m.fit(b.TriggerData, "trigger_data")
	s.Context = m.fit(b.Context, "context")
	m.beginMap()
	m.settle()
	return s, m.commands
}

// Next returns the state after an event, and what the caller has to do. It takes the state
// over: the caller goes on with the one that it returns. An event that nothing waits for
// changes nothing. The error is a *VersionError; a state of another version goes to the
// machine of that version.
//
//workflowcheck:ignore
func Next(p *Program, s *State, now time.Time, e Event) (*State, []Command, error) {
	if s.Version != Version {
		return s, nil, &VersionError{State: s.Version, Machine: Version}
	}
	m := &machine{p: p, s: s, now: clean(now), left: mostHere}
	if s.Ending != nil && s.Ending.Phase == endFinished {
		m.afterwards(e)
	} else {
		m.handle(e)
	}
	m.settle()
	return s, m.commands, nil
}

// clean returns a time as it is after it was stored.
func clean(t time.Time) time.Time { return t.UTC().Round(0) }

// machine is the work on one event.
type machine struct {
	p        *Program
	s        *State
	now      time.Time
	commands []Command
	begun    int // steps
	left     int // of mostHere
}

// do adds a command, and counts what the caller has to keep for it.
func (m *machine) do(c Command) {
	switch c := c.(type) {
	case RecordStep:
		m.keeps(c.Input)
		m.keeps(c.Output)
	case StoreValue:
		m.keeps(&c.Value)
	case StoreIteration:
		m.keeps(&c.Output)
	case KeepCompensation:
		m.keeps(&c.Args)
	case RecordChange:
		m.keeps(&c.Args)
	}
	m.commands = append(m.commands, c)
}

// MaxKept is how many bytes of values an execution may have the caller keep: 256 MiB. A loop can
// make as many large values as it has items, and they are kept for as long as the execution is.
const MaxKept = 256 << 20

// keeps counts a value that the caller keeps; nil is none.
func (m *machine) keeps(v *Value) {
	if v != nil {
		m.s.Kept += int64(v.size())
	}
}

// handle passes the event to the task that waits for it.
func (m *machine) handle(e Event) {
	switch e := e.(type) {
	case VerbEnded:
		m.callEnded(e.CallEnd)
	case ModelEnded:
		m.callEnded(e.CallEnd)
	case MapEnded:
		m.callEnded(e.CallEnd)
	case CallWaits:
		m.callWaits(e)
	case CallGoesOn:
		m.callGoesOn(e)
	case Resolved:
		m.resolved(e.CallEnd)
	case Evaluated:
		m.wasEvaluated(e)
	case TimerFired:
		m.timerFired(e)
	case Decided:
		m.decided(e)
	case EventArrived:
		m.eventArrived(e)
	case Signalled:
		m.signalled(e)
	case CancelRequested:
		m.cancel()
	case PauseRequested:
		m.s.Paused = m.s.Ending == nil
	case ResumeRequested:
		m.s.Paused = false
	case CompensationEnded:
		m.compensationEnded(e)
	case CompensationWaits:
		m.compensationWaits(e)
	case CompensationGoesOn:
		m.compensationGoesOn(e)
	case StateTooLarge:
		if m.s.Ending == nil {
			m.failMap(NewError(mapdef.CodeStorageLimit, "the steps under way and the results of those before them take more than 1.8 MiB: let fewer iterations run at a time"))
		}
	case Continued, Again:
	}
}

// settle goes on until all blocks wait, the end included.
func (m *machine) settle() {
	for m.goOn() || m.end() {
		continue
	}
	m.show()
}

// goOn begins the next step of the first block that is ready, and reports whether there was
// one.
func (m *machine) goOn() bool {
	if m.s.Paused || len(m.s.Ready) == 0 {
		return false
	}
	if m.begun >= maxBegun {
		m.do(Continue{})
		m.begun = -1
	}
	if m.begun < 0 {
		return false
	}
	b := m.s.blocks[m.s.Ready[0]]
	m.s.Ready = m.s.Ready[1:]
	if len(m.s.Ready) == 0 {
		m.s.Ready = nil
	}
	if b == nil || b.Task != nil || b.Ended || b.givenUp() {
		return true
	}
	steps := m.p.lists[b.Path]
	switch {
	case b.Pos < len(steps):
		m.begun++
		m.beginStep(b, &steps[b.Pos])
	case len(steps) == 0:
		m.begun++
		m.beginNothing(b)
	default:
		m.endBlock(b)
	}
	return true
}

// beginNothing ends a block without steps. Each such block counts like a step: loops can have millions of
// them, and would come to no end.
func (m *machine) beginNothing(b *Block) {
	if m.mayCount(b.Path) {
		m.endBlock(b)
	}
}

func (m *machine) endBlock(b *Block) {
	b.Ended = true
	m.blockEnded(b.owner, b)
}

// ready puts a block into the queue.
func (m *machine) ready(b *Block) { m.s.Ready = append(m.s.Ready, b.Key) }

// open adds a block to a task, and puts it into the queue.
func (m *machine) open(t *Task, b *Block) {
	b.owner = t
	t.Blocks = append(t.Blocks, b)
	m.s.blocks[b.Key] = b
	m.redo(b)
	m.ready(b)
}

// close takes a block that has ended from its task.
func (m *machine) close(b *Block) {
	delete(m.s.blocks, b.Key)
	t := b.owner
	t.Blocks = slices.DeleteFunc(t.Blocks, func(other *Block) bool { return other == b })
	if len(t.Blocks) == 0 {
		t.Blocks = nil
	}
}

// task returns the task that the reference names, if it is in the phase and, unless the
// reference has none, in the attempt; nil otherwise.
func (m *machine) task(r Ref, phases ...Phase) *Task {
	t := m.s.tasks[Key{r.Path, r.Iteration}]
	if t == nil || r.Attempt != 0 && r.Attempt != t.Attempt || !slices.Contains(phases, t.Phase) {
		return nil
	}
	return t
}

// ref names the task.
func (t *Task) ref() Ref { return Ref{t.Path, t.Iteration, t.Attempt} }

// isMap reports whether the task is that of the Map itself.
func (t *Task) isMap() bool { return t.Path == "" }

// step returns the task's step in the definition; nil for the Map itself.
func (p *Program) step(t *Task) *mapdef.Step { return p.steps[t.Path] }

// id returns the id of the task's step; "" for the Map itself.
func (p *Program) id(t *Task) string {
	if s := p.step(t); s != nil {
		return s.ID
	}
	return ""
}

// startTimer starts a timer of a task.
func (m *machine) startTimer(t *Task, timer Timer, at time.Time) {
	at = clean(at)
	t.Timers = append(t.Timers, Timed{timer, at})
	m.do(StartTimer{t.ref().still(), timer, at})
}

// cancelTimers cancels the timers of a task that run.
func (m *machine) cancelTimers(t *Task) {
	for _, timer := range t.Timers {
		m.do(CancelTimer{t.ref().still(), timer.Timer})
	}
	t.Timers = nil
}

// still is the reference without the attempt: timers and evaluations are of the step.
func (r Ref) still() Ref { return Ref{Path: r.Path, Iteration: r.Iteration} }

// timerFired passes a timer on, unless it was cancelled or has begun again meanwhile.
func (m *machine) timerFired(e TimerFired) {
	t := m.s.tasks[Key{e.Ref.Path, e.Ref.Iteration}]
	if t == nil {
		return
	}
	i := slices.IndexFunc(t.Timers, func(timer Timed) bool { return timer.Timer == e.Timer && !m.now.Before(timer.At) })
	if i < 0 {
		return
	}
	t.Timers = slices.Delete(t.Timers, i, i+1)
	switch {
	case e.Timer == TimerDuration:
		m.failMap(NewError(mapdef.CodeDurationLimit, "the execution has taken longer than limits.max_duration allows"))
	case e.Timer == TimerRetry && t.isMap():
		m.compensateAgain()
	case e.Timer == TimerRetry && t.Phase == phaseRetrying:
		m.call(t)
	case e.Timer == TimerWait && t.Phase == phaseTimer:
		m.complete(t, Value{})
	case e.Timer == TimerApproval && t.Phase == phaseApproval:
		m.do(CloseApproval{Ref: t.still(), Expired: true})
	case e.Timer == TimerEvent:
		m.fail(t, NewError(mapdef.CodeWaitTimeout, "no event that fits came in time"))
	case e.Timer == TimerTimeout:
		m.timedOut(t)
	}
}

// timedOut fails a step whose own timeout is over. A Map that it has started is stopped first.
func (m *machine) timedOut(t *Task) {
	e := NewError(mapdef.CodeStepTimeout, fmt.Sprintf("the step has taken longer than %s", m.p.step(t).Timeout.Std()))
	if t.Phase == phaseCalling {
		t.Error = e.at(t.Path)
		m.do(StopCall{t.ref()})
		return
	}
	m.fail(t, e)
}
