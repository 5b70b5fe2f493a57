package stepmachine

import (
	"strings"

	"agentruntime/internal/maps/mapdef"
)

// The life of a step: beginStep → mayBegin → work → begin → … → complete → finish.
// failure.go has the other way out.

// beginStep makes the task of a step.
func (m *machine) beginStep(b *Block, step *mapdef.Step) {
	t := &Task{Key: Key{step.Pointer, b.Iteration}, Phase: phaseEvaluating, Began: m.now, block: b}
	t.Attempt = m.s.Attempts[t.String()]
	b.Task = t
	m.s.tasks[t.Key] = t
	m.s.waiting.add(t, 1)
	if !m.mayCount(t.Path) {
		return
	}
	if m.s.Kept > m.mostKept() {
		m.failMap(NewError(mapdef.CodeStorageLimit, "the values of the steps so far have more than 256 MiB").at(t.Path))
		return
	}
	if m.reuse(t) {
		return
	}
	if step.SkipIf.IsZero() {
		m.mayBegin(t, false)
		return
	}
	m.evaluate(t, fieldSkipIf)
}

// mayCount counts a step that begins, and reports whether the execution may have so many. It fails where
// not.
func (m *machine) mayCount(path string) bool {
	begun, most := &m.s.Steps, m.p.maxSteps()
	if m.afterFailure() {
		begun, most = &m.s.Ending.Began, max(most, StepsAfterFailure)
	}
	*begun++
	if *begun <= most {
		return true
	}
	m.failMap(NewError(mapdef.CodeStepsLimit, "the execution has begun more steps than limits.max_steps allows").at(path))
	return false
}

// StepsAfterFailure is how many steps on_failure may begin at least, and KeptAfterFailure how many bytes
// of values it may have the caller keep beyond MaxKept. An execution that failed because it has used up
// what it may use can still tell people.
const (
	StepsAfterFailure = 1000
	KeptAfterFailure  = 16 << 20
)

// afterFailure reports whether on_failure runs, with bounds of its own.
func (m *machine) afterFailure() bool {
	return m.s.Ending != nil && m.s.Ending.Phase == endOnFailure
}

func (m *machine) mostKept() int64 {
	if m.afterFailure() {
		return MaxKept + KeptAfterFailure
	}
	return MaxKept
}

// usedUp reports whether the execution may begin no further step.
func (p *Program) usedUp(s *State) bool { return s.Steps > p.maxSteps() || s.Kept > MaxKept }

// DefaultMaxSteps is how many steps an execution may begin where its definition says nothing.
const DefaultMaxSteps = 1_000_000

func (p *Program) maxSteps() int {
	if n := p.def.Limits.MaxSteps; n > 0 {
		return n
	}
	return DefaultMaxSteps
}

// mayBegin goes on when it is known whether the step is skipped.
func (m *machine) mayBegin(t *Task, skip bool) {
	step := m.p.step(t)
	switch {
	case skip:
		m.finish(t, StepSkipped, nil)
	case m.s.DryRun && !step.Mock.IsZero() && !asksFirst(step):
		m.evaluate(t, fieldMock)
	default:
		m.limit(t)
		m.work(t)
	}
}

// asksFirst reports whether only the call tells if the mock is used: verbs that read run in
// dry runs too.
func asksFirst(step *mapdef.Step) bool { return step.Do.Type() == mapdef.TypeVerb }

// mocked goes on with the mock of a step.
func (m *machine) mocked(t *Task, v Value) {
	if t.Change != "" {
		v.Invented = union(v.Invented, []string{t.Change})
	}
	m.complete(t, v)
}

// limit starts the timer of the step's own timeout. Calls have a deadline of their own, which
// a wait for people moves, and approvals a time of theirs.
func (m *machine) limit(t *Task) {
	step := m.p.step(t)
	if d := step.Timeout.Std(); d > 0 && !calls(step) && step.Do.Type() != mapdef.TypeApproval {
		m.startTimer(t, TimerTimeout, m.now.Add(d))
	}
}

