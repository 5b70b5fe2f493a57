// Package schemagraph reads a JSON Schema as a graph of places: which parts of the schema
// speak about a value, about its members and about its elements. Governance finds the
// arguments of a verb in it, and the masker finds what is secret. It judges no values:
// internal/base/argschema does.
package schemagraph

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/pattern"
)

// Types are the kinds of JSON values that a schema allows.
type Types uint8

// The kinds of JSON values.
const (
	Null Types = 1 << iota
	Bool
	Number
	String
	Array
	Object

	Any = Null | Bool | Number | String | Array | Object
)

// Node is one schema of a graph: one place.
type Node struct {
	Types Types // 0 where the schema does not say
	// Secret: format password, writeOnly, x-sensitive, or Opaque.
	Secret bool
	// Opaque: it may have any member. The importer gave it up (x-opaque), its reference
	// leads nowhere, or it is beyond what is read.
	Opaque bool
	// Live: Secret, or something secret can be reached from here.
	Live bool

	Properties map[string]*Node
	// Patterns are patternProperties, and without an expression additionalProperties and
	// unevaluatedProperties: those are for the members that Properties does not name.
	Patterns []Pattern
	Prefix   []*Node
	// Items are items, additionalItems and unevaluatedItems: the elements after Prefix.
	Items    []*Node
	Contains *Node
	// InPlace are the schemas for the same value: $ref, allOf, anyOf, oneOf, if, then, else
	// and dependentSchemas.
	InPlace []*Node
	// Denied is not: its marks count, and nothing else that it says.
	Denied *Node
	// Names is propertyNames: the schema of the members' names.
	Names *Node

	secrets     map[string][]*Node // live properties, by their folded name
	namesSecret bool
}

// Pattern is a schema for the members whose name an expression fits.
type Pattern struct {
	// Expression is nil where any name fits.
	Expression *pattern.Pattern
	// Rest: only names that Properties does not have.
	Rest bool
	Node *Node
}

// Elements adds what the schema says of element i of an array.
func (n *Node) Elements(i int, to *Set) {
	to.Add(n.Contains)
	if i < len(n.Prefix) {
		to.Add(n.Prefix[i])
		return
	}
	for _, items := range n.Items {
		to.Add(items)
	}
}

// Fits reports whether the pattern is about a member of the name. named says whether
// Properties has it.
func (p Pattern) Fits(name string, named bool) bool {
	if p.Rest {
		return !named
	}
	return p.Expression == nil || p.Expression.MatchString(name)
}

// Cost returns the most work of Fits for a name of n bytes, in steps of package pattern.
func (p Pattern) Cost(n int) int {
	if p.Expression == nil {
		return 1
	}
	return p.Expression.Cost(n)
}

// Secrets returns the live schemas of a property whose name differs from the given one in
// case at most. Providers that ignore case read both alike.
func (n *Node) Secrets(name string) []*Node {
	if n.secrets == nil {
		return nil
	}
	return n.secrets[Fold(name)]
}

// Fold returns the name in simple Unicode case folding: two names have the same folded
// form exactly where strings.EqualFold is true.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r <= unicode.MaxASCII {
			if 'a' <= r && r <= 'z' {
				r -= 'a' - 'A'
			}
			return r
		}
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}

// Limits of one schema. A document that has more of anything counts as opaque.
const (
	maxNodes = 20_000
	// maxPlaces is how many bytes the places of all nodes may have together: a long name is
	// part of the place of everything below it.
	maxPlaces = 8 << 20
	// maxPattern is how many instructions one expression of patternProperties may have, and
	// maxPatterns how many all of them.
	maxPattern  = 2_000
	maxPatterns = 20_000
)

// Graph is a schema that was read. It is immutable and safe for concurrent use.
type Graph struct {
	Root *Node // nil where the schema says nothing (true)
	// Unreadable: the schema is not JSON, or has too many places. Anything may be in it.
	Unreadable bool
	size       int
}

// Read reads a schema. A schema that is absent has no places.
func Read(schema json.RawMessage) *Graph {
	if len(schema) == 0 {
		return &Graph{}
	}
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return &Graph{Unreadable: true}
	}
	r := reader{root: root, places: map[string]*Node{}}
	g := &Graph{Root: r.read(root, "#")}
	if r.err != nil {
		return &Graph{Unreadable: true}
	}
	markLive(r.list)
	g.size = len(r.list)*nodeSize + r.programs*instructionSize
	for _, n := range r.list {
		g.size += len(n.Properties) * propertySize
		n.indexSecrets()
		n.namesSecret = n.hidesNames()
	}
	return g
}

// What a graph takes of memory, in bytes. The compiler's sizes are rounded up.
const (
	nodeSize        = 240
	propertySize    = 64
	instructionSize = 100
)

// Size returns about how many bytes of memory the graph takes.
func (g *Graph) Size() int { return g.size }

var errTooMany = errors.New("schemagraph: too many places")

// reader builds the graph of one schema. places has what was read, by JSON Pointer, so that
// the reading of a schema that refers to itself ends.
type reader struct {
	root     any
	places   map[string]*Node
	list     []*Node
	programs int
	pointers int // bytes of all places
	err      error
}

