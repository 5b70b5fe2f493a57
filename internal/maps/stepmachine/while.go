package stepmachine

import (
	"fmt"
	"strconv"

	"agentruntime/internal/maps/mapdef"
)

// repeat begins a while.
func (m *machine) repeat(t *Task, do *mapdef.DoWhile) {
	m.forgetResults(t, do)
	t.Loop = &Loop{While: true}
	m.evaluate(t, fieldWhen)
}

// forgetResults removes what the steps of the last iteration left behind: only the condition
// reads that.
func (m *machine) forgetResults(t *Task, do *mapdef.DoWhile) {
	results := m.results(t.block)
	mapdef.Walk(do.Steps, func(s *mapdef.Step) { delete(results, s.ID) })
}

// decideWhile begins the next iteration of a while, or ends it.
func (m *machine) decideWhile(t *Task, do *mapdef.DoWhile, yes bool) {
	m.forgetResults(t, do)
	switch {
	case !yes:
		m.complete(t, Value{})
	case t.Loop.Next >= do.MaxIterations:
		m.fail(t, NewError(mapdef.CodeLoopLimit, fmt.Sprintf("the condition is still true after %d iterations", do.MaxIterations)))
	default:
		m.enter(t, phaseInside)
		index := t.Loop.Next
		m.open(t, &Block{Key: t.body(index), Index: &index})
	}
}

// whileEnded asks the condition again after an iteration.
func (m *machine) whileEnded(t *Task, b *Block) {
	m.close(b)
	t.Loop.Next++
	t.Loop.Done++
	t.Loop.Counted += b.Counted
	m.evaluate(t, fieldWhen)
}

// body returns the key of the block of one iteration.
func (t *Task) body(index int) Key {
	iteration := strconv.Itoa(index)
	if t.Iteration != "" {
		iteration = t.Iteration + "." + iteration
	}
	return Key{t.Path + "/steps", iteration}
}
