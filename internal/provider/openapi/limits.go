package openapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// maxLimited is how deep limits follow a value that the document describes.
const maxLimited = 8

// limit has a converted schema refuse what the place of its value cannot carry. node is the schema as
// the document has it. Of a list or an object that it does not describe the elements are limited, and
// not what is in them.
func (c *converter) limit(converted, node any, l *limits) any {
	return c.limited(converted, []any{node}, l, maxLimited)
}

// limited is limit for a value that the document describes in one of so many ways, or not at all.
func (c *converter) limited(converted any, views []any, l *limits, levels int) any {
	if l == nil || converted == false || !c.doc.spend(4) {
		return converted
	}
	n, isObject := converted.(map[string]any)
	if n = maps.Clone(n); n == nil {
		n = map[string]any{}
	}
	if l.given {
		c.withoutNull(n, views)
	}
	c.limitTexts(n, views, l)
	if l.whole {
		c.onlyWhole(n, views)
	}
	if len(views) > 0 && levels > 0 {
		if c.mayBe(views, "array", nil) {
			c.limitList(n, views, l, levels-1)
		}
		if c.mayBe(views, "object", nil) {
			c.limitObject(n, views, l, levels-1)
		}
	}
	if !isObject && len(n) == 0 {
		return converted
	}
	return n
}

// added returns the limits of a value that the converted schema has none for, nil where there are none.
func (c *converter) added(views []any, l *limits, levels int) map[string]any {
	n, _ := c.limited(map[string]any{}, views, l, levels).(map[string]any)
	if len(n) == 0 {
		return nil
	}
	return n
}

// limitTexts adds what texts cannot be.
func (c *converter) limitTexts(n map[string]any, views []any, l *limits) {
	finds := func(expression string) bool {
		return c.mayBe(views, "string", c.expression(expression).MatchString)
	}
	if l.filled && finds("^$") {
		atLeastOne(n, "minLength")
	}
	if l.without != "" && finds("["+l.without+"]") {
		and(n, "pattern", "^[^"+l.without+"]*$")
	}
	never := slices.DeleteFunc(slices.Clone(l.never), func(expression string) bool { return !finds(expression) })
	if len(never) > 0 {
		and(n, "not", map[string]any{"type": "string", "pattern": strings.Join(never, "|")})
	}
}

// limitList adds what lists cannot be, and what cannot be in them.
func (c *converter) limitList(n map[string]any, views []any, l *limits, levels int) {
	if l.some {
		atLeastOne(n, "minItems")
	}
	if l.most1 {
		atMostOne(n, "maxItems")
	}
	inner, _ := c.elements(views, 0)
	if prefix := slices.Clone(listOf(n["prefixItems"])); prefix != nil {
		for i := range prefix {
			prefix[i] = c.limited(prefix[i], inner, l.items, levels)
		}
		n["prefixItems"] = prefix
	}
	if items, has := n["items"]; has {
		n["items"] = c.limited(items, inner, l.items, levels)
	} else if items := c.added(inner, l.items, levels); items != nil {
		beside(n, map[string]any{"items": items}, "unevaluatedItems", false)
	}
}

// limitObject adds what objects cannot be, and what their members cannot be.
func (c *converter) limitObject(n map[string]any, views []any, l *limits, levels int) {
	if l.some {
		atLeastOne(n, "minProperties")
	}
	if l.most1 {
		atMostOne(n, "maxProperties")
	}
	m := &members{named: map[string][]any{}}
	c.collect(views, m, 0)
	closed := n["additionalProperties"] == false || n["unevaluatedProperties"] == false && len(m.others) == 0
	if l.names != nil && (!closed || n["patternProperties"] != nil || slices.ContainsFunc(sortedKeys(m.named), func(name string) bool { return c.excludes(l.names, name) })) {
		was, _ := n["propertyNames"].(map[string]any)
		if names, _ := c.limited(was, []any{map[string]any{"type": "string"}}, l.names, 0).(map[string]any); len(names) > 0 {
			n["propertyNames"] = names
		}
	}
	own := maps.Clone(field(n, "properties"))
	for name, converted := range own {
		own[name] = c.limited(converted, m.named[name], l.of(name), levels)
	}
	if own != nil {
		n["properties"] = own
	}
	patterns := maps.Clone(field(n, "patternProperties"))
	for expression, converted := range patterns {
		patterns[expression] = c.limited(converted, nil, l.members, levels)
	}
	if patterns != nil {
		n["patternProperties"] = patterns
	}
	c.limitOthers(n, m, l, levels, closed)
}

