package stepmachine

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
)

// WantsAnswer reports whether Invent looks at the schema of the verb's answer: the step has neither a
// mock nor an expect.
func (p *Program) WantsAnswer(ref Ref) bool {
	step := p.steps[ref.Path]
	if step == nil || !step.Mock.IsZero() {
		return false
	}
	do, ok := step.Do.(*mapdef.DoVerb)
	return ok && len(do.Expect) == 0
}

// Invent returns a result for a write that a dry run does not make: a value that fits the step's
// expect, as far as that says what a value looks like. Where the step expects nothing, the value fits
// answer, the schema of what the provider answers. It is null where nothing is said.
func (p *Program) Invent(ref Ref, answer json.RawMessage) json.RawMessage {
	step := p.steps[ref.Path]
	if step == nil {
		return nil
	}
	do, ok := step.Do.(*mapdef.DoVerb)
	switch {
	case !ok:
		return nil
	case len(do.Expect) > 0:
		return encoded(invented(do.Expect))
	}
	v := invented(answer)
	if _, object := v.(map[string]any); !object && v != nil {
		v = map[string]any{"data": v} // as the result of a call has it
	}
	return encoded(v)
}

func encoded(v any) json.RawMessage {
	raw, err := exactjson.Encode(v)
	if err != nil || v == nil {
		return nil
	}
	return raw
}

// invented returns a value of a schema, nil where it says nothing. The value is as deep as
// mostInvented allows, so that it has all members near its top.
func invented(schema json.RawMessage) (v any) {
	root, err := exactjson.Decode(schema)
	if err != nil {
		return nil
	}
	for depth := deepestInvented; depth >= 0; depth-- {
		i := inventor{root: root, room: mostInvented}
		if v = i.value(root, depth); i.room > 0 {
			break
		}
	}
	return v
}

// inventor makes values of a schema.
type inventor struct {
	root any
	room int // bytes that the value may still take
}

// Bounds of an invented value. Schemas can refer to themselves.
const (
	deepestInvented = 8
	mostInvented    = MaxInline / 2 // bytes
)

// value returns a value that is at most so deep.
func (i *inventor) value(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if i.room -= len("null,"); !ok || depth < 0 || i.room < 0 {
		return nil
	}
	for _, name := range []string{"const", "default"} {
		if v, has := s[name]; has {
			return i.literal(v)
		}
	}
	for _, name := range []string{"examples", "enum"} {
		if list, _ := s[name].([]any); len(list) > 0 {
			return i.literal(list[0])
		}
	}
	v := i.ofType(s, depth)
	if ref, _ := s["$ref"].(string); ref != "" {
		v = merged(v, i.value(i.at(ref), depth-1))
	}
	all, _ := s["allOf"].([]any)
	for _, one := range all {
		v = merged(v, i.value(one, depth-1))
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if one := firstForm(s[name]); one != nil {
			v = merged(v, i.value(one, depth-1))
		}
	}
	return v
}

// literal returns a value that a schema has as such.
func (i *inventor) literal(v any) any {
	i.room -= len(encoded(v))
	return v
}

// firstForm returns the first of several alternatives that is not null.
func firstForm(forms any) any {
	list, _ := forms.([]any)
	for _, one := range list {
		if s, _ := one.(map[string]any); s["type"] != "null" {
			return one
		}
	}
	return nil
}

// merged returns what two schemas of one value have made up: the members of both where they are
// objects, otherwise the first one that there is.
func merged(a, b any) any {
	own, object := a.(map[string]any)
	more, also := b.(map[string]any)
	switch {
	case a == nil:
		return b
	case !object || !also:
		return a
	}
	into := maps.Clone(own) // a literal is part of the schema
	for name, v := range more {
		if into[name] == nil {
			into[name] = v
		}
	}
	return into
}

func (i *inventor) ofType(s map[string]any, depth int) any {
	switch typeOf(s) {
	case "object":
		out := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) { // in order: the room may end
			i.room -= len(name) + len(`"":`)
			out[name] = i.value(properties[name], depth-1)
		}
		return out
	case "array":
		if item, has := s["items"]; has {
			return []any{i.value(item, depth-1)}
		}
		return []any{}
	case "string":
		return i.literal(inventedText(s["format"]))
	case "integer", "number":
		if least, has := s["minimum"].(json.Number); has {
			return i.literal(least)
		}
		return json.Number("0")
	case "boolean":
		return false
	default:
		return nil
	}
}

// typeOf returns the first type of a schema; "object" where only its properties are known.
func typeOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, _ := one.(string); name != "null" {
				return name
			}
		}
	}
	if s["properties"] != nil {
		return "object"
	}
	return ""
}

func inventedText(format any) string {
	switch format {
	case "date-time":
		return "1970-01-01T00:00:00Z"
	case "date":
		return "1970-01-01"
	case "uuid":
		return "00000000-0000-0000-0000-000000000000"
	case "email":
		return "invented@example.com"
	case "uri", "url":
		return "https://example.com/invented"
	default:
		return "invented"
	}
}

// at returns the part of the schema that a reference within it names.
func (i *inventor) at(ref string) any {
	at, ok := strings.CutPrefix(ref, "#/")
	switch {
	case ref == "#":
		return i.root
	case !ok:
		return nil
	}
	v := i.root
	for name := range strings.SplitSeq(at, "/") {
		m, _ := v.(map[string]any)
		v = m[fault.PointerName(name)]
	}
	return v
}
