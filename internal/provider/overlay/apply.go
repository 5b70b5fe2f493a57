package overlay

import (
	"slices"

	"agentruntime/internal/base/exactjson"
)

// Limits say how much applying an overlay may do.
type Limits struct {
	Work   int         // units of about a microsecond
	Values int         // that it may add to the document
	More   func() bool // asked now and then whether to go on
}

// RuleWork is the rule of a fault that says that a limit was reached.
const RuleWork = "work"

// Apply changes the document, action by action, and returns the pointers of the actions whose
// targets were not there. The fault names the action that cannot be applied; the document is then
// of no use. The document is changed in place, and shares nothing with the overlay.
func (o *Overlay) Apply(root map[string]any, limits Limits) (unused []string, f *Fault) {
	r := &run{b: &budget{left: limits.Work, more: limits.More}, root: root, values: limits.Values, primitives: o.primitives}
	for _, a := range o.actions {
		found, f := r.apply(a)
		switch {
		case r.b.left < 0 || r.values < 0:
			return nil, &Fault{a.at, RuleWork, "The overlay takes too much work on this document, or adds too much to it. Name targets more closely, with fewer .. and filters, or split the document."}
		case f != nil:
			return nil, f
		case !found:
			unused = append(unused, a.at)
		}
	}
	return unused, nil
}

// run is an overlay that is being applied.
type run struct {
	b          *budget
	root       map[string]any
	values     int // that may still be added
	primitives bool
}

func (r *run) apply(a action) (found bool, f *Fault) {
	targets, f := r.find(a.target, a.at+"/target")
	if f != nil || len(targets) == 0 {
		return false, f
	}
	if a.remove {
		// The last first: so the positions of those before stay.
		for _, p := range slices.Backward(targets) {
			if p.parent == nil {
				return true, &Fault{a.at + "/target", "root", "The whole document cannot be removed."}
			}
			r.remove(p)
		}
		return true, nil
	}
	value, at := a.update, a.at+"/update"
	if a.copy != "" {
		at = a.at + "/copy"
		sources, f := r.find(a.copy, at)
		if f != nil {
			return true, f
		}
		if len(sources) != 1 {
			return true, &Fault{at, "copy", "copy leads to one value, here to none or several."}
		}
		value = r.clone(sources[0].value, 0)
	}
	for _, p := range targets {
		if f := r.update(p, value, at); f != nil {
			return true, f
		}
	}
	return true, nil
}

func (r *run) find(path, at string) ([]*place, *Fault) {
	q, err := parsePath(path, r.b)
	if err != nil {
		return nil, &Fault{at, "jsonpath", sentence(err)}
	}
	return selectPlaces(q, r.root, r.b), nil
}

// now returns the value that is at the place, after what was changed since it was found.
func (r *run) now(p *place) (any, bool) {
	if p.parent == nil {
		return r.root, true
	}
	parent, ok := r.now(p.parent)
	if !ok || !r.b.spend(1) {
		return nil, false
	}
	switch v := parent.(type) {
	case map[string]any:
		value, has := v[p.name]
		return value, has
	case []any:
		if p.index < len(v) {
			return v[p.index], true
		}
	}
	return nil, false
}

// set puts a value at a place that is there.
func (r *run) set(p *place, value any) {
	parent, _ := r.now(p.parent)
	switch v := parent.(type) {
	case map[string]any:
		v[p.name] = value
	case []any:
		v[p.index] = value
	}
}

func (r *run) remove(p *place) {
	parent, ok := r.now(p.parent)
	if !ok {
		return
	}
	switch v := parent.(type) {
	case map[string]any:
		delete(v, p.name)
	case []any:
		if p.index < len(v) && r.b.spend(1+(len(v)-p.index)/64) {
			r.set(p.parent, slices.Delete(v, p.index, p.index+1))
		}
	}
}

// update merges the value into what is at the place.
func (r *run) update(p *place, value any, at string) *Fault {
	target, ok := r.now(p)
	if !ok {
		return nil
	}
	depth := p.depth()
	switch t := target.(type) {
	case map[string]any:
		object, ok := value.(map[string]any)
		if !ok {
			return &Fault{at, "type", "The target is an object, so the value is one too."}
		}
		r.merge(t, object, depth)
	case []any:
		r.set(p, r.extend(t, value, depth))
	default:
		switch value.(type) {
		case map[string]any, []any:
			return &Fault{at, "type", "The target is a text, a number, a boolean or null, so the value is one too."}
		}
		if !r.primitives {
			return &Fault{at, "type", "A target that is no object and no array needs an overlay of version 1.1.0."}
		}
		r.set(p, value)
	}
	if r.values < 0 {
		return &Fault{at, RuleWork, "The document becomes too large or too deep."}
	}
	return nil
}

// merge puts the members of an object into another: objects are merged, arrays joined, and
// everything else is replaced.
func (r *run) merge(into, from map[string]any, depth int) {
	for name, value := range from {
		if !r.b.spend(1) {
			return
		}
		switch have := into[name].(type) {
		case map[string]any:
			if object, ok := value.(map[string]any); ok {
				r.merge(have, object, depth+1)
				continue
			}
		case []any:
			if list, ok := value.([]any); ok {
				into[name] = r.extend(have, list, depth+1)
				continue
			}
		}
		into[name] = r.clone(value, depth+1)
	}
}

// extend adds the entries of an array, or one other value.
func (r *run) extend(list []any, value any, depth int) []any {
	entries, several := value.([]any)
	if !several {
		entries = []any{value}
	}
	if !r.b.spend(len(list) / 64) {
		return list
	}
	out := slices.Clip(list)
	for _, entry := range entries {
		out = append(out, r.clone(entry, depth+1))
	}
	return out
}

// clone copies a value that will be so deep in the document.
func (r *run) clone(value any, depth int) any {
	if r.values--; r.values < 0 || !r.b.spend(1) {
		return nil
	}
	if depth > exactjson.MaxDepth {
		r.values = -1
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = r.clone(member, depth+1)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, entry := range v {
			out[i] = r.clone(entry, depth+1)
		}
		return out
	}
	return value
}
