package stepmachine

import (
	"slices"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
)

// afterwards takes an event after the end: a failed execution can be taken up again, and an
// outcome that nobody knew can become known before that.
func (m *machine) afterwards(e Event) {
	switch e := e.(type) {
	case Resolved:
		m.resolved(e.CallEnd)
	case Again:
		if CanGoOn(m.p, m.s, e) == nil {
			m.again(e)
		}
	default: // it comes too late
	}
}

// CanGoOn returns nil where Again takes the execution up, and otherwise a *fault.Error that
// says why it may not: CONFLICT for the execution, VALIDATION_ERROR for the step or an edit,
// INVALID_ARGS for the edit of a step that has changed something.
// It does not check what the edits say: see CheckEdit.
func CanGoOn(p *Program, s *State, a Again) error {
	switch {
	case s.Ending == nil || s.Ending.Phase != endFinished || s.Ending.Status != StatusFailed:
		return fault.New(fault.CodeConflict, "Only an execution that has failed goes on.")
	case s.Compensations > 0:
		return fault.New(fault.CodeConflict, "The calls that undo steps of this execution were made. Start a new one.")
	}
	if p.usedUp(s) {
		return fault.New(fault.CodeConflict, "The execution has used up the steps or the values that it may have. Start a new one.")
	}
	var dropped *Task
	if a.FromStep != "" {
		b, _ := p.rewindable(s, a.FromStep)
		switch {
		case p.ids[a.FromStep] == nil:
			return fault.Invalid("/from_step", "unknown_step", "is not the id of a step of this Map")
		case b == nil:
			return fault.Invalid("/from_step", "from_step", "must be the id of the failed step, or of one before it in its block or in a block around it")
		}
		if b.Task != nil && len(unknown(b.Task, nil)) > 0 {
			return fault.New(fault.CodeConflict, "The outcome of a call is not known. Resolve it first.")
		}
		dropped = b.Task
	}
	for _, e := range a.Edits {
		if err := p.mayEdit(s, e.Name, dropped); err != nil {
			return err
		}
	}
	return nil
}

// Unsettled returns the calls of verbs whose outcome is not known and that an execution waits for
// after Again. The caller makes each again under its number, so that the fence answers it with what is
// known by now. Where that is still nothing, it passes Resolved once the outcome is known.
func Unsettled(p *Program, s *State) (calls []StartVerb) {
	for _, ref := range unknown(s.Root, nil) {
		t := s.tasks[Key{ref.Path, ref.Iteration}]
		if do, ok := p.step(t).Do.(*mapdef.DoVerb); ok {
			calls = append(calls, StartVerb{Ref: ref, Verb: do.Verb, Args: t.Input.orEmpty(), CredentialID: do.CredentialID, Deadline: t.Deadline, DryRun: s.DryRun})
		}
	}
	return calls
}

// mayEdit returns nil where the input of the step may be edited. dropped is the step that begins again
// with all that is in it, nil for none.
func (p *Program) mayEdit(s *State, id string, dropped *Task) error {
	path := "/edits/" + fault.PointerToken(id)
	step := p.ids[id]
	switch {
	case step == nil:
		return fault.Invalid(path, "unknown_step", "is not the id of a step of this Map")
	case !hasInput(step):
		return fault.Invalid(path, "no_input", "has no input that can be edited")
	case s.wrote(s.Root, id), p.loopWrote(s, step, dropped):
		f := fault.New(fault.CodeInvalidArgs, "The edited step has already changed something. It is not run again.")
		f.Details = []fault.Detail{{Path: path, Rule: "already_done", Message: "has already changed something. It is not run again"}}
		return f
	}
	return nil
}

// hasInput reports whether the step works with one input.
func hasInput(step *mapdef.Step) bool {
	return slices.Contains(expressionsOf(step), fieldInput) && step.Do.Type() != mapdef.TypeParallel
}

