package stepmachine

import (
	"encoding/json"
	"time"

	"agentruntime/internal/maps/expression"
)

// Scope is what one expression reads: expression.Roots with values that may be references.
type Scope struct {
	TriggerData *Value      `json:"trigger_data,omitempty"`
	Vars        *Value      `json:"vars,omitempty"`
	Context     *Value      `json:"context,omitempty"`
	Item        *Value      `json:"item,omitempty"`
	Dot         *Value      `json:"dot,omitempty"`
	Index       *int        `json:"index,omitempty"`
	Now         string      `json:"now,omitempty"`
	Steps       []StepScope `json:"steps,omitempty"`
	Names       []Named     `json:"names,omitempty"`
}

// StepScope is what an expression reads of one step.
type StepScope struct {
	ID     string     `json:"id"`
	Status StepStatus `json:"status"`
	Output *Value     `json:"output,omitempty"`
	Error  *Value     `json:"error,omitempty"`
}

// scope gathers what the references name, as the task sees it.
func (m *machine) scope(t *Task, refs expression.References, dot *Value) Scope {
	s := Scope{Dot: dot}
	if refs.TriggerData {
		s.TriggerData = &m.s.TriggerData
	}
	if refs.Context {
		s.Context = &m.s.Context
	}
	if refs.Vars {
		vars := Value{Members: append([]Named{}, m.s.Vars...)}
		for _, v := range m.s.Vars {
			vars.Invented = union(vars.Invented, v.Value.Invented)
		}
		s.Vars = &vars
	}
	if refs.Now {
		s.Now = m.now.Format(time.RFC3339) // whole seconds: what fromdate of jq reads
	}
	if refs.Item {
		s.Item = t.item()
	}
	if refs.Index {
		if i := t.index(); i != nil {
			s.Index = new(*i)
		}
	}
	for _, name := range refs.Names {
		if v, ok := m.named(t, name); ok {
			s.Names = append(s.Names, Named{name, v})
		}
	}
	for _, r := range refs.Steps {
		if step, ok := m.stepScope(t, r.ID); ok && (len(s.Steps) == 0 || s.Steps[len(s.Steps)-1].ID != r.ID) {
			s.Steps = append(s.Steps, step)
		}
	}
	return s
}

// item returns the item of the innermost foreach around the task; nil outside of one.
func (t *Task) item() *Value {
	for b := t.block; b != nil; b = b.owner.block {
		if b.Item != nil {
			return b.Item
		}
	}
	return nil
}

// index returns the index of the innermost loop. The condition of a while has that of the
// iteration it decides about.
func (t *Task) index() *int {
	if t.Loop != nil && t.Loop.While {
		return &t.Loop.Next
	}
	for b := t.block; b != nil; b = b.owner.block {
		if b.Index != nil {
			return b.Index
		}
	}
	return nil
}

// named returns what "as" of the innermost foreach or catch around the task gives the name.
func (m *machine) named(t *Task, name string) (Value, bool) {
	for b := t.block; b != nil; b = b.owner.block {
		if b.As == name {
			return b.bound(), true
		}
	}
	return Value{}, false
}

// bound returns the value of the block's name.
func (b *Block) bound() Value {
	if b.Item != nil {
		return *b.Item
	}
	return b.Caught.value()
}

// stepScope returns what the task sees of a step: of the innermost iteration that has it.
func (m *machine) stepScope(t *Task, id string) (StepScope, bool) {
	if m.p.id(t) == id && t.Output != nil {
		return StepScope{ID: id, Status: StepCompleted, Output: t.Output}, true
	}
	for b := t.block; b != nil; b = b.owner.block {
		if r := b.Results[id]; r != nil {
			return r.scope(id), true
		}
	}
	if r := m.s.Results[id]; r != nil {
		return r.scope(id), true
	}
	return StepScope{}, false
}

func (r *Result) scope(id string) StepScope {
	s := StepScope{ID: id, Status: r.Status, Output: r.Output}
	if r.Error != nil {
		v := r.Error.value()
		s.Error = &v
	}
	return s
}

// values lists what the scope has.
func (s Scope) values() []*Value {
	list := []*Value{s.TriggerData, s.Vars, s.Context, s.Item, s.Dot}
	for i := range s.Names {
		list = append(list, &s.Names[i].Value)
	}
	for _, step := range s.Steps {
		list = append(list, step.Output, step.Error)
	}
	return list
}

// referred reports whether a value of the scope has to be loaded.
func (s Scope) referred() bool {
	for _, v := range s.values() {
		if v != nil && v.referred() {
			return true
		}
	}
	return false
}

// invented returns the changes from whose results values of the scope were built.
func (s Scope) invented() []string {
	var all []string
	for _, v := range s.values() {
		if v != nil {
			all = union(all, v.Invented)
		}
	}
	return all
}

// roots returns the scope as an evaluation reads it, with its references loaded.
func (s Scope) roots(load func(Stored) (json.RawMessage, error)) (expression.Roots, error) {
	var failed error
	raw := func(v *Value) json.RawMessage {
		if v == nil || failed != nil {
			return nil
		}
		var text json.RawMessage
		text, failed = v.Resolve(load)
		return text
	}
	r := expression.Roots{
		TriggerData: raw(s.TriggerData), Vars: raw(s.Vars), Context: raw(s.Context), Item: raw(s.Item), Dot: raw(s.Dot),
		Index: s.Index, Now: s.Now,
	}
	if len(s.Steps) > 0 {
		r.Steps = map[string]expression.StepRoots{}
	}
	for _, step := range s.Steps {
		r.Steps[step.ID] = expression.StepRoots{Output: raw(step.Output), Error: raw(step.Error), Status: string(step.Status)}
	}
	if len(s.Names) > 0 {
		r.Names = map[string]json.RawMessage{}
	}
	for i := range s.Names {
		r.Names[s.Names[i].Name] = raw(&s.Names[i].Value)
	}
	return r, failed
}
