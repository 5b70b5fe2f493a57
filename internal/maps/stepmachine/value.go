package stepmachine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"agentruntime/internal/base/exactjson"
)

// MaxInline is how many bytes a value may have inside the state. Larger ones are stored by
// the caller, and the state refers to them.
const MaxInline = 32 << 10

// Value is a JSON value in a state, a command or an event: inline, by reference, or an object
// of such values. The zero Value is null.
type Value struct {
	JSON    json.RawMessage `json:"json,omitempty"`
	Stored  *Stored         `json:"stored,omitempty"`
	Members []Named         `json:"members,omitempty"` // of an object, sorted by name
	// Invented lists the changes of a dry run whose invented results the value was built from, or
	// AnyChange.
	Invented []string `json:"invented,omitempty"`
}

// Stored names a value that the caller keeps.
type Stored struct {
	ID string `json:"id"`
	// At is the JSON Pointer of the part that is meant; "" for all of it.
	At    string `json:"at,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
	// Items is how many items an array has; nil for a value that is not an array.
	Items *int `json:"items,omitempty"`
}

// Named is a value with a name.
type Named struct {
	Name  string `json:"name"`
	Value Value  `json:"value"`
}

// Of returns an inline value. Text that is not JSON is null.
func Of(raw json.RawMessage) Value {
	if len(raw) == 0 || string(raw) == "null" {
		return Value{}
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return Value{}
	}
	return Value{JSON: b.Bytes()}
}

func number(n int) Value { return Of(json.RawMessage(strconv.Itoa(n))) }

// Text returns a JSON string.
func Text(s string) Value {
	raw, err := exactjson.Encode(s)
	if err != nil {
		return Value{}
	}
	return Value{JSON: raw}
}

// object returns an object of the values. It takes the slice over.
func object(members []Named) Value {
	slices.SortFunc(members, func(a, b Named) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	v := Value{Members: members}
	for _, m := range members {
		v.Invented = union(v.Invented, m.Value.Invented)
	}
	if v.referred() {
		return v
	}
	raw, err := v.Resolve(nil)
	if err != nil {
		return Value{}
	}
	return Value{JSON: raw, Invented: v.Invented}
}

// orEmpty returns the value, and an empty object for null.
func (v Value) orEmpty() Value {
	if v.IsNull() {
		return Value{JSON: json.RawMessage("{}"), Invented: v.Invented}
	}
	return v
}

// IsNull reports whether the value is null.
func (v Value) IsNull() bool {
	return v.Stored == nil && v.Members == nil && (len(v.JSON) == 0 || string(v.JSON) == "null")
}

// referred reports whether a part of the value is not in the state.
func (v Value) referred() bool {
	return v.Stored != nil || slices.ContainsFunc(v.Members, func(m Named) bool { return m.Value.referred() })
}

// size returns how many bytes of the value are in the state.
func (v Value) size() int {
	n := len(v.JSON)
	for _, m := range v.Members {
		n += len(m.Name) + m.Value.size()
	}
	return n
}

// raw returns an inline value as JSON.
func (v Value) raw() json.RawMessage {
	if len(v.JSON) == 0 {
		return json.RawMessage("null")
	}
	return v.JSON
}

// MaxResolved is the most bytes that a value may have in full: 32 MiB, which is also what one
// expression can read. A value refers to others, and these to others again, so that a small state
// can mean any amount of memory.
const MaxResolved = 32 << 20

// ErrTooLarge says that a value has more than MaxResolved bytes.
var ErrTooLarge = errors.New("resolve a value: it has more than 32 MiB in full")

// Resolve returns the value as JSON, with what load returns for its references. The error is
// ErrTooLarge where that is too much, or that of load.
func (v Value) Resolve(load func(Stored) (json.RawMessage, error)) (json.RawMessage, error) {
	switch {
	case v.Stored != nil && load == nil:
		return nil, fmt.Errorf("resolve %s: nothing loads it", v.Stored.ID)
	case v.Stored != nil:
		return load(*v.Stored)
	case v.Members == nil:
		return v.raw(), nil
	}
	b := []byte{'{'}
	for i, m := range v.Members {
		if i > 0 {
			b = append(b, ',')
		}
		raw, err := m.Value.Resolve(load)
		if err != nil {
			return nil, err
		}
		if len(b)+len(raw) > MaxResolved {
			return nil, ErrTooLarge
		}
		b = append(append(append(b, Text(m.Name).JSON...), ':'), raw...)
	}
	return append(b, '}'), nil
}

// item returns the part of an array at an index, given its decoded items where it is inline.
func (v Value) item(i int, items []json.RawMessage) Value {
	if v.Stored == nil {
		return Value{JSON: items[i], Invented: v.Invented}
	}
	at := *v.Stored
	at.At += "/" + strconv.Itoa(i)
	at.Bytes, at.Items = 0, nil
	return Value{Stored: &at, Invented: v.Invented}
}

// fit returns the value as the state may have it: one over MaxInline, or over less where the state
// has much, is stored under the name, once.
func (m *machine) fit(v Value, id string) Value {
	size := v.size()
	if size <= m.mostInline() {
		m.takes(size)
		return v
	}
	s := Stored{ID: id, Bytes: size}
	if v.JSON != nil && v.JSON[0] == '[' {
		n := len(elements(v.JSON))
		s.Items = &n
	}
	m.do(StoreValue{ID: id, Value: v})
	return Value{Stored: &s, Invented: v.Invented}
}

// elements returns the items of an array as they are written.
func elements(raw json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil
	}
	return items
}

// AnyChange stands for all changes so far, where a value was built from very many.
const AnyChange = "*"

// maxInvented is how many changes a value lists.
const maxInvented = 50

// union returns the changes of both lists, sorted, each once.
func union(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxInvented || slices.Contains(all, AnyChange) {
		return []string{AnyChange}
	}
	return all
}
