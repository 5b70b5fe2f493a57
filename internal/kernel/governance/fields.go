package governance

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Fields knows which argument paths a verb's schema has. It is immutable and safe for
// concurrent use. A nil Fields knows none. That of a schema that cannot be read knows all
// paths, so that an argument that the call lacks counts as missing.
type Fields struct {
	root *field
	all  bool
}

// field is one place of a schema.
type field struct {
	types      kind // 0 where the schema does not say
	hides      bool // format password, writeOnly or x-sensitive
	opaque     bool // it may have any member: it is marked so, its reference is missing, or leads to too much
	properties map[string]*field
	patterns   []pattern // patternProperties; and additionalProperties, without an expression
	prefix     []*field
	items      *field
	alternates []*field // $ref, allOf, anyOf, oneOf, if/then/else

	// Filled in when the whole schema was read.
	same    []*field // itself, its alternates, and their alternates
	entered []*field // same, and what the items of the arrays in it lead to
	plain   bool     // an object of named members and nothing else
}

// pattern is a schema for the members whose name an expression fits. Without an expression
// it is for the members that properties does not name.
type pattern struct {
	re    *regexp.Regexp
	field *field
}

// maxFields is how many places of one schema are read. A schema with more cannot be read.
const maxFields = 20000

// NewFields reads a verb's JSON Schema: properties, items, prefixItems, local $ref,
// allOf, anyOf, oneOf, additionalProperties and patternProperties.
func NewFields(schema json.RawMessage) *Fields {
	if len(schema) == 0 {
		return &Fields{}
	}
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return &Fields{all: true}
	}
	r := fieldReader{root: root, places: map[string]*field{}}
	f := &Fields{root: r.read(root, "#")}
	if f.all = r.unreadable; f.all {
		return &Fields{all: true}
	}
	for _, one := range r.list {
		one.same = closure(one, func(f *field) []*field { return f.alternates })
		one.entered = closure(one, func(f *field) []*field {
			return append(append(slices.Clone(f.alternates), f.prefix...), f.items)
		})
		one.plain = len(one.entered) == 1 && len(one.patterns) == 0 && !one.opaque
	}
	return f
}

// closure returns what can be reached from f by next, f first. Where that is more than
// frontier, f becomes opaque.
func closure(f *field, next func(*field) []*field) []*field {
	list := []*field{f}
	for i := 0; i < len(list); i++ {
		for _, n := range next(list[i]) {
			if n == nil || slices.Contains(list, n) {
				continue
			}
			if len(list) == frontier {
				f.opaque = true
				return list
			}
			list = append(list, n)
		}
	}
	return list
}

// fieldReader builds the graph of one schema. places has what was read, by JSON Pointer, so
// that the reading of a schema that refers to itself ends.
type fieldReader struct {
	root       any
	places     map[string]*field
	list       []*field
	unreadable bool
}

// read returns the field for a schema, nil for one that is none (true, false).
func (r *fieldReader) read(schema any, at string) *field {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	if f, known := r.places[at]; known {
		return f
	}
	f := &field{}
	r.places[at] = f
	if r.list = append(r.list, f); len(r.list) > maxFields {
		r.unreadable = true
		return f
	}
	f.types = typesOf(s)
	f.opaque = s["x-opaque"] == true
	f.hides = f.opaque || s["format"] == "password" || s["writeOnly"] == true || s["x-sensitive"] == true
	if properties, ok := s["properties"].(map[string]any); ok {
		f.properties = make(map[string]*field, len(properties))
		for name, p := range properties {
			if p == false {
				continue
			}
			child := r.read(p, at+"/properties/"+escapePointer(name))
			if child == nil {
				child = r.anything()
			}
			f.properties[name] = child
		}
	}
	r.readArrays(f, s, at)
	r.readPatterns(f, s, at)
	r.readAlternates(f, s, at)
	return f
}

// anything returns the field of a schema that says nothing (true).
func (r *fieldReader) anything() *field {
	f := &field{types: kindAny}
	r.list = append(r.list, f)
	return f
}

func (r *fieldReader) readArrays(f *field, s map[string]any, at string) {
	f.items = r.read(s["items"], at+"/items")
	prefix, ok := s["prefixItems"].([]any)
	where := "/prefixItems/"
	if !ok {
		prefix, _ = s["items"].([]any) // before 2020-12
		where = "/items/"
		if more := r.read(s["additionalItems"], at+"/additionalItems"); more != nil {
			f.items = more
		}
	}
	for i, p := range prefix {
		f.prefix = append(f.prefix, r.read(p, at+where+strconv.Itoa(i)))
	}
}

func (r *fieldReader) readPatterns(f *field, s map[string]any, at string) {
	patterns, _ := s["patternProperties"].(map[string]any)
	for expression, p := range patterns {
		if child := r.read(p, at+"/patternProperties/"+escapePointer(expression)); child != nil {
			re, err := regexp.Compile(expression)
			if err != nil {
				re = regexp.MustCompile("") // what RE2 cannot read may fit any name
			}
			f.patterns = append(f.patterns, pattern{re, child})
		}
	}
	if more, _ := s["additionalProperties"].(map[string]any); len(more) > 0 {
		f.patterns = append(f.patterns, pattern{nil, r.read(more, at+"/additionalProperties")})
	}
}

