package stepmachine

import (
	"time"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
)

// Verbs, models and Maps are calls: they take long, can fail for a while, and may have had an
// effect when they fail. verb.go, model.go and submap.go have what differs.

// calls reports whether the step's timeout is the deadline of its calls.
func calls(step *mapdef.Step) bool {
	switch step.Do.Type() {
	case mapdef.TypeVerb, mapdef.TypeAgent, mapdef.TypeExtract, mapdef.TypeClassify, mapdef.TypeSummarize, mapdef.TypeReason:
		return true
	default:
		return false
	}
}

// timeout returns how long the step may retry and send; for nil that of the defaults.
func (p *Program) timeout(step *mapdef.Step) time.Duration {
	switch {
	case step != nil && step.Timeout > 0:
		return step.Timeout.Std()
	case p.def.Defaults.Timeout > 0:
		return p.def.Defaults.Timeout.Std()
	default:
		return mapdef.DefaultTimeout.Std()
	}
}

// firstCall begins the calls of a step.
func (m *machine) firstCall(t *Task) {
	if step := m.p.step(t); calls(step) {
		t.Deadline = m.now.Add(m.p.timeout(step))
	}
	m.call(t)
}

// call makes the next call of a step.
func (m *machine) call(t *Task) {
	step := m.p.step(t)
	if do, ok := step.Do.(*mapdef.DoVerb); ok && m.tooManyActions() {
		m.fail(t, NewError(mapdef.CodeActionsLimit, "a call of "+do.Verb+" would be more than limits.max_actions allows"))
		return
	}
	t.Attempt++
	t.Tries++
	m.enter(t, phaseCalling)
	m.record(t, StepRunning, nil, nil)
	switch do := step.Do.(type) {
	case *mapdef.DoVerb:
		m.startVerb(t, do)
	case *mapdef.DoMap:
		m.startMap(t, do)
	default:
		m.startModel(t, step.Do)
	}
}

// callWaits notes that a call waits for people, or for a kill switch.
func (m *machine) callWaits(e CallWaits) {
	t := m.task(e.Ref, phaseCalling)
	if t == nil || e.For == "" {
		return
	}
	if t.Waits == "" {
		t.WaitsSince = m.now
	}
	m.s.waiting.add(t, -1)
	t.Waits, t.Ask, t.WaitsUntil = e.For, e.Ask, e.Until
	m.s.waiting.add(t, 1)
	m.record(t, StepWaiting, nil, nil)
	if e.Ask == 0 {
		return
	}
	signal := SignalInput
	if e.For == WaitsSignal {
		signal = SignalHandled
	}
	if data, kept := m.takeKept(signal); kept {
		m.callGoesOn(CallGoesOn{t.ref()})
		m.do(TakeInput{Ref: t.ref(), Data: data})
	}
}

// callGoesOn notes that a call no longer waits.
func (m *machine) callGoesOn(e CallGoesOn) {
	if t := m.task(e.Ref, phaseCalling); t != nil && t.Waits != "" {
		m.s.waiting.add(t, -1)
		m.waited(t)
		m.s.waiting.add(t, 1)
		m.record(t, StepRunning, nil, nil)
	}
}

// waited moves the deadline by the time for which the call has waited.
func (m *machine) waited(t *Task) {
	if !t.Deadline.IsZero() && !t.WaitsSince.IsZero() {
		t.Deadline = t.Deadline.Add(m.now.Sub(t.WaitsSince))
	}
	t.Waits, t.WaitsSince, t.WaitsUntil, t.Ask = "", time.Time{}, time.Time{}, 0
}

// callEnded goes on with the end of a call. One that Unsettled has listed was counted before: what it
// ends with now is what became known of it.
func (m *machine) callEnded(e CallEnd) {
	if e.Status != CallUnknown && m.task(e.Ref, phaseUnknown) != nil {
		m.resolved(e)
		return
	}
	t := m.task(e.Ref, phaseCalling, phaseStopping)
	if t == nil || e.Ref.Attempt != t.Attempt {
		return
	}
	m.s.waiting.add(t, -1)
	m.waited(t)
	m.s.waiting.add(t, 1)
	m.count(t, e)
	if t.Phase == phaseStopping {
		m.stoppedCallEnded(t, e)
		return
	}
	switch e.Status {
	case CallExecuted:
		m.checkResult(t, e.Result)
	case CallIntercepted:
		m.intercepted(t, e)
	case CallUnknown:
		t.Error = unknownOutcome(e.Error)
		m.enter(t, phaseUnknown)
		m.record(t, StepUnknown, nil, t.Error)
	case CallCancelled, CallFailed:
		m.callFailed(t, e)
	}
}

