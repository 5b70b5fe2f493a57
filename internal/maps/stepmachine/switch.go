package stepmachine

import (
	"strconv"

	"agentruntime/internal/maps/mapdef"
)

// choose looks at the cases of a switch from the given one on.
func (m *machine) choose(t *Task, do *mapdef.DoSwitch, i int) {
	if i < len(do.Cases) {
		m.evaluate(t, fieldCase+strconv.Itoa(i))
		return
	}
	m.runCase(t, t.Path+"/default")
}

// chosen runs the case whose condition is true, or looks at the next one.
func (m *machine) chosen(t *Task, do *mapdef.DoSwitch, i int, yes bool) {
	if yes {
		m.runCase(t, t.Path+"/cases/"+strconv.Itoa(i)+"/steps")
		return
	}
	m.choose(t, do, i+1)
}

func (m *machine) runCase(t *Task, path string) {
	m.enter(t, phaseInside)
	m.open(t, &Block{Key: Key{path, t.Iteration}})
}
