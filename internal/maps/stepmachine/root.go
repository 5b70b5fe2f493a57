package stepmachine

import (
	"slices"
	"strconv"
	"strings"
)

// beginMap begins with the variables of the Map.
func (m *machine) beginMap() {
	if d := m.p.def.Limits.MaxDuration.Std(); d > 0 {
		m.startTimer(m.s.Root, TimerDuration, m.now.Add(d))
	}
	m.declare(0)
}

// declare evaluates the variables from the given one on, and then begins the steps.
func (m *machine) declare(i int) {
	if i < len(m.p.def.Vars) {
		m.evaluate(m.s.Root, fieldVars+strconv.Itoa(i))
		return
	}
	m.enter(m.s.Root, phaseInside)
	m.open(m.s.Root, &Block{Key: Key{Path: mainList}})
}

// mapEvaluated goes on with a variable, or with the output of the Map.
func (m *machine) mapEvaluated(t *Task, what string, v Value) {
	if i, ok := numbered(what, fieldVars); ok {
		m.set(m.p.def.Vars[i].Name, v)
		m.declare(i + 1)
		return
	}
	m.enter(t, phaseInside)
	m.succeed(v)
}

// mapBlockEnded goes on when the steps of the Map, or of on_failure, have all run.
func (m *machine) mapBlockEnded(b *Block) {
	if b.Path == onFailureList {
		m.onFailureEnded()
		return
	}
	if m.p.def.Output.IsZero() {
		output := Value{}
		if b.Last != nil {
			output = *b.Last
		}
		m.succeed(output)
		return
	}
	m.evaluate(m.s.Root, fieldOutput)
}

// set gives a variable a value.
func (m *machine) set(name string, v Value) {
	i, found := slices.BinarySearchFunc(m.s.Vars, name, func(n Named, name string) int { return strings.Compare(n.Name, name) })
	if found {
		m.s.Vars[i].Value = v
		return
	}
	m.s.Vars = slices.Insert(m.s.Vars, i, Named{name, v})
}

// returned ends the Map well. There is none in on_failure.
func (m *machine) returned(t *Task) {
	output := *t.Input
	m.finish(t, StepCompleted, &output)
	m.succeed(output)
}
