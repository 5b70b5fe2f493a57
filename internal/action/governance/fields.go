package governance

import (
	"encoding/json"

	"agentruntime/internal/base/schemagraph"
)

// Fields knows which argument paths a verb's schema has. It is immutable and safe for
// concurrent use. A nil Fields knows none. That of a schema that cannot be read knows all
// paths, so that an argument that the call lacks counts as missing.
type Fields struct{ graph *schemagraph.Graph }

// NewFields reads a verb's JSON Schema.
func NewFields(schema json.RawMessage) *Fields { return FieldsOf(schemagraph.Read(schema)) }

// FieldsOf returns the fields of a schema that was read.
func FieldsOf(graph *schemagraph.Graph) *Fields { return &Fields{graph: graph} }

// find reports whether the schema has the path, and which types a value there may have. The
// work is taken off what is left. Without any the path counts as known.
func (f *Fields) find(path []segment, left *int) (known bool, types kind) {
	known, types, _ = f.walk(path, left)
	return known, types
}

// secret reports whether the schema marks the path, or a place above it, as secret.
func (f *Fields) secret(path []segment, left *int) bool {
	_, _, hides := f.walk(path, left)
	return hides
}

func (f *Fields) walk(path []segment, left *int) (known bool, types kind, hides bool) {
	switch {
	case f == nil:
		return false, kindAny, false
	case f.graph.Unreadable:
		return true, kindAny, true
	case f.graph.Root == nil:
		return false, kindAny, false
	}
	// In nearly every schema a step leads from one object to one member.
	at := f.graph.Root
	for len(path) > 0 && plain(at) {
		hides = hides || at.Secret
		if at = at.Properties[path[0].name]; at == nil {
			return false, kindAny, hides
		}
		path = path[1:]
	}
	if len(path) == 0 && len(at.InPlace) == 0 {
		return true, orAny(kind(at.Types)), hides || at.Secret
	}
	known, types, deeper := spread(at, path, left)
	return known, types, hides || deeper
}

// plain reports whether the place is an object of named members and nothing else.
func plain(n *schemagraph.Node) bool {
	return len(n.InPlace)+len(n.Patterns)+len(n.Prefix)+len(n.Items) == 0 && n.Contains == nil && !n.Opaque
}

// spread is walk from one place on, where the path may lead to several. Where there are too
// many, the path counts as known and as secret.
func spread(n *schemagraph.Node, path []segment, left *int) (known bool, types kind, hides bool) {
	var at, entered, to schemagraph.Set
	at.Add(n)
	for _, s := range path {
		at.Close()
		entered = at
		entered.Enter()
		to.Reset()
		for _, in := range entered.Nodes() {
			hides = hides || in.Secret
			step(in, s, &to, left)
		}
		// An index names an element of these arrays, not of the arrays within them.
		for _, in := range at.Nodes() {
			if s.index >= 0 {
				in.Elements(s.index, &to)
			}
		}
		switch {
		case entered.Over || to.Over || *left < 0:
			return true, kindAny, true
		case len(to.Nodes()) == 0:
			return false, kindAny, hides
		}
		at = to
	}
	at.Close()
	for _, one := range at.Nodes() {
		types, hides = types|kind(one.Types), hides || one.Secret
	}
	if at.Over {
		return true, kindAny, true
	}
	return true, orAny(types), hides
}

// orAny returns types, or any type where the schema does not say.
func orAny(types kind) kind {
	if types == 0 {
		return kindAny
	}
	return types
}

// step adds the places that a member of the segment's name may be.
func step(n *schemagraph.Node, s segment, to *schemagraph.Set, left *int) {
	*left -= placeWork
	if n.Opaque {
		to.Add(n)
	}
	named := n.Properties[s.name]
	to.Add(named)
	for _, p := range n.Patterns {
		if *left -= p.Cost(len(s.name)); *left < 0 {
			return
		}
		if p.Fits(s.name, named != nil) {
			to.Add(p.Node)
		}
	}
}