// limitOthers adds what those members cannot be that the schema does not describe itself. Where it says
// something of all others, the limits stand beside that.
func (c *converter) limitOthers(n map[string]any, m *members, l *limits, levels int, closed bool) {
	own, more, rest := field(n, "properties"), map[string]any{}, map[string]any{}
	for _, name := range sortedKeys(m.named) {
		if own[name] == nil {
			if limited := c.added(m.named[name], l.of(name), levels); limited != nil {
				more[name] = limited
			}
		}
	}
	additional, says := n["additionalProperties"]
	if says {
		n["additionalProperties"] = c.limited(additional, m.others, l.members, levels)
	} else if limited := c.added(m.others, l.members, levels); limited != nil && !closed {
		rest["additionalProperties"] = limited
		for name := range l.fields { // the limits of others are not theirs
			if own[name] == nil && more[name] == nil {
				more[name] = true
			}
		}
	}
	if len(more) > 0 {
		rest["properties"] = more
	}
	if len(more) > 0 && !says && n["unevaluatedProperties"] == nil {
		maps.Copy(more, own)
	}
	beside(n, rest, "unevaluatedProperties", says)
}

// beside adds keywords to a schema: in a schema of their own where they stand apart, and so that nothing
// counts as evaluated by them where a keyword speaks of the rest.
func beside(n, added map[string]any, unevaluated string, apart bool) {
	switch {
	case len(added) == 0:
	case n[unevaluated] != nil:
		n["allOf"] = append(slices.Clone(listOf(n["allOf"])), map[string]any{"not": map[string]any{"not": added}})
	case apart:
		n["allOf"] = append(slices.Clone(listOf(n["allOf"])), added)
	default:
		maps.Copy(n, added)
	}
}

// and adds a keyword to those that a schema has.
func and(n map[string]any, keyword string, value any) {
	if n[keyword] == nil {
		n[keyword] = value
		return
	}
	n["allOf"] = append(slices.Clone(listOf(n["allOf"])), map[string]any{keyword: value})
}

// atLeastOne raises a bound to one.
func atLeastOne(n map[string]any, bound string) {
	if least, _ := n[bound].(json.Number); least == "" || least == "0" {
		n[bound] = json.Number("1")
	}
}

// atMostOne lowers a bound to one.
func atMostOne(n map[string]any, bound string) {
	if most, _ := n[bound].(json.Number); most != "0" {
		n[bound] = json.Number("1")
	}
}

// withoutNull has a schema refuse null: it takes it from the types where it names any.
func (c *converter) withoutNull(n map[string]any, views []any) {
	types, many := n["type"].([]string)
	if !many {
		if n["type"] == nil && c.mayBe(views, "null", nil) {
			and(n, "not", map[string]any{"type": "null"})
		}
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

// onlyWhole has a schema refuse numbers that are no integers: they have a point.
func (c *converter) onlyWhole(n map[string]any, views []any) {
	switch types := n["type"].(type) {
	case nil:
		if c.mayBe(views, "number", nil) {
			and(n, "not", map[string]any{"type": "number", "not": map[string]any{"type": "integer"}})
		}
	case string:
		if types == "number" {
			n["type"] = "integer"
		}
	case []string:
		types = slices.Clone(types)
		if at := slices.Index(types, "number"); at >= 0 {
			types[at] = "integer"
			slices.Sort(types)
			n["type"] = slices.Compact(types)
		}
	}
}