// wrote reports whether the step has changed something, or may have.
func (s *State) wrote(t *Task, id string) bool {
	if t == s.Root && s.Results[id] != nil && s.Results[id].Wrote {
		return true
	}
	for _, b := range t.Blocks {
		if r := b.Results[id]; r != nil && r.Wrote {
			return true
		}
		if b.Task == nil {
			continue
		}
		if s.wrote(b.Task, id) {
			return true
		}
	}
	return false
}

// loopWrote reports whether iterations around the step that are over have changed something, and either
// none begins any more, or they begin again and the first would get the edit.
func (p *Program) loopWrote(s *State, step *mapdef.Step, dropped *Task) bool {
	for _, loop := range p.loopsAround(step) {
		under := false
		for _, t := range s.tasks {
			if t.Path != loop.Pointer {
				continue
			}
			if under = true; t.Wrote && t.Loop != nil && t.Loop.Done > 0 && t.within(dropped) {
				return true
			}
		}
		if !under && s.wrote(s.Root, loop.ID) {
			return true
		}
	}
	return false
}

// within reports whether the task is the other one, or in a block of it.
func (t *Task) within(outer *Task) bool {
	for ; t != nil && t != outer; t = t.block.owner {
		if t.block == nil {
			return false
		}
	}
	return t != nil
}

// rewindable returns the block of the kept tree that the step is in, and its place; nil where
// it has not run there, or its block is over.
func (p *Program) rewindable(s *State, id string) (*Block, int) {
	var find func(t *Task) (*Block, int)
	find = func(t *Task) (*Block, int) {
		for _, b := range t.Blocks {
			steps := p.lists[b.Path]
			for i := range min(b.Pos+1, len(steps)) {
				if steps[i].ID == id {
					return b, i
				}
			}
			if b.Task == nil {
				continue
			}
			if found, i := find(b.Task); found != nil {
				return found, i
			}
		}
		return nil, 0
	}
	return find(s.Root)
}

// again takes the execution up from its failed steps.
func (m *machine) again(a Again) {
	m.s.Ending = nil
	m.s.Edits = slices.Clone(a.Edits)
	if d := m.p.def.Limits.MaxDuration.Std(); d > 0 {
		m.startTimer(m.s.Root, TimerDuration, m.now.Add(d))
	}
	if b, i := m.p.rewindable(m.s, a.FromStep); b != nil && a.FromStep != "" {
		m.rewind(b, i)
	}
	if len(m.s.Root.Blocks) == 0 {
		m.declare(0)
		return
	}
	for _, b := range m.s.Root.Blocks {
		b.Failed = nil
		if b.Ended {
			m.mapBlockEnded(b)
			continue
		}
		m.reviveBlock(b)
	}
}

func (m *machine) reviveBlock(b *Block) {
	switch {
	case b.Ended:
	case b.Task == nil:
		m.ready(b)
	default:
		m.revive(b.Task)
	}
}

// revive lets a task of the kept tree go on: a block from where it is, a step from its
// beginning.
func (m *machine) revive(t *Task) {
	failed := t.Phase == phaseFailed
	switch {
	case t.Phase == phaseUnknown:
		return // Resolved goes on
	case t.Phase == phaseDone:
		m.complete(t, *t.Output)
		return
	case len(t.Blocks) > 0:
		m.reviveInside(t, failed)
		return
	case t.Phase == phaseStopped && t.Loop != nil && t.Asks != "":
		m.limit(t)
		m.evaluate(t, t.Asks) // between two iterations
		return
	}
	b := t.block
	m.remember(t)
	delete(m.results(b), m.p.id(t)) // it has not ended, so there is nothing to reuse
	m.unindex(t)
	b.Task = nil
	m.ready(b)
}

// reviveInside lets the blocks of a task go on. One that was given up for good stays so.
func (m *machine) reviveInside(t *Task, failed bool) {
	t.Error = nil
	m.enter(t, phaseInside)
	if t.Blocks[0].Caught != nil {
		t.Error = t.Blocks[0].Caught
		m.enter(t, phaseHandling)
	}
	m.limit(t)
	for _, b := range slices.Clone(t.Blocks) {
		if b.Failed != nil && !failed {
			continue
		}
		b.Failed = nil
		m.reviveBlock(b)
	}
}
