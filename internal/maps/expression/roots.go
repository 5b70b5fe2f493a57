package expression

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Field is what an expression reads of a step.
type Field string

// The fields of a step.
const (
	Output Field = "output"
	Error  Field = "error"
	Status Field = "status"
)

// Roots is all that an evaluation sees. A value that is nil is null. Only what References
// names has to be there.
type Roots struct {
	TriggerData json.RawMessage
	Vars        json.RawMessage // an object
	Context     json.RawMessage // an object: who started the execution, and its ids
	Item        json.RawMessage // of the innermost foreach
	Index       *int            // of the innermost loop, from 0; nil outside of one
	// Steps has the steps that have ended, by id. A step that is not in it is null.
	Steps map[string]StepRoots
	// Names are the values that "as" of a foreach or a catch gives a name, and error within
	// on_failure.
	Names map[string]json.RawMessage
	// Now is $now, an RFC 3339 time in UTC. The caller keeps it, so that a repeat sees the same.
	Now string
	// Dot is "." where the definition says what it is: the event of a filter, the calls of
	// complete_when; nil elsewhere.
	Dot json.RawMessage
}

// StepRoots is what expressions read of a step that has ended.
type StepRoots struct {
	Output json.RawMessage
	Error  json.RawMessage // nil where the step did not fail
	Status string          // completed, failed or skipped
}

// References is what an expression, or a value with expressions, reads. Lists have each entry
// once, sorted.
type References struct {
	TriggerData, Vars, Context, Item, Index, Now, Dot bool

	Steps []StepReference
	Names []string // given by "as"
	// Variables are those that vars.<name> reads. What reads vars in another way is not among them.
	Variables []string
}

// StepReference is one field of one step.
type StepReference struct {
	ID    string
	Field Field
}

// Step reports whether the step of that id is read, in any field.
func (r References) Step(id string) bool {
	return slices.ContainsFunc(r.Steps, func(s StepReference) bool { return s.ID == id })
}

// compare orders references by step and field.
func (s StepReference) compare(other StepReference) int {
	return cmp.Or(strings.Compare(s.ID, other.ID), strings.Compare(string(s.Field), string(other.Field)))
}

// variables returns the names of the variables that the roots are bound to, in the order of
// values.
func (r References) variables() []string {
	var list []string
	for _, root := range r.roots() {
		list = append(list, root.name)
	}
	return list
}

// root is one root that an expression reads: the name of its variable and its value.
type root struct {
	name  string
	value func(*values) (any, error)
}

// roots lists what the expression reads.
func (r References) roots() []root {
	var list []root
	add := func(used bool, name string, raw func(Roots) json.RawMessage) {
		if used {
			list = append(list, root{prefix + name, func(v *values) (any, error) { return v.decode(name, raw(v.roots)) }})
		}
	}
	add(r.TriggerData, rootTrigger, func(r Roots) json.RawMessage { return r.TriggerData })
	add(r.Vars, rootVars, func(r Roots) json.RawMessage { return r.Vars })
	add(r.Context, rootContext, func(r Roots) json.RawMessage { return r.Context })
	add(r.Item, rootItem, func(r Roots) json.RawMessage { return r.Item })
	for _, name := range r.Names {
		add(true, name, func(r Roots) json.RawMessage { return r.Names[name] })
	}
	if r.Index {
		list = append(list, root{prefix + rootIndex, func(v *values) (any, error) { return v.index(), nil }})
	}
	if len(r.Steps) > 0 {
		list = append(list, root{prefix + rootSteps, func(v *values) (any, error) { return v.steps(r.Steps) }})
	}
	if r.Now {
		list = append(list, root{rootNow, func(v *values) (any, error) { return v.now(), nil }})
	}
	return list
}
