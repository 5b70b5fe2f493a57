package expression

import (
	"encoding/json"
	"slices"
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
