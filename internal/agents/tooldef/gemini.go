package tooldef

import (
	"encoding/json"
	"maps"
	"slices"
)

// geminiKeywords are those that the API's definition lists.
func geminiKeywords() []string {
	return []string{
		"$defs", "$ref", "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum",
		"anyOf", "oneOf", "properties", "additionalProperties", "required",
	}
}

// Bounds of allOf, which Gemini does not know: how many are written in full, and how deep in each other.
// Definitions may lead to themselves that way.
const (
	mostJoins   = 500
	mostJoining = 3
)

// forGemini returns the schema with the keywords that Gemini knows. full says that definitions stand
// in full in it, for allOf.
func (s *sketch) forGemini(schema map[string]any) (out map[string]any, full bool) {
	if refOf(schema) != "" {
		return map[string]any{"$ref": schema["$ref"]}, false // nothing may stand beside it
	}
	out = maps.Clone(schema)
	if branches := schemasIn(out, "allOf"); len(branches) > 0 {
		if s.joins++; s.joins <= mostJoins && s.joining < mostJoining {
			out, full = s.joined(out, branches), true
		}
		if !full || s.inFull > mostInFull {
			s.omit("what is nested deep")
			return map[string]any{"type": "object"}, false
		}
	}
	if value, has := out["const"]; has {
		out["enum"] = []any{value}
	}
	if values, has := out["enum"].([]any); has && !slices.ContainsFunc(values, plain) {
		delete(out, "enum")
	} else if has {
		out["enum"] = slices.DeleteFunc(slices.Clone(values), func(value any) bool { return !plain(value) })
	}
	for keyword := range out {
		if !slices.Contains(geminiKeywords(), keyword) {
			delete(out, keyword)
		}
	}
	s.easeEndless(out)
	return out, full
}

func plain(value any) bool {
	switch value.(type) {
	case string, json.Number:
		return true
	}
	return false
}

// joined is allOf as one schema.
func (s *sketch) joined(schema map[string]any, branches []map[string]any) map[string]any {
	out := maps.Clone(schema)
	delete(out, "allOf")
	m := merged{s: s, properties: map[string]any{}, required: map[string]bool{}, seen: map[string]bool{}}
	m.add(schema, true, 0)
	for _, branch := range branches {
		if target := s.resolve(branch); target != nil {
			branch = target
		}
		for keyword, value := range branch {
			if _, has := out[keyword]; !has && keyword != "allOf" && keyword != "$ref" {
				out[keyword] = value
			}
		}
	}
	if len(m.properties) > 0 {
		out["type"] = "object"
		delete(out, "anyOf")
		delete(out, "oneOf")
		delete(out, "additionalProperties")
		m.into(out)
	}
	return out
}

// easeEndless requires no property that leads to itself: Gemini refuses that.
func (s *sketch) easeEndless(schema map[string]any) {
	properties := membersOf(schema, "properties")
	var required []any
	for _, name := range textsIn(schema, "required") {
		inner, _ := properties[name].(map[string]any)
		if !s.reachesEndless(inner, 0) {
			required = append(required, name)
		}
	}
	delete(schema, "required")
	if len(required) > 0 {
		schema["required"] = required
	}
}

// reachesEndless reports whether what is required of a value leads to a definition that leads to
// itself. It looks at the schema and its parts, not through definitions, which were looked at apart.
func (s *sketch) reachesEndless(schema map[string]any, depth int) bool {
	if schema == nil || depth > mostMerged {
		return false
	}
	if s.endless[refOf(schema)] {
		return true
	}
	found := false
	each(schema, func(_ string, inner map[string]any) { found = found || s.reachesEndless(inner, depth+1) })
	return found
}

// mostDefinitions is how many definitions are looked at. Where there are more, all count as endless.
const mostDefinitions = 1_000

// endlessOf returns the definitions that lead to themselves.
func endlessOf(defs map[string]any) map[string]bool {
	next := map[string][]string{}
	for name, definition := range defs {
		if schema, ok := definition.(map[string]any); ok {
			next[name] = refsIn(schema, nil)
		}
	}
	endless := map[string]bool{}
	for name := range next {
		if len(next) > mostDefinitions {
			endless[name] = true
			continue
		}
		seen := map[string]bool{}
		var reach func(at string) bool
		reach = func(at string) bool {
			for _, to := range next[at] {
				if to == name {
					return true
				}
				if !seen[to] {
					seen[to] = true
					if reach(to) {
						return true
					}
				}
			}
			return false
		}
		endless[name] = reach(name)
	}
	return endless
}

func refsIn(schema map[string]any, refs []string) []string {
	if ref := refOf(schema); ref != "" && !slices.Contains(refs, ref) {
		refs = append(refs, ref)
	}
	each(schema, func(_ string, inner map[string]any) { refs = refsIn(inner, refs) })
	return refs
}
