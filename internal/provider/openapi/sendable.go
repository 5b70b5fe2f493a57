package openapi

import (
	"encoding/json"
	"maps"
	"slices"

	"agentruntime/internal/kernel/httpplan"
)

// Texts that no request can carry, as the builder of requests refuses them. So a caller who
// checks arguments against the catalog's schema finds what the service would refuse. The
// expressions are in the syntax that ECMA-262 and RE2 share.
const (
	// dotSegment finds a path segment of dots, also percent-encoded: some servers decode before
	// they route.
	dotSegment = `(^|[/\\]|%(25)*(2[fF]|5[cC]))(\.|%(25)*2[eE]){1,2}(;|[/\\]|%(25)*(2[fF]|3[bB]|5[cC])|$)`
	// emptySegment finds one in a path argument whose slashes stay slashes.
	emptySegment = `^/|//|/$`
	// control finds what a header field may not have (RFC 9110 section 5.5).
	control = `[\x00-\x08\x0a-\x1f\x7f]`
)

// sendable adds to the schema of a parameter what its place in the request requires.
func sendable(param httpplan.Param, schema any) any {
	if param.Style == httpplan.StyleJSON || param.In != httpplan.InPath && param.In != httpplan.InHeader {
		return schema
	}
	n, ok := schema.(map[string]any)
	if !ok {
		n = map[string]any{}
	}
	n = maps.Clone(n)
	if param.In == httpplan.InHeader {
		exclude(n, control)
		return n
	}
	withoutNull(n)
	if mayBe(n, "array") {
		atLeastOne(n, "minItems")
		if items, is := n["items"].(map[string]any); is {
			items = maps.Clone(items)
			segment(items, param)
			n["items"] = items
		}
	}
	segment(n, param)
	return n
}

// present has the schema of a required parameter refuse an empty list, of which a query shows nothing:
// the provider would find the parameter missing.
func present(param httpplan.Param, schema any) any {
	n, ok := schema.(map[string]any)
	if !ok || param.In != httpplan.InQuery || param.Style == httpplan.StyleJSON || !mayBe(n, "array") {
		return schema
	}
	n = maps.Clone(n)
	atLeastOne(n, "minItems")
	return n
}

// segment adds what a text in a path requires.
func segment(n map[string]any, param httpplan.Param) {
	if !mayBe(n, "string") || n["enum"] != nil || n["const"] != nil {
		return
	}
	atLeastOne(n, "minLength")
	exclude(n, dotSegment)
	if param.Reserved {
		exclude(n, emptySegment)
	}
}

// exclude has a schema refuse the texts that an expression finds.
func exclude(n map[string]any, expression string) {
	format, _ := n["format"].(string)
	if !mayBe(n, "string") || n["enum"] != nil || n["const"] != nil || slices.Contains([]string{"uuid", "date", "date-time", "ipv4", "email"}, format) {
		return
	}
	not := map[string]any{"type": "string", "pattern": expression}
	if n["not"] == nil {
		n["not"] = not
		return
	}
	n["allOf"] = append(slices.Clone(listOf(n["allOf"])), map[string]any{"not": not})
}

// atLeastOne raises a bound to one.
func atLeastOne(n map[string]any, bound string) {
	if least, _ := n[bound].(json.Number); least == "" || least == "0" {
		n[bound] = json.Number("1")
	}
}

// mayBe reports whether a value of the type may fit the schema, as far as its own type says.
// A schema without a type is taken as one of a text.
func mayBe(n map[string]any, kind string) bool {
	switch t := n["type"].(type) {
	case string:
		return t == kind
	case []string:
		return slices.Contains(t, kind)
	}
	return kind == "string"
}

// withoutNull takes null from the types of a schema that has others.
func withoutNull(n map[string]any) {
	types, many := n["type"].([]string)
	if !many {
		return
	}
	types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
	if n["type"] = types; len(types) == 1 {
		n["type"] = types[0]
	}
	if enum, is := n["enum"].([]any); is {
		n["enum"] = slices.DeleteFunc(slices.Clone(enum), func(v any) bool { return v == nil })
	}
}