// count adds a call that was sent to the actions, and remembers whether it has changed
// something.
func (m *machine) count(t *Task, e CallEnd) {
	sent := e.Actions
	if m.p.step(t).Do.Type() == mapdef.TypeVerb {
		m.s.Calling--
		if e.Sent {
			sent++
		}
	}
	m.counts(t, sent)
	t.Wrote = t.Wrote || e.Wrote
	t.Final = !e.MayRepeat && e.Status != CallCancelled
	m.number(t, e)
}

// number keeps after which number the next call of the step comes, for the case that the step begins
// again. Of calls without an effect, and of those that have only read, that matters outside of loops alone:
// those in iterations that are over are made again under their numbers, and a loop can have any number of
// them.
func (m *machine) number(t *Task, e CallEnd) {
	switch executed := e.Status == CallExecuted; {
	case t.Iteration != "" && !t.Final:
	case t.Iteration != "" && executed && !t.Wrote:
	case t.Final || !executed:
		m.attempted(t.Key, t.last())
	}
}

// stoppedCallEnded goes on with the end of a call that was given up meanwhile.
func (m *machine) stoppedCallEnded(t *Task, e CallEnd) {
	switch e.Status {
	case CallExecuted:
		m.checkResult(t, e.Result)
		return
	case CallUnknown:
		t.Error = unknownOutcome(e.Error)
		m.enter(t, phaseUnknown)
		m.record(t, StepUnknown, nil, t.Error)
	case CallCancelled, CallFailed, CallIntercepted:
		m.enter(t, phaseStopped)
		m.record(t, StepCancelled, nil, e.Error)
	}
	if t.block == nil {
		if t.Phase == phaseUnknown {
			m.s.Unknown = append(m.s.Unknown, t.ref())
		}
		m.forget(t)
	}
}

// callFailed tries a failed call again, or fails the step.
func (m *machine) callFailed(t *Task, e CallEnd) {
	failed := e.Error
	switch {
	case t.Error != nil && t.Error.Code == mapdef.CodeStepTimeout:
		failed = t.Error
	case failed == nil && e.Status == CallCancelled:
		failed = NewError(string(fault.CodeConflict), "the call was cancelled")
	case failed == nil:
		failed = NewError(codeInternal, "the call ended without a reason")
	}
	failed = failed.at(t.Path)
	if wait, ok := m.retries(t, failed, e.MayRepeat); ok {
		m.enter(t, phaseRetrying)
		m.startTimer(t, TimerRetry, m.now.Add(wait))
		return
	}
	m.fail(t, failed)
}

// unknownOutcome returns the error of a call whose outcome is not known.
func unknownOutcome(e *Error) *Error {
	if e != nil {
		return e
	}
	return NewError(codeOutcomeUnknown, "the call was sent, and nothing tells whether it had an effect")
}

// resolved goes on with a call whose outcome is known at last.
func (m *machine) resolved(e CallEnd) {
	t := m.task(e.Ref, phaseUnknown)
	if t == nil {
		return
	}
	t.Wrote = t.Wrote || e.Wrote
	executed := e.Status == CallExecuted
	t.Final = executed
	m.attempted(t.Key, t.last())
	switch {
	case m.givenUp(t) && executed:
		m.enter(t, phaseDone)
		t.Output = &e.Result
	case m.givenUp(t):
		m.enter(t, phaseStopped)
	case executed:
		m.checkResult(t, e.Result)
	default:
		failed := e.Error
		if failed == nil {
			failed = NewError(codeOutcomeUnknown, "people found that the call had no effect")
		}
		m.fail(t, failed)
	}
}
