package argdiff

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"agentruntime/internal/base/fault"
)

// node is one schema, as it is written.
type node struct {
	id       int
	types    types
	members  map[string]*node
	required map[string]need
	prefix   []*node
	items    *node
	rest     *node
	others   others
	// all apply to the same value, and one of each of any.
	all []*node
	any [][]*node
	// how and parts are of a node that combine made.
	how   combination
	parts []*node

	shape *shape
	busy  bool
}

func (c *comparison) node(n *node) *node {
	c.ids++
	n.id = c.ids
	return n
}

// reader makes nodes of one schema. places has those that were made, by JSON Pointer, so that the
// reading of a schema that refers to itself ends.
type reader struct {
	c      *comparison
	root   any
	places map[string]*node
}

// read reads a schema; false where it is no JSON. One that is absent allows everything.
func (c *comparison) read(schema json.RawMessage) (*node, bool) {
	r := reader{c: c, places: map[string]*node{}}
	if len(schema) > 0 {
		d := json.NewDecoder(bytes.NewReader(schema))
		d.UseNumber()
		if d.Decode(&r.root) != nil {
			return nil, false
		}
	}
	return r.read(r.root, "#"), true
}

func (r *reader) read(schema any, at string) *node {
	if n, known := r.places[at]; known {
		return n
	}
	s, ok := schema.(map[string]any)
	*r.c.left -= placeWork + len(at)
	if !ok || *r.c.left < 0 {
		return r.c.node(&node{types: isAny})
	}
	if target, ref, only := r.onlyRefers(s); only {
		r.places[at] = r.c.node(&node{types: isAny}) // for one that refers to itself
		r.places[at] = r.read(target, ref)
		return r.places[at]
	}
	n := r.c.node(&node{types: typesOf(s), members: map[string]*node{}, required: map[string]need{}})
	r.places[at] = n
	r.object(n, s, at)
	r.array(n, s, at)
	r.combined(n, s, at)
	return n
}

func (r *reader) object(n *node, s map[string]any, at string) {
	properties, _ := s["properties"].(map[string]any)
	for name, one := range properties {
		if one != false {
			n.members[name] = r.read(one, below(at, "properties", name))
		}
	}
	required, _ := s["required"].([]any)
	for _, one := range required {
		if name, ok := one.(string); ok {
			n.required[name] = always
		}
	}
	dependent, _ := s["dependentRequired"].(map[string]any)
	for _, list := range dependent {
		names, _ := list.([]any)
		for _, one := range names {
			if name, ok := one.(string); ok {
				n.required[name] = max(n.required[name], sometimes)
			}
		}
	}
	patterns, _ := s["patternProperties"].(map[string]any)
	for expression, one := range patterns {
		n.rest = r.c.combine(instead, n.rest, r.read(one, below(at, "patternProperties", expression)))
	}
	for _, word := range []string{"additionalProperties", "unevaluatedProperties"} {
		switch more := s[word].(type) {
		case map[string]any:
			n.rest = r.c.combine(instead, n.rest, r.read(more, below(at, word)))
		case bool:
			n.others |= othersOf(word, more)
		}
	}
}

func (r *reader) array(n *node, s map[string]any, at string) {
	prefix, ok := s["prefixItems"].([]any)
	where := "prefixItems"
	if !ok {
		prefix, _ = s["items"].([]any) // before 2020-12
		where = "items"
	}
	for i, one := range prefix {
		n.prefix = append(n.prefix, r.read(one, below(at, where, strconv.Itoa(i))))
	}
	for _, word := range []string{"items", "additionalItems", "unevaluatedItems"} {
		if one, ok := s[word].(map[string]any); ok && n.items == nil {
			n.items = r.read(one, below(at, word))
		}
	}
}

func (r *reader) combined(n *node, s map[string]any, at string) {
	if ref, ok := s["$ref"].(string); ok {
		if target, found := r.resolve(ref); found {
			n.all = append(n.all, r.read(target, ref))
		}
	}
	several := func(word string) (list []*node) {
		schemas, _ := s[word].([]any)
		for i, one := range schemas {
			list = append(list, r.read(one, below(at, word, strconv.Itoa(i))))
		}
		return list
	}
	n.all = append(n.all, several("allOf")...)
	for _, word := range []string{"anyOf", "oneOf"} {
		if list := several(word); len(list) > 0 {
			n.any = append(n.any, list)
		}
	}
	then, hasThen := s["then"]
	otherwise, hasElse := s["else"]
	if s["if"] != nil && (hasThen || hasElse) {
		n.any = append(n.any, []*node{r.read(then, below(at, "then")), r.read(otherwise, below(at, "else"))})
	}
	dependent, _ := s["dependentSchemas"].(map[string]any)
	for name, one := range dependent {
		n.any = append(n.any, []*node{r.read(one, below(at, "dependentSchemas", name)), r.c.node(&node{types: isAny})})
	}
}

// onlyRefers reports whether a schema says nothing but what another one says.
func (r *reader) onlyRefers(s map[string]any) (target any, ref string, only bool) {
	ref, ok := s["$ref"].(string)
	if !ok {
		return nil, "", false
	}
	for word := range s {
		if word != "$ref" && word != "description" && word != "title" {
			return nil, "", false
		}
	}
	target, only = r.resolve(ref)
	return target, ref, only
}

// resolve returns what a local reference names.
func (r *reader) resolve(ref string) (target any, found bool) {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok || rest != "" && rest[0] != '/' {
		return nil, false
	}
	target = r.root
	if rest == "" {
		return target, true
	}
	for name := range strings.SplitSeq(rest[1:], "/") {
		name = fault.PointerName(name)
		switch t := target.(type) {
		case map[string]any:
			target, found = t[name]
		case []any:
			i, err := strconv.Atoi(name)
			if found = err == nil && i >= 0 && i < len(t); found {
				target = t[i]
			}
		default:
			found = false
		}
		if !found {
			return nil, false
		}
	}
	return target, true
}

func below(at string, names ...string) string {
	var pointer strings.Builder
	pointer.WriteString(at)
	for _, name := range names {
		pointer.WriteString("/" + fault.PointerToken(name))
	}
	return pointer.String()
}
