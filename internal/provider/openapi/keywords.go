package openapi

import (
	"encoding/json"
	"slices"
	"strings"

	"agentruntime/internal/base/exactjson"
)

// maxPattern is the longest regular expression that is compiled.
const maxPattern = 4096

// maxTypes is how many names of types a schema may list. JSON has seven.
const maxTypes = 64

// setType keeps the types JSON Schema knows.
func (c *converter) setType(out map[string]any, value any, s *scratch) {
	var names []any
	switch v := value.(type) {
	case string:
		names = []any{v}
	case []any:
		if names = v; len(names) > maxTypes {
			s.lose("a schema lists more types than JSON has")
			return
		}
	}
	var kept []string
	for _, e := range names {
		name, _ := e.(string)
		switch name {
		case "string", "number", "integer", "boolean", "array", "object", "null":
			if !slices.Contains(kept, name) {
				kept = append(kept, name)
			}
		default:
			s.lose("a schema has a type that JSON does not have")
			return
		}
	}
	switch len(kept) {
	case 0:
	case 1:
		out["type"] = kept[0]
	default:
		out["type"] = kept
	}
}

// makeNullable adds null to what a schema accepts (OpenAPI 3.0 nullable).
func makeNullable(out map[string]any) any {
	combined := false
	for _, key := range []string{"allOf", "anyOf", "oneOf", "not", "const"} {
		_, has := out[key]
		combined = combined || has
	}
	if combined {
		outer := map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
		for _, key := range []string{"title", "description"} {
			if t, ok := out[key]; ok {
				outer[key] = t
				delete(out, key)
			}
		}
		return outer
	}
	switch t := out["type"].(type) {
	case string:
		if t != "null" {
			out["type"] = []string{t, "null"}
		}
	case []string:
		if !slices.Contains(t, "null") {
			out["type"] = append(slices.Clone(t), "null")
		}
	}
	if enum, ok := out["enum"].([]any); ok && !slices.Contains(enum, nil) {
		out["enum"] = append(slices.Clone(enum), nil)
	}
	return out
}

// setLiteral keeps values: what is allowed, the default, an example.
func setLiteral(out map[string]any, key string, value any, s *scratch) {
	if !exactjson.ValueFits(value) {
		if key == "enum" || key == "const" {
			s.lose("a number out of range in a schema is not checked")
		}
		return
	}
	switch key {
	case "enum":
		if list, ok := value.([]any); ok && len(list) > 0 {
			out[key] = list
		}
	case "example":
		setExamples(out, []any{value})
	case "examples":
		if list, ok := value.([]any); ok {
			setExamples(out, list)
		}
	default:
		out[key] = value
	}
}

// setExamples keeps the first example, if it is short: they are for the reader.
func setExamples(out map[string]any, list []any) {
	if len(list) == 0 || out["examples"] != nil {
		return
	}
	if raw, err := exactjson.Encode(list[0]); err == nil && len(raw) <= maxExample {
		out["examples"] = list[:1]
	}
}

// setNumber keeps the keywords whose value is a number and reports whether key
// is one of them. In OpenAPI 3.0 exclusiveMinimum and exclusiveMaximum are flags
// on minimum and maximum.
func setNumber(out map[string]any, key string, value any, n map[string]any, s *scratch) bool {
	switch key {
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		if bound, ok := count(value); ok {
			out[key] = bound
		} else {
			s.lose("a bound in a schema is not usable")
		}
		return true
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
	default:
		return false
	}
	exclusive := map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
	if _, isFlag := value.(bool); isFlag {
		return true
	}
	bound, ok := value.(json.Number)
	if !ok || !exactjson.NumberFits(bound.String()) || (key == "multipleOf" && !positive(bound)) {
		s.lose("a number out of range in a schema is not checked")
		return true
	}
	if on, _ := flag(n, exclusive[key]); on {
		key = exclusive[key]
	}
	out[key] = bound
	return true
}

// positive reports whether a number token is greater than zero.
func positive(n json.Number) bool {
	digits, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	return !strings.HasPrefix(digits, "-") && strings.ContainsAny(digits, "123456789")
}

func (c *converter) setPattern(out map[string]any, value any, s *scratch) {
	expression, ok := value.(string)
	if !ok {
		return
	}
	if expression, ok = c.doc.goPattern(expression); !ok {
		s.lose("a pattern that cannot be compiled is not checked")
		return
	}
	out["pattern"] = expression
}