// work begins with what the step needs first: its input, or a condition.
func (m *machine) work(t *Task) {
	step := m.p.step(t)
	if v, ok := m.edited(step.ID); ok {
		t.Edited = true
		m.begin(t, m.fit(v, t.still().String()+":"+fieldInput), v)
		return
	}
	switch do := step.Do.(type) {
	case *mapdef.DoSet:
		m.assign(t, do, 0)
	case *mapdef.DoSwitch:
		m.choose(t, do, 0)
	case *mapdef.DoWhile:
		m.repeat(t, do)
	case *mapdef.DoParallel:
		m.branch(t, do)
	case *mapdef.DoEmit:
		m.room(t)
	default:
		m.evaluate(t, fieldInput)
	}
}

// begin does the work of a step whose input is known. The state may only refer to it, so whole has the
// texts that the machine reads itself.
func (m *machine) begin(t *Task, input, whole Value) {
	t.Input = &input
	switch do := m.p.step(t).Do.(type) {
	case *mapdef.DoTransform:
		m.complete(t, input)
	case *mapdef.DoValidate:
		m.validate(t)
	case *mapdef.DoForeach:
		m.iterate(t, do)
	case *mapdef.DoWait:
		m.wait(t, do, whole)
	case *mapdef.DoApproval:
		m.ask(t, do, whole)
	case *mapdef.DoRaise:
		m.raise(t, do, whole)
	case *mapdef.DoEmit:
		m.announce(t, do)
	case *mapdef.DoEscalate:
		m.escalate(t, do, whole)
	case *mapdef.DoReturn:
		m.returned(t)
	default: // verb, map and the model steps
		m.firstCall(t)
	}
}

// partEvaluated goes on with a field that only one type has.
func (m *machine) partEvaluated(t *Task, what string, v Value) {
	switch do := m.p.step(t).Do.(type) {
	case *mapdef.DoSet:
		i, _ := numbered(what, fieldAssign)
		m.assigned(t, do, i, v)
	case *mapdef.DoSwitch:
		i, _ := numbered(what, fieldCase)
		m.chosen(t, do, i, v.isTrue())
	case *mapdef.DoWhile:
		m.decideWhile(t, do, v.isTrue())
	case *mapdef.DoWait:
		m.filtered(t, v.isTrue())
	default: // the others have no such field
	}
}

// blockEnded goes on with a step whose block has run to its end.
func (m *machine) blockEnded(t *Task, b *Block) {
	switch {
	case t.isMap():
		m.mapBlockEnded(b)
		return
	case t.Phase == phaseHandling:
		m.close(b)
		m.finish(t, StepFailed, nil)
		return
	}
	switch do := m.p.step(t).Do.(type) {
	case *mapdef.DoWhile:
		m.whileEnded(t, b)
	case *mapdef.DoForeach:
		m.itemEnded(t, do, b, nil)
	case *mapdef.DoParallel:
		m.branchEnded(t, do, b)
	default: // a case of a switch
		m.close(b)
		m.complete(t, Value{})
	}
}

// complete ends a step well. If the step can be undone, the call for that is kept first.
func (m *machine) complete(t *Task, output Value) {
	m.cancelTimers(t)
	t.Error = nil
	output = m.fit(output, t.still().String()+":output")
	t.Output = &output
	if m.compensates(t) {
		m.enter(t, phaseSettling)
		m.evaluate(t, fieldCompensate)
		return
	}
	m.settled(t)
}

// compensates reports whether the step has something that undoes it. Nothing is undone in a
// dry run, and nothing of what on_failure has done.
func (m *machine) compensates(t *Task) bool {
	return m.p.step(t).Compensate != nil && !m.s.DryRun && !t.Kept && !t.inOnFailure()
}

