package tooldef

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
)

// sketch makes a schema that models accept of a verb's. Where they accept less it says less.
type sketch struct {
	format Format
	root   map[string]any
	// taken are the names of all arguments, at any depth; given are the names that some of them get.
	taken map[string]bool
	given map[string]string
	// endless are the definitions that lead to themselves.
	endless map[string]bool
	// joins counts the unions of definitions that were written in full, joining how many of them
	// contain the present one.
	joins, joining int
	// inFull is how many bytes of definitions were written in full, sizes how many each has.
	inFull int
	sizes  map[string]int
	omits  []string
}

func newSketch(root map[string]any, format Format) *sketch {
	s := &sketch{format: format, root: root, taken: map[string]bool{}, given: map[string]string{}, sizes: map[string]int{}}
	s.take(root)
	if format == Gemini {
		s.endless = endlessOf(definitions(root))
	}
	return s
}

// omit notes what the tool does not say, once.
func (s *sketch) omit(what string) {
	if !slices.Contains(s.omits, what) {
		s.omits = append(s.omits, what)
	}
}

func (s *sketch) take(schema map[string]any) {
	for name := range membersOf(schema, "properties") {
		s.taken[name] = true
	}
	each(schema, func(_ string, inner map[string]any) { s.take(inner) })
}

// name returns the name that an argument has in the tool; ok is false where there is none left.
func (s *sketch) name(of string) (given string, ok bool) {
	if s.format.accepts(of) {
		return of, true
	}
	if given, ok = s.given[of]; ok {
		return given, true
	}
	if given, ok = aliasBeside(of, s.taken); ok {
		s.given[of] = given
		s.taken[given] = true
	}
	return given, ok
}