func (r *fieldReader) readAlternates(f *field, s map[string]any, at string) {
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[word].([]any)
		for i, one := range list {
			f.alternates = append(f.alternates, r.read(one, at+"/"+word+"/"+strconv.Itoa(i)))
		}
	}
	for _, word := range []string{"if", "then", "else"} {
		f.alternates = append(f.alternates, r.read(s[word], at+"/"+word))
	}
	if ref, ok := s["$ref"].(string); ok {
		target, where := r.resolve(ref)
		if target == nil {
			f.opaque = true
			return
		}
		f.alternates = append(f.alternates, r.read(target, where))
	}
}

// resolve returns what a local reference names, and the place of it.
func (r *fieldReader) resolve(ref string) (target any, at string) {
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
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch t := target.(type) {
		case map[string]any:
			target = t[name]
		case []any:
			i := elementIndex(name)
			if i < 0 || i >= len(t) {
				return nil, ""
			}
			target = t[i]
		default:
			return nil, ""
		}
	}
	return target, ref // which is its place, written as read writes it
}

func escapePointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// typesOf returns the types that a schema says by type, and by nullable of OpenAPI 3.0. A
// schema without type has any type. But where it consists of other schemas, they say the
// type, and typesOf returns 0.
func typesOf(s map[string]any) kind {
	var types kind
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
		return kindAny
	}
	if s["nullable"] == true {
		types |= kindNull
	}
	return types
}

func typeOf(name string) kind {
	switch name {
	case "null":
		return kindNull
	case "boolean":
		return kindBool
	case "number", "integer":
		return kindNumber
	case "string":
		return kindString
	case "array":
		return kindArray
	case "object":
		return kindObject
	}
	return kindAny
}

// frontier is how many places one path may lead to at once. A schema with more counts as
// one that knows the path.
const frontier = 64

// find reports whether the schema has the path, and which types a value there may have.
func (f *Fields) find(path []segment) (known bool, types kind) {
	known, types, _ = f.walk(path)
	return known, types
}

// secret reports whether the schema marks the path, or a place above it, as secret.
func (f *Fields) secret(path []segment) bool {
	_, _, hides := f.walk(path)
	return hides
}

func (f *Fields) walk(path []segment) (known bool, types kind, hides bool) {
	if f == nil || (f.root == nil && !f.all) {
		return false, kindAny, false
	}
	if f.all {
		return true, kindAny, false
	}
	// In nearly every schema a step leads from one object to one member.
	at := f.root
	for len(path) > 0 && at.plain {
		hides = hides || at.hides
		if at = at.properties[path[0].name]; at == nil {
			return false, kindAny, hides
		}
		path = path[1:]
	}
	known, types, deeper := at.spread(path)
	return known, types, hides || deeper
}

// spread is walk from one field on, where the path may lead to several places.
func (f *field) spread(path []segment) (known bool, types kind, hides bool) {
	if len(path) == 0 {
		types, hides = f.leaf()
		return true, orAny(types), hides
	}
	var room [2][frontier]*field
	room[0][0] = f
	at := room[0][:1]
	for i, s := range path {
		for _, one := range at {
			for _, in := range one.entered {
				hides = hides || in.hides
			}
		}
		at = advance(at, s, room[(i+1)%2][:0])
		switch len(at) {
		case 0:
			return false, kindAny, hides
		case frontier:
			return true, kindAny, hides
		}
	}
	for _, one := range at {
		t, h := one.leaf()
		types, hides = types|t, hides || h
	}
	return true, orAny(types), hides
}

// leaf returns what the schema says about a value at f.
func (f *field) leaf() (types kind, hides bool) {
	for _, in := range f.same {
		types, hides = types|in.types, hides || in.hides
	}
	return types, hides
}

// orAny returns types, or any type where the schema does not say.
func orAny(types kind) kind {
	if types == 0 {
		return kindAny
	}
	return types
}

// advance appends the fields to which the segment leads from the fields in at.
func advance(at []*field, s segment, to []*field) []*field {
	for _, one := range at {
		for _, in := range one.entered {
			to = in.step(s, to)
		}
		// An index names an element of these arrays, not of the arrays within them.
		for _, in := range one.same {
			to = in.element(s, to)
		}
	}
	return to
}

// step appends the fields that a member of the segment's name may be.
func (f *field) step(s segment, to []*field) []*field {
	if f.opaque {
		to = join(to, f)
	}
	named := f.properties[s.name]
	to = join(to, named)
	for _, p := range f.patterns {
		if (p.re == nil && named == nil) || (p.re != nil && p.re.MatchString(s.name)) {
			to = join(to, p.field)
		}
	}
	return to
}

// element appends the fields that the element of the segment's index may be.
func (f *field) element(s segment, to []*field) []*field {
	switch {
	case s.index < 0:
	case s.index < len(f.prefix):
		to = join(to, f.prefix[s.index])
	default:
		to = join(to, f.items)
	}
	return to
}

func join(to []*field, f *field) []*field {
	if f == nil || slices.Contains(to, f) || len(to) == frontier {
		return to
	}
	return append(to, f)
}
