package stepmachine

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Commands that wait for their answers often have the same values: each evaluation in a loop reads the
// payload of the trigger, and each question has the form of its step. A thousand of them would have
// tens of MiB, and Temporal takes two into a new history. So each value is written once.

const (
	// shareFrom is from how many bytes on commands share their values. Fewer are written in their places.
	shareFrom = 256 << 10
	// sharedLeast is how many bytes a value has at least that is shared.
	sharedLeast = 256
	// sharedMark begins the id of a shared value. Those of stored values begin with a slash or a name.
	sharedMark = "="
)

// shared are values by their places in a list.
type shared struct {
	places map[string]int
	values []json.RawMessage
	bytes  int
	failed error
}

// put takes a value out of a command.
func (s *shared) put(v Value) Value {
	if len(v.JSON) < sharedLeast {
		return v
	}
	return Value{Stored: &Stored{ID: s.place(v.JSON)}, Invented: v.Invented}
}

func (s *shared) place(raw json.RawMessage) string {
	at, known := s.places[string(raw)]
	if !known {
		at = len(s.values)
		s.places[string(raw)], s.values = at, append(s.values, raw)
	}
	return sharedMark + strconv.Itoa(at)
}

// get puts a value back into a command.
func (s *shared) get(v Value) Value {
	if v.Stored == nil || !strings.HasPrefix(v.Stored.ID, sharedMark) {
		return v
	}
	return Value{JSON: s.at(v.Stored.ID), Invented: v.Invented}
}

func (s *shared) at(id string) json.RawMessage {
	at, err := strconv.Atoi(strings.TrimPrefix(id, sharedMark))
	if err != nil || at < 0 || at >= len(s.values) {
		s.failed = errors.New("a shared value is missing")
		return nil
	}
	return s.values[at]
}

// count adds the bytes of a value.
func (s *shared) count(v Value) Value {
	s.bytes += len(v.JSON)
	return v
}

// putForm and getForm are put and get for the schema of an answer, which is an object.
func (s *shared) putForm(form json.RawMessage) json.RawMessage {
	if len(form) < sharedLeast {
		return form
	}
	return Text(s.place(form)).JSON
}

func (s *shared) getForm(form json.RawMessage) json.RawMessage {
	var id string
	if len(form) == 0 || form[0] != '"' || json.Unmarshal(form, &id) != nil {
		return form
	}
	return s.at(id)
}

func (s *shared) countForm(form json.RawMessage) json.RawMessage {
	s.bytes += len(form)
	return form
}

// withValues returns the command with other values in the places of its own.
func withValues(command Command, other func(Value) Value, form func(json.RawMessage) json.RawMessage) Command {
	switch c := command.(type) {
	case StartVerb:
		c.Args = c.Args.with(other)
		return c
	case StartModel:
		c.Input, c.Scope, c.Given = c.Input.with(other), c.Scope.withValues(other), withValue(c.Given, other)
		return c
	case StartMap:
		c.Payload = c.Payload.with(other)
		return c
	case Evaluate:
		c.Scope = c.Scope.withValues(other)
		return c
	case AskApproval:
		c.Payload, c.Form = c.Payload.with(other), form(c.Form)
		return c
	default:
		return command // it has no values
	}
}

func (v Value) with(other func(Value) Value) Value {
	if v.Members == nil {
		return other(v)
	}
	v.Members = namedWith(v.Members, other)
	return v
}

func namedWith(list []Named, other func(Value) Value) []Named {
	if list == nil {
		return nil
	}
	out := make([]Named, len(list))
	for i, n := range list {
		out[i] = Named{n.Name, n.Value.with(other)}
	}
	return out
}

func withValue(v *Value, other func(Value) Value) *Value {
	if v == nil {
		return nil
	}
	out := v.with(other)
	return &out
}

func (s Scope) withValues(other func(Value) Value) Scope {
	for _, v := range []**Value{&s.TriggerData, &s.Vars, &s.Context, &s.Item, &s.Dot} {
		*v = withValue(*v, other)
	}
	s.Names = namedWith(s.Names, other)
	if s.Steps != nil {
		steps := make([]StepScope, len(s.Steps))
		for i, step := range s.Steps {
			step.Output, step.Error = withValue(step.Output, other), withValue(step.Error, other)
			steps[i] = step
		}
		s.Steps = steps
	}
	return s
}