// The keywords whose value is a schema, a list of schemas, or an object of schemas.
func single() []string {
	return []string{"items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "not", "if", "then", "else", "propertyNames"}
}

func listed() []string { return []string{"allOf", "anyOf", "oneOf", "prefixItems"} }

func named() []string {
	return []string{"properties", "patternProperties", "dependentSchemas", "$defs"}
}

// each calls f with every schema that a keyword of the schema has.
func each(schema map[string]any, f func(keyword string, inner map[string]any)) {
	for _, keyword := range single() {
		if inner, ok := schema[keyword].(map[string]any); ok {
			f(keyword, inner)
		}
	}
	for _, keyword := range listed() {
		for _, inner := range schemasIn(schema, keyword) {
			f(keyword, inner)
		}
	}
	for _, keyword := range named() {
		for _, member := range membersOf(schema, keyword) {
			if inner, ok := member.(map[string]any); ok {
				f(keyword, inner)
			}
		}
	}
}

func membersOf(schema map[string]any, keyword string) map[string]any {
	members, _ := schema[keyword].(map[string]any)
	return members
}

func schemasIn(schema map[string]any, keyword string) (all []map[string]any) {
	list, _ := schema[keyword].([]any)
	for _, element := range list {
		if inner, ok := element.(map[string]any); ok {
			all = append(all, inner)
		}
	}
	return all
}

func textsIn(schema map[string]any, keyword string) (all []string) {
	list, _ := schema[keyword].([]any)
	for _, element := range list {
		if text, ok := element.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

func definitions(root map[string]any) map[string]any { return membersOf(root, "$defs") }

// refOf returns the name of the definition that the schema refers to, "" where it refers to none.
func refOf(schema map[string]any) string {
	ref, _ := schema["$ref"].(string)
	name, _ := strings.CutPrefix(ref, "#/$defs/")
	return fault.PointerName(name)
}

func (s *sketch) resolve(schema map[string]any) map[string]any {
	target, _ := definitions(s.root)[refOf(schema)].(map[string]any)
	return target
}

// unions are the keywords that models refuse at the top, and what belongs to them.
func unions() []string {
	return []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "dependentRequired", "dependentSchemas", "$ref"}
}

// objectAtTop returns the schema as one object: where it is a union, with the arguments of all
// branches, and of them only those required that each branch requires.
func (s *sketch) objectAtTop() map[string]any {
	top := maps.Clone(s.root)
	top["type"] = "object"
	if !slices.ContainsFunc(unions(), func(keyword string) bool { return top[keyword] != nil }) {
		return top
	}
	m := merged{s: s, properties: map[string]any{}, required: map[string]bool{}, seen: map[string]bool{}}
	m.add(s.root, true, 0)
	for _, keyword := range unions() {
		delete(top, keyword)
	}
	delete(top, "additionalProperties")
	delete(top, "unevaluatedProperties")
	m.into(top)
	s.omit("which alternatives of the arguments go together")
	return top
}

// mostInFull bounds the definitions that are written in full: one of them can be used in many places.
const mostInFull = 2 << 20

// affords reports whether one more definition may be written in full.
func (s *sketch) affords(ref string) bool {
	size, known := s.sizes[ref]
	if !known {
		if raw, err := exactjson.Encode(definitions(s.root)[ref]); err == nil {
			size = len(raw)
		}
		s.sizes[ref] = size
	}
	s.inFull += size
	if s.inFull > mostInFull {
		s.omit("what is nested deep")
		return false
	}
	return true
}

// merged is one object of several schemas.
type merged struct {
	s          *sketch
	properties map[string]any
	required   map[string]bool
	seen       map[string]bool // definitions
	parts      int
}

// Bounds of one object: how deep its unions may nest in each other, how many schemas it may have, and
// how many alternatives one argument. What is beyond is left out.
const (
	mostMerged       = 16
	mostMergedParts  = 5_000
	mostAlternatives = 50
)

func (m *merged) add(schema map[string]any, certain bool, depth int) {
	if m.parts++; depth > mostMerged || m.parts > mostMergedParts {
		return
	}
	if ref := refOf(schema); ref != "" && !m.seen[ref] {
		if target := m.s.resolve(schema); target != nil && m.s.affords(ref) {
			m.seen[ref] = true
			m.add(target, certain, depth+1)
			delete(m.seen, ref)
		}
	}
	for name, property := range membersOf(schema, "properties") {
		m.properties[name] = either(m.properties[name], property)
	}
	if certain {
		for _, name := range m.needs(schema, 0) {
			m.required[name] = true
		}
	}
	for _, branch := range schemasIn(schema, "allOf") {
		m.add(branch, certain, depth+1)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		for _, branch := range schemasIn(schema, keyword) {
			m.add(branch, false, depth+1)
		}
	}
	for _, keyword := range []string{"then", "else"} {
		if branch, ok := schema[keyword].(map[string]any); ok {
			m.add(branch, false, depth+1)
		}
	}
}

// needs returns the arguments that the schema requires in any case.
func (m *merged) needs(schema map[string]any, depth int) []string {
	names := textsIn(schema, "required")
	if m.parts++; depth > mostMerged || m.parts > mostMergedParts {
		return names
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var all []string
		for i, branch := range schemasIn(schema, keyword) {
			if target := m.s.resolve(branch); target != nil {
				branch = target
			}
			of := m.needs(branch, depth+1)
			if i == 0 {
				all = of
			}
			all = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(of, name) })
		}
		names = append(names, all...)
	}
	return names
}

func (m *merged) into(schema map[string]any) {
	schema["properties"] = m.properties
	delete(schema, "required")
	if len(m.required) > 0 {
		required := make([]any, 0, len(m.required))
		for _, name := range slices.Sorted(maps.Keys(m.required)) {
			required = append(required, name)
		}
		schema["required"] = required
	}
}

// either returns a schema that both fit.
func either(one, other any) any {
	if one == nil || reflect.DeepEqual(one, other) {
		return other
	}
	if union, ok := one.(map[string]any); ok && len(union) == 0 {
		return one // anything
	}
	if union, ok := one.(map[string]any); ok && len(union) == 1 {
		if list, ok := union["anyOf"].([]any); ok {
			if len(list) >= mostAlternatives {
				return map[string]any{}
			}
			if slices.ContainsFunc(list, func(known any) bool { return reflect.DeepEqual(known, other) }) {
				return one
			}
			return map[string]any{"anyOf": append(slices.Clone(list), other)}
		}
	}
	return map[string]any{"anyOf": []any{one, other}}
}

