package authoring

import (
	"encoding/json"
	"strconv"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/expression"
)

// constant returns a value without what expressions make, and the JSON Pointers of what it leaves
// out. An item of a list that an expression makes is null, so that the others keep their places.
// It returns nil where an expression makes the whole.
func constant(v expression.Value) (raw json.RawMessage, open []string) {
	if v.IsZero() {
		return json.RawMessage("{}"), nil
	}
	w := writer{}
	if !w.value(v, "") {
		return nil, []string{""}
	}
	return w.out, w.open
}

// named returns a value with null for what expressions make: its names are all there.
func named(v expression.Value) json.RawMessage {
	w := writer{null: true}
	w.value(v, "")
	return w.out
}

type writer struct {
	out  json.RawMessage
	open []string
	null bool // what expressions make is null, and not left out
	// long: the path ends with a long name. It stands for all below, so that it is not written once
	// for each of them.
	long bool
}

// longName is how many bytes a name has at least that ends a path.
const longName = 256

func (w *writer) below(path, token string) string {
	if w.long {
		return path
	}
	return path + "/" + token
}

// leave notes that an expression makes what is at the path.
func (w *writer) leave(path string) {
	if n := len(w.open); n == 0 || w.open[n-1] != path {
		w.open = append(w.open, path)
	}
}

// value writes what is constant of v. It returns false, and writes nothing, where v is a text
// with expressions.
func (w *writer) value(v expression.Value, path string) bool {
	switch v.Kind() {
	case expression.Object:
		w.object(v, path)
		return true
	case expression.List:
		w.out = append(w.out, '[')
		for i, item := range v.Items() {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			at := w.below(path, strconv.Itoa(i))
			if !w.value(item, at) {
				w.leave(at)
				w.out = append(w.out, "null"...)
			}
		}
		w.out = append(w.out, ']')
		return true
	default:
		raw, is := v.Constant()
		w.out = append(w.out, raw...)
		return is
	}
}

func (w *writer) object(v expression.Value, path string) {
	w.out = append(w.out, '{')
	first, outer := true, w.long
	for _, m := range v.Members() {
		w.long = outer
		at := w.below(path, fault.PointerToken(m.Name))
		w.long = outer || len(m.Name) >= longName
		before := len(w.out)
		if !first {
			w.out = append(w.out, ',')
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			continue // never: a name is a text
		}
		w.out = append(append(w.out, name...), ':')
		if !w.value(m.Value, at) {
			w.leave(at)
			if !w.null {
				w.out = w.out[:before]
				continue
			}
			w.out = append(w.out, "null"...)
		}
		first = false
	}
	w.long = outer
	w.out = append(w.out, '}')
}
