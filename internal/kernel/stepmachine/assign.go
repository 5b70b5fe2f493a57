package stepmachine

import (
	"strconv"

	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/mapdef"
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

// validate ends a validate step by whether its value fits the schema. A stored value is
// checked by the caller, which loads it anyway.
func (m *machine) validate(t *Task) {
	if e := m.unexpected(t, *t.Input); e != nil {
		m.fail(t, NewError(mapdef.CodeValidation, e.Detail))
		return
	}
	m.complete(t, *t.Input)
}

// misfit says what does not fit a schema, in one line.
func misfit(details []fault.Detail) string {
	d := details[0]
	path := d.Path[len("/args"):]
	if path == "" {
		path = "the value"
	}
	text := path + " " + d.Message
	if n := len(details) - 1; n > 0 {
		text += ", and " + strconv.Itoa(n) + " more"
	}
	return text
}
