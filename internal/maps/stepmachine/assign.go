package stepmachine

import (
	"strconv"

	"agentruntime/internal/maps/mapdef"
)

// assign evaluates the values of a set step from the given one on. When it has all, it sets
// the variables: no value sees another one of the same step.
func (m *machine) assign(t *Task, do *mapdef.DoSet, i int) {
	if i < len(do.Assign) {
		m.evaluate(t, fieldAssign+strconv.Itoa(i))
		return
	}
	for _, a := range t.Assigned {
		m.set(a.Name, a.Value)
	}
	m.complete(t, object(t.Assigned))
}

// assigned takes the value of one variable.
func (m *machine) assigned(t *Task, do *mapdef.DoSet, i int, v Value) {
	t.Assigned = append(t.Assigned, Named{do.Assign[i].Name, v})
	m.assign(t, do, i+1)
}
