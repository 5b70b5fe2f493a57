package expression

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/itchyny/gojq"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
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
	faulty  bool   // it has an expression that cannot be read
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

// Problem is an expression within a value that cannot be read.
type Problem struct {
	Path    string // JSON Pointer below the value
	Offset  int    // in bytes of the text
	Message string
}

// NewValue makes a value of a JSON tree. Where there are problems the value only serves to find
// more of them: a text with one is empty, and is no constant.
func NewValue(n exactjson.Node) (Value, []Problem) {
	var problems []Problem
	v := newValue(n, "", &problems)
	return v, problems
}

func newValue(n exactjson.Node, path string, problems *[]Problem) Value {
	switch n.Kind {
	case exactjson.ObjectNode:
		v := Value{kind: Object, members: make([]Member, 0, len(n.Members))}
		for _, m := range n.Members {
			below := newValue(m.Value, under(path, m.Name), problems)
			v.members, v.faulty = append(v.members, Member{m.Name, below}), v.faulty || below.faulty
		}
		return v
	case exactjson.ArrayNode:
		v := Value{kind: List, items: make([]Value, 0, len(n.Items))}
		for i, item := range n.Items {
			below := newValue(item, path+"/"+strconv.Itoa(i), problems)
			v.items, v.faulty = append(v.items, below), v.faulty || below.faulty
		}
		return v
	case exactjson.TextNode:
		text, errs := ParseTemplate(n.Text)
		for _, err := range errs {
			*problems = append(*problems, Problem{path, err.Offset, err.Message})
		}
		if len(errs) > 0 {
			return Value{kind: Text, faulty: true}
		}
		return Value{kind: Text, text: text}
	case exactjson.NumberNode:
		return Value{kind: Number, literal: n.Text}
	case exactjson.TrueNode:
		return Value{kind: Bool, literal: "true"}
	case exactjson.FalseNode:
		return Value{kind: Bool, literal: "false"}
	default:
		return Value{kind: Null}
	}
}

// under returns the path of a member. A long name is shortened: a name of 100 KB above a list would
// be written once for each item.
func under(path, name string) string { return path + "/" + fault.PointerToken(clip(name, maxName)) }

// maxName is how many bytes of a name a path repeats.
const maxName = 80

// Kind returns the form of the value.
func (v Value) Kind() Kind { return v.kind }

// IsZero reports whether the definition has no such value.
func (v Value) IsZero() bool { return v.kind == None }

// Faulty reports whether the value has an expression that cannot be read.
func (v Value) Faulty() bool { return v.faulty }

// Template returns the text of a Text, and the empty template for other kinds.
func (v Value) Template() Template { return v.text }

// Items returns the items of a List.
func (v Value) Items() []Value { return v.items }

// Members returns the members of an Object, in the order of the definition.
func (v Value) Members() []Member { return v.members }

// Walk calls f with the value and each value within, outermost first, and with the JSON
// Pointer of each below the outermost. Names over 80 bytes are shortened in it.
func (v Value) Walk(f func(path string, v Value)) { v.walk("", f) }

func (v Value) walk(path string, f func(string, Value)) {
	f(path, v)
	for i, item := range v.items {
		item.walk(path+"/"+strconv.Itoa(i), f)
	}
	for _, m := range v.members {
		m.Value.walk(under(path, m.Name), f)
	}
}

// expressions calls f with each expression of the value.
func (v Value) expressions(f func(*Expr)) {
	for _, p := range v.text.parts {
		if p.Expr != nil {
			f(p.Expr)
		}
	}
	for _, item := range v.items {
		item.expressions(f)
	}
	for _, m := range v.members {
		m.Value.expressions(f)
	}
}

// Constant returns the value as JSON, and whether it has no expression in it.
func (v Value) Constant() (json.RawMessage, bool) {
	constant := v.kind != None && !v.faulty
	v.expressions(func(*Expr) { constant = false })
	if !constant {
		return nil, false
	}
	raw, err := v.write(nil, func(t Template) (json.RawMessage, error) {
		text, _ := t.Plain()
		return quote(text), nil
	})
	return raw, err == nil
}

// References returns what the expressions of the value read.
func (v Value) References() References {
	var all References
	v.expressions(func(e *Expr) { all.Add(e.refs) })
	return all
}

// Simple reports whether no expression of the value needs a sandbox, where the roots are not
// very large.
func (v Value) Simple() bool {
	simple := true
	v.expressions(func(e *Expr) { simple = simple && e.Simple() })
	return simple
}

// References returns what the expressions of the text read.
func (t Template) References() References { return Value{text: t}.References() }

// Simple is that of a Value.
func (t Template) Simple() bool { return Value{text: t}.Simple() }

// write appends the value as JSON, with each text as the function returns it.
func (v Value) write(to []byte, text func(Template) (json.RawMessage, error)) ([]byte, error) {
	var err error
	switch v.kind {
	case Text:
		raw, err := text(v.text)
		return append(to, raw...), err
	case List:
		to = append(to, '[')
		for i, item := range v.items {
			if i > 0 {
				to = append(to, ',')
			}
			if to, err = item.write(to, text); err != nil {
				return nil, err
			}
		}
		return append(to, ']'), nil
	case Object:
		to = append(to, '{')
		for i, m := range v.members {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(append(to, quote(m.Name)...), ':')
			if to, err = m.Value.write(to, text); err != nil {
				return nil, err
			}
		}
		return append(to, '}'), nil
	case Number, Bool:
		return append(to, v.literal...), nil
	default:
		return append(to, "null"...), nil
	}
}

// quote returns a text as JSON.
func quote(text string) json.RawMessage {
	raw, err := gojq.Marshal(text)
	if err != nil { // a text is always JSON
		return json.RawMessage(`""`)
	}
	return raw
}

// Add takes over what another one reads.
func (r *References) Add(other References) {
	r.TriggerData = r.TriggerData || other.TriggerData
	r.Vars = r.Vars || other.Vars
	r.Context = r.Context || other.Context
	r.Item = r.Item || other.Item
	r.Index = r.Index || other.Index
	r.Now = r.Now || other.Now
	r.Dot = r.Dot || other.Dot
	for _, s := range other.Steps {
		r.addStep(s)
	}
	for _, n := range other.Names {
		r.addName(n)
	}
	for _, n := range other.Variables {
		r.addVariable(n)
	}
}

func (r *References) addStep(s StepReference) {
	at, found := slices.BinarySearchFunc(r.Steps, s, StepReference.compare)
	if !found {
		r.Steps = slices.Insert(r.Steps, at, s)
	}
}

func (r *References) addName(name string) {
	at, found := slices.BinarySearch(r.Names, name)
	if !found {
		r.Names = slices.Insert(r.Names, at, name)
	}
}

// addVariable notes that the expression reads a variable, where it has a plain name.
func (r *References) addVariable(name string) {
	at, found := slices.BinarySearch(r.Variables, name)
	if !found && name != "" {
		r.Variables = slices.Insert(r.Variables, at, name)
	}
}

// TextValue returns a text as a value; the zero Value for the empty text.
func TextValue(t Template) Value {
	if t.source == "" {
		return Value{}
	}
	return Value{kind: Text, text: t}
}