// tidied returns the schema in the words that the format knows, with accepted names.
func (s *sketch) tidied(schema map[string]any) map[string]any {
	if s.format == Gemini {
		var full bool
		if schema, full = s.forGemini(schema); full {
			s.joining++
			defer func() { s.joining-- }()
		}
	}
	out := maps.Clone(schema)
	for _, keyword := range single() {
		switch inner := out[keyword].(type) {
		case map[string]any:
			out[keyword] = s.tidied(inner)
		case bool:
			if keyword == "items" {
				delete(out, keyword) // set below
			}
		}
	}
	for _, keyword := range listed() {
		if list, ok := out[keyword].([]any); ok {
			out[keyword] = s.tidiedList(list)
		}
	}
	for _, keyword := range []string{"patternProperties", "$defs"} {
		if members := membersOf(out, keyword); members != nil {
			inner := make(map[string]any, len(members))
			for name, member := range members {
				inner[name] = s.tidiedAny(member)
			}
			out[keyword] = inner
		}
	}
	dropEmpty(out)
	s.rename(out)
	if isType(out, "array") && out["items"] == nil {
		out["items"] = map[string]any{}
	}
	return out
}

func (s *sketch) tidiedAny(schema any) any {
	if inner, ok := schema.(map[string]any); ok {
		return s.tidied(inner)
	}
	return map[string]any{} // true
}

func (s *sketch) tidiedList(list []any) []any {
	out := make([]any, len(list))
	for i, element := range list {
		out[i] = s.tidiedAny(element)
	}
	return out
}

// dropEmpty takes away unions that accept anything, and empty parts of allOf.
func dropEmpty(out map[string]any) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, _ := out[keyword].([]any); slices.ContainsFunc(list, saysNothing) {
			delete(out, keyword) // all fits
		}
	}
	if list, _ := out["allOf"].([]any); len(list) > 0 {
		if list = slices.DeleteFunc(list, saysNothing); len(list) == 0 {
			delete(out, "allOf")
		} else {
			out["allOf"] = list
		}
	}
}

func saysNothing(schema any) bool {
	inner, ok := schema.(map[string]any)
	return ok && len(inner) == 0
}

func isType(schema map[string]any, name string) bool {
	return schema["type"] == name || slices.Contains(textsIn(schema, "type"), name)
}

// rename gives the members of an object names that models accept.
func (s *sketch) rename(schema map[string]any) {
	properties := membersOf(schema, "properties")
	if properties == nil {
		delete(schema, "required") // names that nothing describes are refused
		s.leaveDependents(schema)
		return
	}
	renamed := make(map[string]any, len(properties))
	for name, property := range properties {
		given, ok := s.name(name)
		if !ok || property == false {
			continue
		}
		inner := s.tidiedAny(property)
		if given != name {
			inner = described(inner, name)
		}
		renamed[given] = inner
	}
	schema["properties"] = renamed
	var required []any
	for _, name := range textsIn(schema, "required") {
		if given, ok := s.name(name); ok && renamed[given] != nil && !slices.Contains(required, any(given)) {
			required = append(required, given)
		}
	}
	delete(schema, "required")
	if len(required) > 0 {
		schema["required"] = required
	}
	s.leaveDependents(schema)
}

// leaveDependents leaves out what names arguments that may have other names here. Few models read it.
func (s *sketch) leaveDependents(schema map[string]any) {
	for _, keyword := range []string{"dependentRequired", "dependentSchemas"} {
		if schema[keyword] != nil {
			delete(schema, keyword)
			s.omit("arguments that are required beside others")
		}
	}
}

// described adds the argument's own name to its description.
func described(schema any, name string) any {
	inner, ok := schema.(map[string]any)
	if !ok || refOf(inner) != "" {
		return schema
	}
	inner = maps.Clone(inner)
	text, _ := inner["description"].(string)
	inner["description"] = strings.TrimSpace(strconv.Quote(cut(name, mostName)) + ". " + text)
	return inner
}
