package stepmachine

import (
	"strconv"
	"time"
)

// Phase is what a task waits for.
type Phase string

// The phases of a task that goes on.
const (
	phaseEvaluating Phase = "evaluating" // Evaluated
	phaseInside     Phase = "inside"     // its blocks
	phaseHandling   Phase = "handling"   // the block of its catch
	phaseCalling    Phase = "calling"    // the end of a call
	phaseRetrying   Phase = "retrying"   // the timer of the next attempt
	phaseUnknown    Phase = "unknown"    // Resolved
	phaseTimer      Phase = "timer"      // the time of a wait step
	phaseEvent      Phase = "event"      // EventArrived or Signalled
	phaseApproval   Phase = "approval"   // Decided
	phaseEscalated  Phase = "escalated"  // the signal "handled"
	phaseSettling   Phase = "settling"   // the arguments of its compensation; its work is done
)

// The phases of a task that was given up, in the tree that Again takes up.
const (
	phaseFailed   Phase = "failed"
	phaseStopped  Phase = "stopped"
	phaseStopping Phase = "stopping" // its call is in flight
	phaseDone     Phase = "done"     // its call has completed meanwhile
)

// Waiting is what an execution waits for.
type Waiting string

// What an execution can wait for.
const (
	WaitsApproval   Waiting = "approval"
	WaitsEvent      Waiting = "event"
	WaitsTimer      Waiting = "timer"
	WaitsSignal     Waiting = "signal"
	WaitsResolve    Waiting = "resolve"
	WaitsMap        Waiting = "map"
	WaitsKillSwitch Waiting = "kill_switch"
	WaitsInput      Waiting = "input" // the answer to a question of a model step
)

// WaitsFor says what an execution waits for, and in which step. Where UndoneBy is not "", the step has
// completed, and the call that undoes it waits.
type WaitsFor struct {
	For   Waiting   `json:"for"`
	Step  string    `json:"step"` // its id
	Ref   Ref       `json:"ref"`
	Event string    `json:"event,omitempty"` // the type of the event, or the name of the signal
	Until time.Time `json:"until,omitzero"`  // when the wait ends by itself; zero for never
	Ask   int       `json:"ask,omitempty"`   // the number of the question that a model step asks, from 1
	// UndoneBy names the call that undoes the step, as CallEnd does; "" where the step itself waits.
	UndoneBy string `json:"undone_by,omitempty"`
}

// Question names the question that a model step asks; "" where it waits for something else.
func (w WaitsFor) Question() string {
	if w.Ask == 0 {
		return ""
	}
	return w.Ref.String() + "#" + strconv.Itoa(w.Ask)
}

// waits returns what the task waits for; "" where it works, or waits for others.
func (t *Task) waits() Waiting {
	switch t.Phase {
	case phaseUnknown:
		return WaitsResolve
	case phaseTimer:
		return WaitsTimer
	case phaseEvent:
		return WaitsEvent
	case phaseApproval:
		return WaitsApproval
	case phaseEscalated:
		return WaitsSignal
	case phaseCalling:
		return t.Waits
	default:
		return ""
	}
}

// busy reports whether the task itself works.
func (t *Task) busy() bool {
	switch t.Phase {
	case phaseEvaluating, phaseRetrying, phaseSettling:
		return true
	case phaseCalling:
		return t.Waits == ""
	default:
		return false
	}
}

// inFlight reports whether the end of the execution has to wait for the task.
func (t *Task) inFlight() bool { return t.Phase == phaseStopping || t.Phase == phaseSettling }

// tally counts the tasks of a state by what they wait for, so that its status is known
// without a look at each.
type tally struct {
	busy, inFlight                          int
	approval, killSwitch, escalated, others int
}

func (c *tally) add(t *Task, n int) {
	if t.busy() {
		c.busy += n
	}
	if t.inFlight() {
		c.inFlight += n
	}
	switch t.waits() {
	case "":
	case WaitsApproval:
		c.approval += n
	case WaitsKillSwitch:
		c.killSwitch += n
	case WaitsSignal:
		c.escalated += n
	default:
		c.others += n
	}
}

// enter puts the task into a phase.
func (m *machine) enter(t *Task, p Phase) {
	m.s.waiting.add(t, -1)
	t.Phase = p
	if p != phaseCalling {
		t.Waits, t.WaitsUntil, t.Ask = "", time.Time{}, 0
	}
	m.s.waiting.add(t, 1)
}

// status returns the status of the execution. Something that works comes first, because it
// may end soon; then what people have to do.
func (s *State) status() (Status, Waiting) {
	w := &s.waiting
	switch {
	case s.Ending != nil && s.Ending.Phase == endFinished:
		return s.Ending.Status, ""
	case s.Ending != nil && s.Ending.Phase != endOnFailure:
		return s.Ending.status()
	case s.Paused:
		return StatusPaused, ""
	case w.busy > 0 || len(s.Ready) > 0:
		return StatusRunning, ""
	case w.approval > 0:
		return StatusPending, WaitsApproval
	case w.killSwitch > 0:
		return StatusPaused, WaitsKillSwitch
	case w.escalated > 0:
		return StatusEscalated, WaitsSignal
	case w.others > 0:
		return StatusWaiting, ""
	default:
		return StatusRunning, ""
	}
}

// show stores the status for the caller.
func (m *machine) show() {
	status, waits := m.s.status()
	m.s.Status, m.s.WaitingFor = status, nil
	if waits == "" && status != StatusWaiting {
		return
	}
	if e := m.s.Ending; e != nil && e.Waits != nil {
		w := *e.Waits
		m.s.WaitingFor = &w
		return
	}
	if t := m.firstThatWaits(waits); t != nil {
		m.s.WaitingFor = m.describe(t)
	}
}

// firstThatWaits returns the first task in the tree that waits for it; for "", for anything.
func (m *machine) firstThatWaits(what Waiting) *Task {
	return first(m.s.Root, func(t *Task) bool {
		w := t.waits()
		return w != "" && (w == what || what == "")
	})
}

// first returns the first task in the tree that is one of these, apart from blocks that have failed;
// nil for none.
func first(t *Task, is func(*Task) bool) *Task {
	if is(t) {
		return t
	}
	for _, b := range t.Blocks {
		if b.Task == nil || b.Failed != nil {
			continue
		}
		if found := first(b.Task, is); found != nil {
			return found
		}
	}
	return nil
}

// describe says what the task waits for.
func (m *machine) describe(t *Task) *WaitsFor {
	w := &WaitsFor{For: t.waits(), Step: m.p.id(t), Ref: t.ref(), Ask: t.Ask, Until: t.WaitsUntil}
	for _, timer := range t.Timers {
		if w.Until.IsZero() || timer.At.Before(w.Until) {
			w.Until = timer.At
		}
	}
	switch w.For {
	case WaitsEvent:
		w.Event = m.p.eventOf(t)
	case WaitsSignal:
		w.Event = SignalHandled
	case WaitsInput:
		w.Event = SignalInput
	default: // the others wait for no event
	}
	return w
}
