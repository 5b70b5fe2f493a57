package stepmachine

import (
	"slices"
	"strconv"

	"agentruntime/internal/maps/mapdef"
)

// fail goes on with a failure that no retry is left for. It looks for what handles it, from the
// step outwards: a catch, an on_error, or a loop or parallel step that does without the part
// that failed. What is below the place that handles it is given up. Where nothing does, the
// execution fails, and the tree stays for Again.
func (m *machine) fail(t *Task, e *Error) {
	e = e.at(t.Path)
	for {
		t.Error = e
		m.cancelTimers(t)
		m.stopAwaiting(t)
		if m.handles(t, e) {
			return
		}
		m.record(t, StepFailed, nil, e)
		b := t.block
		m.results(b)[m.p.id(t)] = &Result{Status: StepFailed, Error: e, Wrote: t.Wrote, Attempt: t.Attempt, Final: t.Final}
		b.owner.Wrote = b.owner.Wrote || t.Wrote
		m.enter(t, phaseFailed)
		if b.owner.isMap() {
			m.unhandled(b, e)
			return
		}
		if m.absorbs(b, e) {
			return
		}
		t = b.owner
	}
}

// handles reports whether the step itself handles its failure, and then does. A failure of a
// handler is not caught again.
func (m *machine) handles(t *Task, e *Error) bool {
	step := m.p.step(t)
	if t.Phase != phaseHandling {
		for i := range step.Catch {
			if slices.Contains(step.Catch[i].Errors, e.Code) || slices.Contains(step.Catch[i].Errors, mapdef.AnyError) {
				m.catch(t, e, i)
				return true
			}
		}
	}
	switch step.OnError {
	case mapdef.OnErrorContinue:
		m.dropBlocks(t)
		m.finish(t, StepFailed, nil)
	case mapdef.OnErrorDefault:
		m.dropBlocks(t)
		m.evaluate(t, fieldDefault)
	default: // fail
		return false
	}
	return true
}

// catch runs a catch of the step.
func (m *machine) catch(t *Task, e *Error, i int) {
	m.dropBlocks(t)
	m.enter(t, phaseHandling)
	path := t.Path + "/catch/" + strconv.Itoa(i) + "/steps"
	m.open(t, &Block{Key: Key{path, t.Iteration}, As: m.p.step(t).Catch[i].As, Caught: e})
}

// absorbs reports whether the loop or parallel step around a failed block goes on without it,
// and then does.
func (m *machine) absorbs(b *Block, e *Error) bool {
	t := b.owner
	if t.Phase == phaseHandling {
		return false
	}
	switch do := m.p.step(t).Do.(type) {
	case *mapdef.DoForeach:
		if do.OnItemError != mapdef.Skip {
			return false
		}
		m.itemEnded(t, do, b, e)
		return true
	case *mapdef.DoParallel:
		return m.branchFailed(t, do, b, e)
	default:
		return false
	}
}

// dropBlocks gives up all that runs inside a step. Its calls in flight go on beside the tree.
func (m *machine) dropBlocks(t *Task) {
	for _, b := range t.Blocks {
		m.dropBlock(b)
	}
	t.Blocks, t.Loop = nil, nil
}

// dropBlock gives up a block for good.
func (m *machine) dropBlock(b *Block) {
	delete(m.s.blocks, b.Key)
	if b.Task != nil {
		m.drop(b.Task)
	}
	b.Task = nil
}

// drop gives up a task for good. A call in flight, or one that is being kept for compensation,
// goes to Detached with what it needs for its end.
func (m *machine) drop(t *Task) {
	m.freeze1(t)
	for _, b := range t.Blocks {
		m.dropBlock(b)
	}
	t.Blocks = nil
	switch {
	case t.inFlight():
		if m.compensates(t) {
			scope := m.scope(t, m.field(t, fieldCompensate).References(), nil)
			scope = scope.expecting(m.p.id(t), m.field(t, fieldCompensate))
			t.Compensation = &scope
		}
		t.block = nil
		m.s.Detached = append(m.s.Detached, t)
		return
	case t.Phase == phaseUnknown:
		m.s.Unknown = append(m.s.Unknown, t.ref())
	}
	m.unindex(t)
}

// expecting returns the scope with a place for the output of a step that has not ended, if the
// field reads it.
func (s Scope) expecting(id string, field evaluable) Scope {
	if !field.References().Step(id) || slices.ContainsFunc(s.Steps, func(step StepScope) bool { return step.ID == id }) {
		return s
	}
	s.Steps = append(append([]StepScope{}, s.Steps...), StepScope{ID: id})
	return s
}

// freeze stops a task and all within it. The tasks stay, so that Again can take them up.
func (m *machine) freeze(t *Task) {
	m.freeze1(t)
	for _, b := range t.Blocks {
		if b.Task != nil {
			m.freeze(b.Task)
		}
	}
}

// freeze1 stops what one task waits for.
func (m *machine) freeze1(t *Task) {
	m.cancelTimers(t)
	m.stopAwaiting(t)
	if t.isMap() {
		m.enter(t, phaseInside)
		return
	}
	switch t.Phase {
	case phaseCalling:
		m.do(StopCall{t.ref()})
		m.enter(t, phaseStopping)
		return // its end is recorded
	case phaseApproval:
		m.do(CloseApproval{Ref: t.still()})
	case phaseInside, phaseHandling:
		m.record(t, StepCancelled, nil, nil)
		return // what runs inside says where it was
	case phaseEvaluating, phaseEvent, phaseRetrying, phaseTimer, phaseEscalated:
	default: // it has ended, or its end is waited for
		return
	}
	m.record(t, StepCancelled, nil, nil)
	m.enter(t, phaseStopped)
}

// givenUp reports whether the task is in a part of the tree that no longer runs.
func (m *machine) givenUp(t *Task) bool {
	if m.s.Ending != nil && (m.s.Ending.Phase != endOnFailure || !t.inOnFailure()) {
		return true
	}
	return t.block != nil && t.block.givenUp()
}

// givenUp reports whether the block, or one around it, was given up.
func (b *Block) givenUp() bool {
	for ; b != nil; b = b.owner.block {
		if b.Failed != nil {
			return true
		}
	}
	return false
}

// forget removes a detached call that has ended.
func (m *machine) forget(t *Task) {
	m.unindex(t)
	m.s.Detached = slices.DeleteFunc(m.s.Detached, func(other *Task) bool { return other == t })
	if len(m.s.Detached) == 0 {
		m.s.Detached = nil
	}
}
