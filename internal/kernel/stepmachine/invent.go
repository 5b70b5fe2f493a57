package stepmachine

import (
	"encoding/json"
	"strings"

	"agentruntime/internal/kernel/exactjson"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/mapdef"
)

// Invent returns a result for a write that a dry run does not make: a value that fits the step's
// expect, as far as that says what a value looks like. It is null where the step expects nothing.
func (p *Program) Invent(ref Ref) json.RawMessage {
	step := p.steps[ref.Path]
	if step == nil {
		return nil
	}
	do, ok := step.Do.(*mapdef.DoVerb)
	if !ok || len(do.Expect) == 0 {
		return nil
	}
	schema, err := exactjson.Decode(do.Expect)
	if err != nil {
		return nil
	}
	i := inventor{root: schema}
	raw, err := exactjson.Encode(i.value(schema, 0))
	if err != nil {
		return nil
	}
	return raw
}

// inventor makes values of a schema.
type inventor struct{ root any }

// deepestInvented is how deep an invented value nests. Schemas can refer to themselves.
const deepestInvented = 8

func (i *inventor) value(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth > deepestInvented {
		return nil
	}
	for _, name := range []string{"const", "default"} {
		if v, has := s[name]; has {
			return v
		}
	}
	for _, name := range []string{"examples", "enum"} {
		if list, _ := s[name].([]any); len(list) > 0 {
			return list[0]
		}
	}
	if ref, _ := s["$ref"].(string); ref != "" {
		return i.value(i.at(ref), depth+1)
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if list, _ := s[name].([]any); len(list) > 0 && s["type"] == nil {
			return i.value(list[0], depth+1)
		}
	}
	return i.ofType(s, depth)
}

func (i *inventor) ofType(s map[string]any, depth int) any {
	switch typeOf(s) {
	case "object":
		out := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for name, property := range properties {
			out[name] = i.value(property, depth+1)
		}
		return out
	case "array":
		if item, has := s["items"]; has {
			return []any{i.value(item, depth+1)}
		}
		return []any{}
	case "string":
		return inventedText(s["format"])
	case "integer", "number":
		if least, has := s["minimum"].(json.Number); has {
			return least
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
