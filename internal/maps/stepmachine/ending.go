package stepmachine

import (
	"slices"
	"time"
)

// EndPhase is how far the end of an execution is.
type EndPhase string

// The end of an execution, in this order. The second and the third are of failed ones; those
// that were cancelled are compensated too.
const (
	endDraining     EndPhase = "draining" // calls in flight end
	endCompensating EndPhase = "compensating"
	endOnFailure    EndPhase = "on_failure"
	endFinished     EndPhase = "finished"
)

// Ending is the end of an execution from the moment in which it is decided.
type Ending struct {
	Phase  EndPhase `json:"phase"`
	Status Status   `json:"status"`
	Output Value    `json:"output"`
	Error  *Error   `json:"error,omitempty"`

	// Seq is the kept call that is made now, Attempt and Deadline are its.
	Seq      int       `json:"seq,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	Delays   int       `json:"delays,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Waits is what this call waits for, nil for nothing, and WaitsSince since when.
	Waits      *WaitsFor `json:"waits,omitempty"`
	WaitsSince time.Time `json:"waits_since,omitzero"`
	// Undone is how many kept calls were made well. NotUndone lists the others, the first of them,
	// and MoreNotUndone is how many it does not list.
	Undone        int         `json:"undone,omitempty"`
	NotUndone     []NotUndone `json:"not_undone,omitempty"`
	MoreNotUndone int         `json:"more_not_undone,omitempty"`

	// Began is how many steps of on_failure have begun.
	Began int `json:"began,omitempty"`
	// HandlerDone: on_failure has run, and HandlerError is why it failed.
	HandlerDone  bool   `json:"handler_done,omitempty"`
	HandlerError *Error `json:"handler_error,omitempty"`
}

// mostNotUndone is how many kept calls that did not undo their step an execution lists. More of them
// tell people nothing that these do not, and all stay in its state.
const mostNotUndone = 100

// leave notes a step that is not undone.
func (e *Ending) leave(n NotUndone) {
	if len(e.NotUndone) == mostNotUndone {
		e.MoreNotUndone++
		return
	}
	e.NotUndone = append(e.NotUndone, n)
}

// succeed ends the execution well: all steps have run, or a return step has ended them.
func (m *machine) succeed(output Value) {
	m.stop(Ending{Status: StatusCompleted, Output: output})
}

// failMap fails the execution. Where it is failing already, only on_failure ends.
func (m *machine) failMap(e *Error) {
	switch {
	case m.s.Ending == nil:
		m.stop(Ending{Status: StatusFailed, Error: e})
	case m.s.Ending.Phase == endOnFailure:
		m.onFailureFailed(e)
	}
}

// unhandled: nothing handles the failure of a step in the main block, or in on_failure.
func (m *machine) unhandled(b *Block, e *Error) {
	b.Failed = e
	m.failMap(e)
}

// cancel ends the execution from outside. One that is failing goes on to its end, without
// what is left of on_failure.
func (m *machine) cancel() {
	switch {
	case m.s.Ending == nil:
		m.stop(Ending{Status: StatusCancelled})
	case m.s.Ending.Phase == endOnFailure:
		m.onFailureFailed(nil)
	}
}

// stop decides the end, and gives up all that runs.
func (m *machine) stop(e Ending) {
	e.Phase = endDraining
	m.s.Ending, m.s.Ready, m.s.Paused = &e, nil, false
	m.freezeMap()
}

func (m *machine) freezeMap() {
	m.cancelTimers(m.s.Root)
	m.freeze(m.s.Root)
}

// end takes the end of the execution one step further, and reports whether it could.
func (m *machine) end() bool {
	e := m.s.Ending
	if e == nil || e.Phase != endDraining || m.s.waiting.inFlight > 0 {
		return false
	}
	switch {
	case e.HandlerDone:
		m.finishMap()
	case e.Status != StatusCompleted && m.s.Compensations > 0:
		e.Phase, e.Seq = endCompensating, m.s.Compensations
		m.compensate()
	default:
		m.compensated()
	}
	return true
}

// compensated goes on when nothing is left to undo.
func (m *machine) compensated() {
	e := m.s.Ending
	if e.Status != StatusFailed || len(m.p.def.OnFailure) == 0 {
		m.finishMap()
		return
	}
	e.Phase = endOnFailure
	m.open(m.s.Root, &Block{Key: Key{Path: onFailureList}, As: failureName, Caught: e.Error})
}

// failureName is what the steps of on_failure read the error by.
const failureName = "failure"

// onFailureFailed ends on_failure before its end, because of a failure or, for nil, a
// cancellation.
func (m *machine) onFailureFailed(e *Error) {
	m.s.Ending.HandlerError = e
	m.s.Ready = nil
	m.freezeMap()
	m.onFailureEnded()
}

// onFailureEnded goes on when on_failure no longer runs.
func (m *machine) onFailureEnded() {
	e := m.s.Ending
	e.Phase, e.HandlerDone = endDraining, true
}

