package stepmachine

import (
	"bytes"
	"maps"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/mapdef"
)

// After Again, a part of the tree can begin again. What it has changed stays: a step that has done so is
// not run again where its result is known. Of the iterations of a loop that are over nothing is kept.
// They run again, and each call has the number that it had, so that it is the same run. Reads are made under
// all their numbers again, from the first on.

// Redone is a block of a part that begins again.
type Redone struct {
	// Redo is how many of its steps ran already.
	Redo int `json:"redo"`
	// Item and Results are of an iteration. Other blocks have their results where they had them.
	Item    *Value             `json:"item,omitempty"`
	Results map[string]*Result `json:"results,omitempty"`
}

// rewind takes a block back to an earlier step. Steps in between that have changed something
// are not run again.
func (m *machine) rewind(b *Block, to int) {
	if b.Task != nil {
		m.remember(b.Task)
		delete(m.results(b), m.p.id(b.Task)) // it has not ended, so there is nothing to reuse
		m.silence(b.Task)
		m.drop(b.Task)
		b.Task = nil
	}
	b.Redo, b.Pos, b.Ended = max(b.Redo, b.Pos), to, false
	m.rememberSteps(m.p.lists[b.Path][to:b.Redo], b.Iteration, m.results(b))
}

// silence has a part of the tree say nothing when it is dropped: it has ended with the attempt before.
func (m *machine) silence(t *Task) {
	if t.Phase == phaseInside || t.Phase == phaseHandling {
		m.enter(t, phaseStopped)
	}
	for _, b := range t.Blocks {
		if b.Task != nil {
			m.silence(b.Task)
		}
	}
}

// remember keeps the numbers of the calls in a part of the tree that begins again, and takes back what
// is counted again.
func (m *machine) remember(t *Task) {
	m.attempted(t.Key, t.last())
	if t.last() < t.Attempt { // the next call is the same run, and is counted again
		m.s.Actions -= t.Counted
	}
	if t.Loop != nil {
		m.s.Actions -= t.Loop.Counted
	}
	for _, b := range t.Blocks {
		m.rememberBlock(b)
		if b.Task != nil {
			m.remember(b.Task)
		}
	}
}

// rememberBlock keeps what the steps of a block have done.
func (m *machine) rememberBlock(b *Block) {
	steps := m.p.lists[b.Path]
	r := &Redone{Redo: min(max(b.Redo, b.Pos), len(steps))}
	results := m.results(b)
	if b.Task != nil {
		delete(results, m.p.id(b.Task)) // it has not ended
	}
	m.rememberSteps(steps[:r.Redo], b.Iteration, results)
	if b.Index != nil {
		r.Item, r.Results = b.Item, map[string]*Result{}
		mapdef.Walk(steps, func(step *mapdef.Step) {
			if one := results[step.ID]; one != nil {
				r.Results[step.ID] = one
			}
		})
	}
	if m.s.Redone == nil {
		m.s.Redone = map[string]*Redone{}
	}
	m.s.Redone[b.String()] = r
}

// rememberSteps keeps the numbers of the calls of steps that are over and run again: those that have
// changed nothing.
func (m *machine) rememberSteps(steps []mapdef.Step, iteration string, results map[string]*Result) {
	for i := range steps {
		r := results[steps[i].ID]
		if r == nil || r.Wrote {
			continue
		}
		m.attempted(Key{steps[i].Pointer, iteration}, r.last())
		m.s.Actions -= r.Counted
		for _, b := range steps[i].Blocks() {
			if b.Kind != mapdef.BlockBody {
				m.rememberSteps(b.Steps, iteration, results)
			}
		}
	}
}

// last returns the number after which the next call of the step comes: where the last call may have had
// an effect, that is the same one.
func (t *Task) last() int {
	if t.Final || t.Phase == phaseDone {
		return t.Attempt - 1
	}
	return t.Attempt
}

func (r *Result) last() int {
	if r.Wrote || r.Final {
		return r.Attempt - 1
	}
	return r.Attempt
}

// attempted makes the next call of the step number n+1, unless that had a higher number already.
func (m *machine) attempted(k Key, n int) {
	if n <= m.s.Attempts[k.String()] {
		return
	}
	if m.s.Attempts == nil {
		m.s.Attempts = map[string]int{}
	}
	m.s.Attempts[k.String()] = n
}

// redo gives a block that begins again what its steps have done, but for an iteration about another item.
// Where that makes calls with the numbers of what was done, the caller refuses them.
func (m *machine) redo(b *Block) {
	r := m.s.Redone[b.String()]
	if r == nil {
		return
	}
	delete(m.s.Redone, b.String())
	if !sameValue(r.Item, b.Item) {
		return
	}
	b.Redo = r.Redo
	maps.Copy(m.results(b), r.Results)
}

func sameValue(a, b *Value) bool {
	one, err := exactjson.Encode(a)
	if err != nil {
		return false
	}
	other, err := exactjson.Encode(b)
	return err == nil && bytes.Equal(one, other)
}

// reuse ends a step that runs again after a rewind, if it has changed something before.
func (m *machine) reuse(t *Task) bool {
	b := t.block
	if b.Pos >= b.Redo {
		return false
	}
	r := m.results(b)[m.p.id(t)]
	if r == nil || !r.Wrote {
		return false
	}
	t.Wrote, t.Error, t.Attempt, t.reused = true, r.Error, r.Attempt, true
	m.finish(t, r.Status, r.Output)
	return true
}

// counts adds calls of a task to the actions.
func (m *machine) counts(t *Task, n int) {
	m.s.Actions += n
	t.Counted = n
	for b := t.block; b != nil; b = b.owner.block {
		if b.Index != nil {
			b.Counted += n
		}
	}
}
