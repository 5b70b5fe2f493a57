package expression

import (
	"encoding/json"
)

// Kind is the form of a Value.
type Kind uint8

// The forms of a Value. None is that of the zero Value: nothing was written.
const (
	None Kind = iota
	Null
	Bool
	Number
	Text // a text, which may contain expressions
	List
	Object
)

// Value is a JSON value of a definition. Its texts may contain expressions. The zero Value
// is one that the definition does not have. Names of objects are never expressions, and
// members keep the order of the definition.
type Value struct {
	kind    Kind
	literal string // of a Bool or a Number, as written
	text    Template
	items   []Value
	members []Member
}

// Member is one member of an object.
type Member struct {
	Name  string
	Value Value
}

// Kind returns the form of the value.
func (v Value) Kind() Kind { return v.kind }

// IsZero reports whether the definition has no such value.
func (v Value) IsZero() bool { return v.kind == None }

// Template returns the text of a Text, and the empty template for other kinds.
func (v Value) Template() Template { return v.text }

// Items returns the items of a List.
func (v Value) Items() []Value { return v.items }

// Members returns the members of an Object, in the order of the definition.
func (v Value) Members() []Member { return v.members }

// Constant returns the value as JSON, and whether it has no expression in it.
func (v Value) Constant() (json.RawMessage, bool) {
	panic("not yet")
}

// References returns what the expressions of the value read.
func (v Value) References() References { panic("not yet") }

// Simple reports whether all expressions of the value run in this process, without a sandbox,
// however large the roots are.
func (v Value) Simple() bool { panic("not yet") }
