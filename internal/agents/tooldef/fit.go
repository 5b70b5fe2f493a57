package tooldef

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentruntime/internal/base/exactjson"
)

// fit encodes the schema in at most budget bytes, 0 for any number. What it leaves out is noted.
func (s *sketch) fit(top map[string]any, budget int) (json.RawMessage, error) {
	raw, err := encoded(top)
	if err != nil || budget == 0 || len(raw) <= budget {
		return raw, err
	}
	for _, most := range []int{200, 80, 0} {
		s.shorten(top, most)
		if raw, err = encoded(top); err != nil || len(raw) <= budget {
			s.omit(map[bool]string{true: "descriptions", false: fmt.Sprintf("descriptions beyond %d characters", most)}[most == 0])
			return raw, err
		}
	}
	s.omit("descriptions")
	for levels := mostLevels; levels >= 1; levels-- {
		p := pruner{root: top}
		flat := p.pruned(top, levels, 0)
		if p.over {
			continue
		}
		if raw, err = encoded(flat); err != nil || len(raw) <= budget || levels == 1 {
			s.omit(fmt.Sprintf("what is nested deeper than %d", levels))
			top = flat
			break
		}
	}
	if err != nil || len(raw) <= budget {
		return raw, err
	}
	return s.fewer(top, budget)
}

func encoded(schema map[string]any) (json.RawMessage, error) {
	out := maps.Clone(schema)
	if defs := used(schema); len(defs) > 0 {
		out["$defs"] = defs
	} else {
		delete(out, "$defs")
	}
	return exactjson.Encode(out)
}

// used returns the definitions that the schema leads to.
func used(schema map[string]any) map[string]any {
	all, kept := definitions(schema), map[string]any{}
	without := maps.Clone(schema)
	delete(without, "$defs")
	var follow func(map[string]any)
	follow = func(at map[string]any) {
		for _, ref := range refsIn(at, nil) {
			target, ok := all[ref].(map[string]any)
			if _, known := kept[ref]; known || !ok {
				continue
			}
			kept[ref] = target
			follow(target)
		}
	}
	follow(without)
	return kept
}

// forPeople are keywords that tell a model nothing.
func forPeople() []string {
	return []string{"title", "$comment", "$schema", "$id", "$anchor", "example", "examples", "readOnly", "writeOnly", "deprecated", "externalDocs", "xml", "discriminator"}
}

// shorten cuts all descriptions, and takes away what is not for models.
func (s *sketch) shorten(schema map[string]any, most int) {
	for keyword := range schema {
		if strings.HasPrefix(keyword, "x-") || slices.Contains(forPeople(), keyword) {
			delete(schema, keyword)
		}
	}
	if text, ok := schema["description"].(string); ok {
		if most == 0 {
			delete(schema, "description")
		} else {
			schema["description"] = cut(text, most)
		}
	}
	each(schema, func(_ string, inner map[string]any) { s.shorten(inner, most) })
}

const (
	// mostLevels is how many levels of members and elements the first try has.
	mostLevels = 6
	// mostParts is how many schemas a try may have: definitions stand in full where they are used.
	mostParts = 20_000
)

type pruner struct {
	root  map[string]any
	parts int
	over  bool
}

// pruned returns the schema without what is nested deeper than so many levels, and without
// definitions.
func (p *pruner) pruned(schema map[string]any, levels, hops int) map[string]any {
	if p.parts++; p.parts > mostParts {
		p.over = true
	}
	if p.over || hops > mostMerged {
		return map[string]any{}
	}
	if ref := refOf(schema); ref != "" {
		target, _ := definitions(p.root)[ref].(map[string]any)
		return p.pruned(target, levels, hops+1)
	}
	out := maps.Clone(schema)
	delete(out, "$defs")
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		if list, ok := out[keyword].([]any); ok {
			out[keyword] = p.prunedList(list, levels, hops+1)
		}
	}
	for _, keyword := range []string{"not", "if", "then", "else", "contains", "propertyNames", "patternProperties", "unevaluatedProperties", "unevaluatedItems", "prefixItems"} {
		delete(out, keyword)
	}
	if _, is := out["additionalProperties"].(map[string]any); is {
		delete(out, "additionalProperties")
	}
	if levels == 0 {
		delete(out, "properties")
		delete(out, "required")
		delete(out, "additionalProperties")
		if _, is := out["items"]; is {
			out["items"] = map[string]any{}
		}
		return out
	}
	if items, ok := out["items"].(map[string]any); ok {
		out["items"] = p.pruned(items, levels-1, 0)
	}
	if properties := membersOf(out, "properties"); properties != nil {
		inner := make(map[string]any, len(properties))
		for name, property := range properties {
			member, _ := property.(map[string]any)
			inner[name] = p.pruned(member, levels-1, 0)
		}
		out["properties"] = inner
	}
	return out
}

func (p *pruner) prunedList(list []any, levels, hops int) []any {
	out := make([]any, len(list))
	for i, element := range list {
		inner, _ := element.(map[string]any)
		out[i] = p.pruned(inner, levels, hops)
	}
	return out
}

// fewer leaves out arguments that are not required, the largest first, and then all that is said of
// the others but their types.
func (s *sketch) fewer(top map[string]any, budget int) (json.RawMessage, error) {
	properties, required := maps.Clone(membersOf(top, "properties")), textsIn(top, "required")
	top["properties"] = properties
	size := map[string]int{}
	for name, property := range properties {
		raw, err := exactjson.Encode(property)
		if err != nil {
			return nil, err
		}
		size[name] = len(raw)
	}
	raw, err := encoded(top)
	left := len(raw)
	var gone []string
	for _, name := range slices.SortedFunc(maps.Keys(properties), func(a, b string) int {
		return cmp.Or(cmp.Compare(size[b], size[a]), strings.Compare(a, b))
	}) {
		if err != nil || left <= budget {
			break
		}
		if slices.Contains(required, name) {
			member, _ := properties[name].(map[string]any)
			properties[name] = onlyType(member)
			left -= size[name] - len(`{"type":"string"}`)
		} else {
			delete(properties, name)
			gone = append(gone, name)
			left -= size[name] + len(name) + len(`"":,`)
		}
	}
	if err == nil {
		raw, err = encoded(top)
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		s.omit("the arguments " + strings.Join(gone, ", "))
	}
	return raw, err
}

func onlyType(schema map[string]any) map[string]any {
	out := map[string]any{}
	if t, has := schema["type"]; has {
		out["type"] = t
	}
	if isType(schema, "array") {
		out["items"] = map[string]any{}
	}
	return out
}