// inOnFailure reports whether the step is one of on_failure.
func (t *Task) inOnFailure() bool { return strings.HasPrefix(t.Path, onFailureList+"/") }

// keep keeps the call that undoes the step.
func (m *machine) keep(t *Task, args Value, failed *Error) {
	t.Kept = true
	m.s.Compensations++
	if failed != nil {
		m.s.Broken = append(m.s.Broken, m.s.Compensations)
	}
	step := m.p.step(t)
	m.do(KeepCompensation{
		Seq: m.s.Compensations, Ref: t.ref(), Verb: step.Compensate.Verb, Args: args.orEmpty(), CredentialID: undoneBy(step), Error: failed,
	})
	m.settled(t)
}

// undoneBy returns the credential of the call that undoes the step: the one that the step names, where
// both calls are of the same provider.
func undoneBy(step *mapdef.Step) string {
	do, ok := step.Do.(*mapdef.DoVerb)
	if !ok {
		return ""
	}
	of, _, _ := strings.Cut(do.Verb, ":")
	if !strings.HasPrefix(step.Compensate.Verb, of+":") {
		return ""
	}
	return do.CredentialID
}

// settled ends a completed step: in its block, or beside it where it was given up meanwhile.
func (m *machine) settled(t *Task) {
	switch {
	case t.block == nil:
		m.record(t, StepCompleted, t.Output, nil)
		m.forget(t)
	case m.givenUp(t):
		m.record(t, StepCompleted, t.Output, nil)
		m.enter(t, phaseDone)
	default:
		m.finish(t, StepCompleted, t.Output)
	}
}

// finish ends a step, and lets its block go on.
func (m *machine) finish(t *Task, status StepStatus, output *Value) {
	m.cancelTimers(t)
	step, b := m.p.step(t), t.block
	if status == StepSkipped {
		output = nil
	} else {
		b.Last = output
	}
	m.record(t, status, output, t.Error)
	r := &Result{Status: status, Output: output, Error: t.Error, Wrote: t.Wrote, Attempt: t.Attempt, Final: t.Final && status == StepFailed}
	if !m.p.read[step.ID] && !t.Wrote {
		r.Output = nil
	}
	if t.Loop != nil {
		r.Counted = t.Loop.Counted
	}
	m.results(b)[step.ID] = r
	b.owner.Wrote = b.owner.Wrote || t.Wrote
	m.unindex(t)
	b.Task = nil
	b.Pos++
	m.ready(b)
}

// results returns where the results of a block's steps go.
func (m *machine) results(b *Block) map[string]*Result {
	for ; b != nil; b = b.owner.block {
		if b.Item == nil {
			continue
		}
		if b.Results == nil {
			b.Results = map[string]*Result{}
		}
		return b.Results
	}
	if m.s.Results == nil {
		m.s.Results = map[string]*Result{}
	}
	return m.s.Results
}

// unindex takes a task out of the tree's index.
func (m *machine) unindex(t *Task) {
	m.s.waiting.add(t, -1)
	delete(m.s.tasks, t.Key)
}

// record writes how far the step is.
func (m *machine) record(t *Task, status StepStatus, output *Value, failed *Error) {
	r := RecordStep{
		Ref: t.ref(), ID: m.p.id(t), Type: m.p.step(t).Do.Type(), Status: status,
		Input: t.Input, Output: output, Error: failed, Began: t.Began,
		Reused: t.reused,
	}
	switch status {
	case StepRunning, StepWaiting, StepUnknown:
		r.Waiting = string(t.waits())
	default:
		r.Ended = m.now
	}
	m.do(r)
}

// edited returns the input that takes the place of the step's own, once.
func (m *machine) edited(id string) (Value, bool) {
	for i, e := range m.s.Edits {
		if e.Name == id {
			m.s.Edits = append(m.s.Edits[:i:i], m.s.Edits[i+1:]...)
			return e.Value, true
		}
	}
	return Value{}, false
}