// finishMap ends the execution.
func (m *machine) finishMap() {
	e := m.s.Ending
	m.dropOnFailure()
	e.Phase = endFinished
	m.do(Finish{
		Status: e.Status, Output: e.Output, Error: e.Error, Actions: m.s.Actions,
		Unknown:     unknown(m.s.Root, slices.Clone(m.s.Unknown)),
		Compensated: e.Undone, NotCompensated: e.NotUndone, MoreNotCompensated: e.MoreNotUndone, OnFailureError: e.HandlerError,
	})
	if e.Status != StatusFailed {
		// Nothing takes these up again.
		m.s.Root.Blocks, m.s.Results, m.s.Vars, m.s.Signals, m.s.Seen = nil, nil, nil, nil, nil
		m.s.link()
	}
}

// dropOnFailure removes what is left of on_failure.
func (m *machine) dropOnFailure() {
	for _, b := range m.s.Root.Blocks {
		if b.Path == onFailureList {
			m.dropBlock(b)
			m.close(b)
			return
		}
	}
}

// unknown adds the calls in the kept tree whose outcome is not known.
func unknown(t *Task, found []Ref) []Ref {
	if t.Phase == phaseUnknown {
		found = append(found, t.ref())
	}
	for _, b := range t.Blocks {
		if b.Task != nil {
			found = unknown(b.Task, found)
		}
	}
	return found
}

// compensate makes the kept calls one by one, the last one first.
func (m *machine) compensate() {
	e := m.s.Ending
	for slices.Contains(m.s.Broken, e.Seq) {
		e.leave(NotUndone{Seq: e.Seq})
		e.Seq--
	}
	if e.Seq == 0 {
		m.compensated()
		return
	}
	e.Attempt, e.Delays, e.Deadline = 1, 0, m.now.Add(m.p.timeout(nil))
	m.do(Compensate{Seq: e.Seq, Attempt: e.Attempt, Deadline: e.Deadline})
}

// compensationEnded goes on with the next kept call.
func (m *machine) compensationEnded(c CompensationEnded) {
	e := m.undoes(c.Seq, c.Attempt)
	if e == nil {
		return
	}
	e.waited(m.now)
	if c.Sent {
		m.s.Actions++
	}
	switch wait, again := m.compensatesAgain(c); {
	case again:
		m.startTimer(m.s.Root, TimerRetry, m.now.Add(wait))
		return
	case c.Status == CallExecuted:
		e.Undone++
	default:
		left := NotUndone{Seq: c.Seq, Call: c.Call, Status: c.Status}
		if c.Error != nil {
			left.Code, left.Title = c.Error.Code, c.Error.Title
		}
		e.leave(left)
	}
	e.Seq--
	m.compensate()
}

// undoes returns the end of the execution while the kept call of the number is made in the attempt; nil
// otherwise.
func (m *machine) undoes(seq, attempt int) *Ending {
	e := m.s.Ending
	if e == nil || e.Phase != endCompensating || seq != e.Seq || attempt != e.Attempt {
		return nil
	}
	return e
}

// compensationWaits notes that a kept call waits for people, or for a kill switch.
func (m *machine) compensationWaits(c CompensationWaits) {
	e := m.undoes(c.Seq, c.Attempt)
	if e == nil || c.For == "" {
		return
	}
	if e.Waits == nil {
		e.WaitsSince = m.now
	}
	e.Waits = &WaitsFor{For: c.For, Ref: c.Ref, UndoneBy: c.Call}
	if step := m.p.steps[c.Ref.Path]; step != nil {
		e.Waits.Step = step.ID
	}
}

// compensationGoesOn notes that a kept call no longer waits.
func (m *machine) compensationGoesOn(c CompensationGoesOn) {
	if e := m.undoes(c.Seq, c.Attempt); e != nil {
		e.waited(m.now)
	}
}

// waited moves the deadline by the time for which the kept call has waited.
func (e *Ending) waited(now time.Time) {
	if e.Waits != nil {
		e.Deadline = e.Deadline.Add(now.Sub(e.WaitsSince))
	}
	e.Waits, e.WaitsSince = nil, time.Time{}
}

// status returns the status of the execution until on_failure runs, and what it waits for.
func (e *Ending) status() (Status, Waiting) {
	switch {
	case e.Waits == nil:
		return StatusRunning, ""
	case e.Waits.For == WaitsKillSwitch:
		return StatusPaused, e.Waits.For
	default:
		return StatusPending, e.Waits.For
	}
}

// compensatesAgain reports whether the provider only asked to wait, and for how long.
func (m *machine) compensatesAgain(c CompensationEnded) (time.Duration, bool) {
	e := m.s.Ending
	if c.Status != CallFailed || !c.MayRepeat || c.Error == nil || !c.Error.asksToWait() {
		return 0, false
	}
	wait := c.Error.delay(e.Delays)
	if m.now.Add(wait).After(e.Deadline) {
		return 0, false
	}
	e.Delays++
	return wait, true
}

// compensateAgain makes the same kept call again.
func (m *machine) compensateAgain() {
	e := m.s.Ending
	if e == nil || e.Phase != endCompensating {
		return
	}
	e.Attempt++
	m.do(Compensate{Seq: e.Seq, Attempt: e.Attempt, Deadline: e.Deadline})
}