// below returns the place of a part of a schema, "" where there are too many.
func (r *reader) below(at string, names ...string) string {
	n := len(at)
	for _, name := range names {
		n += len(name) + 1
	}
	if r.pointers += n; r.pointers > maxPlaces {
		r.err = errTooMany
	}
	if r.err != nil {
		return ""
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteString(at)
	for _, name := range names {
		b.WriteByte('/')
		b.WriteString(fault.PointerToken(name))
	}
	return b.String()
}

func (r *reader) add(n *Node) *Node {
	if r.list = append(r.list, n); len(r.list) > maxNodes {
		r.err = errTooMany
	}
	return n
}

// read returns the node of a schema, nil for one that says nothing (true, false, absent).
func (r *reader) read(schema any, at string) *Node {
	s, ok := schema.(map[string]any)
	if !ok || r.err != nil {
		return nil
	}
	if n, known := r.places[at]; known {
		return n
	}
	n := r.add(&Node{Types: typesOf(s), Opaque: s["x-opaque"] == true})
	r.places[at] = n
	n.Secret = n.Opaque || s["format"] == "password" || s["writeOnly"] == true || s["x-sensitive"] == true
	r.properties(n, s, at)
	r.patterns(n, s, at)
	r.arrays(n, s, at)
	r.inPlace(n, s, at)
	n.Denied = r.word(s, "not", at)
	n.Names = r.word(s, "propertyNames", at)
	return n
}

// word returns the node of the schema under a keyword, nil where there is none.
func (r *reader) word(s map[string]any, word, at string) *Node {
	if _, ok := s[word].(map[string]any); !ok {
		return nil
	}
	return r.read(s[word], r.below(at, word))
}

func (r *reader) properties(n *Node, s map[string]any, at string) {
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		return
	}
	n.Properties = make(map[string]*Node, len(properties))
	for name, p := range properties {
		if p == false {
			continue
		}
		var child *Node
		if _, ok := p.(map[string]any); ok {
			child = r.read(p, r.below(at, "properties", name))
		}
		if child == nil {
			child = r.add(&Node{Types: Any})
		}
		n.Properties[name] = child
	}
}

func (r *reader) patterns(n *Node, s map[string]any, at string) {
	list, _ := s["patternProperties"].(map[string]any)
	for expression, p := range list {
		child := r.read(p, r.below(at, "patternProperties", expression))
		if child == nil {
			continue
		}
		// An expression that cannot be compiled, or costs too much, may fit any name.
		compiled, err := pattern.Compile(expression, maxPattern)
		if err == nil {
			r.programs += compiled.Size()
		}
		if err != nil || r.programs > maxPatterns {
			compiled = nil
		}
		n.Patterns = append(n.Patterns, Pattern{Expression: compiled, Node: child})
	}
	for _, word := range []string{"additionalProperties", "unevaluatedProperties"} {
		if more, _ := s[word].(map[string]any); len(more) > 0 {
			n.Patterns = append(n.Patterns, Pattern{Rest: true, Node: r.word(s, word, at)})
		}
	}
}

func (r *reader) arrays(n *Node, s map[string]any, at string) {
	prefix, ok := s["prefixItems"].([]any)
	where := "prefixItems"
	if !ok {
		prefix, _ = s["items"].([]any) // before 2020-12
		where = "items"
	}
	for i, p := range prefix {
		n.Prefix = append(n.Prefix, r.read(p, r.below(at, where, strconv.Itoa(i))))
	}
	n.Contains = r.word(s, "contains", at)
	for _, word := range []string{"items", "additionalItems", "unevaluatedItems"} {
		if items := r.word(s, word, at); items != nil {
			n.Items = append(n.Items, items)
		}
	}
}

func (r *reader) inPlace(n *Node, s map[string]any, at string) {
	add := func(schema any, at string) {
		if one := r.read(schema, at); one != nil {
			n.InPlace = append(n.InPlace, one)
		}
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[word].([]any)
		for i, one := range list {
			add(one, r.below(at, word, strconv.Itoa(i)))
		}
	}
	for _, word := range []string{"if", "then", "else"} {
		if one := r.word(s, word, at); one != nil {
			n.InPlace = append(n.InPlace, one)
		}
	}
	dependent, _ := s["dependentSchemas"].(map[string]any)
	for name, one := range dependent {
		add(one, r.below(at, "dependentSchemas", name))
	}
	if ref, ok := s["$ref"].(string); ok {
		target, where := r.resolve(ref)
		if target == nil {
			n.Opaque, n.Secret = true, true
			return
		}
		add(target, where)
	}
}

// resolve returns what a local reference names, and the place of it.
func (r *reader) resolve(ref string) (target any, at string) {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, ""
	}
	target = r.root
	if rest == "" {
		return target, "#"
	}
	if rest[0] != '/' {
		return nil, ""
	}
	for name := range strings.SplitSeq(rest[1:], "/") {
		name = fault.PointerName(name)
		switch t := target.(type) {
		case map[string]any:
			target = t[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(t) {
				return nil, ""
			}
			target = t[i]
		default:
			return nil, ""
		}
	}
	return target, ref // which is its place, written as read writes it
}

// typesOf returns the types that a schema says by type, and by nullable of OpenAPI 3.0. A
// schema without type has any type. But where it consists of other schemas, they say the
// type, and typesOf returns 0.
func typesOf(s map[string]any) Types {
	var types Types
	switch t := s["type"].(type) {
	case string:
		types = typeOf(t)
	case []any:
		for _, one := range t {
			name, _ := one.(string)
			types |= typeOf(name)
		}
	default:
		for _, word := range []string{"$ref", "allOf", "anyOf", "oneOf", "properties", "items"} {
			if s[word] != nil {
				return 0
			}
		}
		return Any
	}
	if s["nullable"] == true {
		types |= Null
	}
	return types
}

func typeOf(name string) Types {
	switch name {
	case "null":
		return Null
	case "boolean":
		return Bool
	case "number", "integer":
		return Number
	case "string":
		return String
	case "array":
		return Array
	case "object":
		return Object
	}
	return Any
}
