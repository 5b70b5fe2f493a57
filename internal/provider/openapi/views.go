package openapi

import (
	"encoding/json"
	"regexp"
	"slices"
)

// maxView is how deep a look at what a schema allows follows its combinations.
const maxView = 16

// view returns a schema of the document behind its references, nil where it says nothing.
func (c *converter) view(node any) map[string]any {
	n, err := c.doc.object(node)
	if err != nil || !c.doc.spend(1+len(listOf(n["type"]))/8+len(listOf(n["enum"]))/4) {
		return nil
	}
	return n
}

// mayBe reports whether a value of the type may fit one of the schemas, as far as they say. Without any
// schema it may. A text must be as is says, where that is not nil.
func (c *converter) mayBe(views []any, kind string, is func(string) bool) bool {
	return len(views) == 0 || c.anyMayBe(views, kind, is, 0)
}

func (c *converter) anyMayBe(views []any, kind string, is func(string) bool, depth int) bool {
	return slices.ContainsFunc(views, func(node any) bool { return c.oneMayBe(node, kind, is, depth) })
}

func (c *converter) oneMayBe(node any, kind string, is func(string) bool, depth int) bool {
	if node == false {
		return false
	}
	n := c.view(node)
	if n == nil || depth > maxView {
		return true
	}
	if nullable, _ := flag(n, "nullable"); nullable && kind == "null" {
		return true
	}
	if types := typesOf(n); len(types) > 0 && !slices.Contains(types, kind) {
		return false
	}
	values := listOf(n["enum"])
	if constant, has := n["const"]; has {
		values = []any{constant}
	}
	if len(values) > 0 && !slices.ContainsFunc(values, func(v any) bool { return isA(v, kind, is) }) {
		return false
	}
	if kind == "string" && is != nil {
		if sample := textOf(text(n, "format")); sample != "" && !is(sample) {
			return false
		}
	}
	for _, branch := range listOf(n["allOf"]) {
		if !c.oneMayBe(branch, kind, is, depth+1) {
			return false
		}
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if forms := listOf(n[word]); len(forms) > 0 && !c.anyMayBe(forms, kind, is, depth+1) {
			return false
		}
	}
	return true
}

// typesOf returns the types that a schema of the document names, as far as JSON has them.
func typesOf(n map[string]any) (types []string) {
	names := listOf(n["type"])
	if one, is := n["type"].(string); is {
		names = []any{one}
	}
	for _, e := range names {
		name, _ := e.(string)
		if !slices.Contains([]string{"string", "number", "integer", "boolean", "array", "object", "null"}, name) {
			return nil
		}
		types = append(types, name)
	}
	return types
}

// isA reports whether a value is of the type, and a text as is says.
func isA(v any, kind string, is func(string) bool) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string" && (is == nil || is(v))
	case json.Number:
		return kind == "number"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

// textOf returns a text with all characters that texts of a format have, "" where they may have any.
func textOf(format string) string {
	return map[string]string{"uuid": "0a-", "date": "0-", "date-time": "0-T:.Z+", "ipv4": "0."}[format]
}

// elements returns the schemas of what may be in a list, and whether it describes that.
func (c *converter) elements(views []any, depth int) (inner []any, known bool) {
	for _, node := range views {
		n := c.view(node)
		if n == nil || depth > maxView {
			return nil, false
		}
		if !c.oneMayBe(node, "array", nil, depth) {
			continue
		}
		some, describes := c.elementsOf(n, depth)
		if !describes {
			return nil, false
		}
		inner = append(inner, some...)
	}
	return inner, true
}

func (c *converter) elementsOf(n map[string]any, depth int) (inner []any, known bool) {
	for _, word := range []string{"items", "unevaluatedItems"} {
		switch items := n[word].(type) {
		case []any: // OpenAPI 3.0 does not have it, and documents do
			inner = append(inner, items...)
		case map[string]any, bool:
			inner, known = append(inner, items), true
		}
	}
	inner = append(inner, listOf(n["prefixItems"])...)
	for _, branch := range listOf(n["allOf"]) {
		if some, describes := c.elements([]any{branch}, depth+1); describes {
			inner, known = append(inner, some...), true
		}
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if forms := listOf(n[word]); len(forms) > 0 {
			if some, describes := c.elements(forms, depth+1); describes {
				inner, known = append(inner, some...), true
			}
		}
	}
	return inner, known
}

// members are what the schemas of an object describe.
type members struct {
	named  map[string][]any
	others []any // those of names that are not listed
}

// collect adds the members that schemas describe.
func (c *converter) collect(views []any, m *members, depth int) {
	for _, node := range views {
		n := c.view(node)
		if n == nil || depth > maxView {
			continue
		}
		props := field(n, "properties")
		for _, name := range sortedKeys(props) {
			if c.doc.spend(1) && !c.readOnly(props[name]) {
				m.named[name] = append(m.named[name], props[name])
			}
		}
		for _, word := range []string{"additionalProperties", "unevaluatedProperties"} {
			switch others := n[word].(type) {
			case map[string]any:
				m.others = append(m.others, others)
			case bool:
				if others {
					m.others = append(m.others, map[string]any{})
				}
			}
		}
		patterns := field(n, "patternProperties")
		for _, expression := range sortedKeys(patterns) {
			m.others = append(m.others, patterns[expression])
		}
		for _, word := range []string{"allOf", "anyOf", "oneOf"} {
			c.collect(listOf(n[word]), m, depth+1)
		}
	}
}

// excludes reports whether limits exclude a text.
func (c *converter) excludes(l *limits, text string) bool {
	return l.without != "" && c.expression("["+l.without+"]").MatchString(text) ||
		slices.ContainsFunc(l.never, func(expression string) bool { return c.expression(expression).MatchString(text) })
}

// expression compiles one of the expressions of limits, once for a document.
func (c *converter) expression(source string) *regexp.Regexp {
	if c.compiled[source] == nil {
		c.compiled[source] = regexp.MustCompile(source)
	}
	return c.compiled[source]
}
