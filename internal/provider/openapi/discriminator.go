package openapi

import (
	"maps"
	"slices"
	"strings"

	"agentruntime/internal/base/fault"
)

// maxSubtypes is how many schemas one discriminator may choose from. Of the 2,639 documents of
// APIs.guru none has more than 150.
const maxSubtypes = 200

// anyMark ends the key of the definition of a base in all of its forms. No reference has it.
const anyMark = "\x00any"

// choice is what a discriminator chooses from.
type choice struct {
	property string
	cases    []choiceCase
	// base is the reference of a schema that is itself one of the forms; "" where there is none.
	base string
	own  []string // names of the base itself
	// required: a value must name its form. loose are the forms that need not be named.
	required bool
	loose    []any
	others   []any // forms that are no objects
}

// choiceCase is one form, and the names that choose it.
type choiceCase struct {
	names []string
	node  any
}

// names returns all names that a value may have, sorted.
func (ch *choice) names() []string {
	out := slices.Clone(ch.own)
	for _, one := range ch.cases {
		out = append(out, one.names...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// discriminatorOf returns the property that a schema's discriminator names, "" where it has
// none, and its mapping. Swagger 2.0 writes the property alone.
func discriminatorOf(n map[string]any) (property string, mapping map[string]any) {
	if property = text(n, "discriminator"); property != "" {
		return property, nil
	}
	d := field(n, "discriminator")
	return text(d, "propertyName"), field(d, "mapping")
}

// forms returns the list of the alternatives of a schema, nil where it has none.
func forms(n map[string]any) []any { return listOf(n[formsWord(n)]) }

// formsWord returns the keyword of the alternatives of a schema, "" where it has none.
func formsWord(n map[string]any) string {
	for _, word := range []string{"oneOf", "anyOf"} {
		if len(listOf(n[word])) > 0 {
			return word
		}
	}
	return ""
}

// subtypes returns the choice between a base and the schemas that extend it; nil where the
// reference is no such base.
func (c *converter) subtypes(ref string) *choice {
	if known, seen := c.choices[ref]; seen {
		return known
	}
	c.choices[ref] = nil // a base that leads back to itself has no subtypes by that
	ch := c.findSubtypes(ref)
	c.choices[ref] = ch
	return ch
}

func (c *converter) findSubtypes(ref string) *choice {
	n, ref, err := c.target(ref)
	if err != nil || !c.doc.spend(4) {
		return nil
	}
	property, mapping := discriminatorOf(n)
	if property == "" {
		return nil
	}
	mapped := c.mapped(mapping, ref)
	found := slices.Clone(c.heirs(ref))
	inherits := len(found) > 0
	found = append(found, sortedKeys(mapped)...)
	for _, form := range forms(n) {
		if r, is := refOf(form); is {
			found = append(found, r)
		}
	}
	if len(forms(n)) > 0 && !inherits {
		return nil // the alternatives say it all
	}
	slices.Sort(found)
	found = slices.DeleteFunc(slices.Compact(found), func(r string) bool { return r == ref })
	if c.crowded[ref] = len(found) > maxSubtypes; c.crowded[ref] || len(found) == 0 {
		return nil
	}
	ch := &choice{property: property, required: true}
	taken := map[string]bool{}
	for _, target := range found {
		ch.add(taken, c.namesOf(target, property, stringsOf(mapped[target])), map[string]any{"$ref": target})
	}
	if len(forms(n)) > 0 {
		return ch // abstract: one of its forms and never itself
	}
	ch.base, ch.required = ref, false
	own := stringsOf(mapped[ref])
	if declared := c.declared(n, property); len(own) == 0 && len(declared) > 0 {
		own = declared
	} else if len(own) == 0 {
		own = []string{schemaName(ref)}
	}
	ch.own = slices.DeleteFunc(own, func(name string) bool { return taken[name] })
	return ch
}

// add appends a form under those of its names that no other has.
func (ch *choice) add(taken map[string]bool, names []string, node any) {
	var free []string
	for _, name := range names {
		if !taken[name] {
			taken[name] = true
			free = append(free, name)
		}
	}
	if len(free) > 0 {
		ch.cases = append(ch.cases, choiceCase{free, node})
	}
}

// alternatives returns the choice between the forms of a schema with a discriminator, nil where
// the discriminator does not tell all of them apart.
func (c *converter) alternatives(n map[string]any, s *scratch) *choice {
	property, mapping := discriminatorOf(n)
	list := forms(n)
	if property == "" || list == nil {
		return nil
	}
	if len(list) > maxSubtypes {
		s.lose("a discriminator chooses from too many schemas and is not used")
		return nil
	}
	mapped := c.mapped(mapping, "")
	ch := &choice{property: property, required: true}
	taken := map[string]bool{}
	for _, form := range list {
		object, err := c.doc.object(form)
		if err == nil && !saysObject(object) {
			ch.others = append(ch.others, form)
			continue
		}
		names := c.namesOfForm(form, property, mapped)
		if err != nil || len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return taken[name] }) {
			s.lose("a discriminator that does not tell its schemas apart is not used")
			return nil
		}
		if !c.requires(form, property, 0) {
			ch.required = false
			ch.loose = append(ch.loose, form)
		}
		ch.add(taken, names, form)
	}
	return ch
}

// namesOfForm returns the names of one alternative.
func (c *converter) namesOfForm(form any, property string, mapped map[string]any) []string {
	ref, is := refOf(form)
	if !is {
		n, _ := form.(map[string]any)
		return c.declared(n, property)
	}
	names := c.namesOf(ref, property, stringsOf(mapped[ref]))
	if ch := c.subtypes(ref); ch != nil && ch.property == property {
		names = append(names, ch.names()...)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}

// namesOf returns the names of a referenced form: those of the mapping, else those that its own
// property allows, else its own. Where mapping and property contradict each other, no value
// could be of the form, and the property counts.
func (c *converter) namesOf(ref, property string, mapped []string) []string {
	n, _, err := c.target(ref)
	if err != nil {
		return mapped
	}
	declared := c.declared(n, property)
	agree := slices.ContainsFunc(mapped, func(name string) bool { return slices.Contains(declared, name) })
	switch {
	case len(declared) > 0 && !agree:
		return declared
	case len(mapped) > 0:
		return mapped
	}
	return []string{schemaName(ref)}
}

// declared returns the texts that a schema's own property is bound to, in the schema or in the
// parts of its allOf that are no references.
func (c *converter) declared(n map[string]any, property string) []string {
	var out []string
	parts, _ := n["allOf"].([]any)
	for _, part := range append([]any{n}, parts...) {
		one, _ := part.(map[string]any)
		prop, err := c.doc.object(field(one, "properties")[property])
		if err != nil || !c.doc.spend(2) {
			continue
		}
		values, _ := prop["enum"].([]any)
		if fixed, has := prop["const"]; has {
			values = []any{fixed}
		}
		for _, v := range values {
			if name, is := v.(string); is && len(out) < maxSubtypes {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// requires reports whether an object of the schema must have the property.
func (c *converter) requires(node any, property string, depth int) bool {
	n, err := c.doc.object(node)
	if err != nil || depth > maxAllOf || !c.doc.spend(2) {
		return false
	}
	required, _ := n["required"].([]any)
	if c.doc.spend(len(required)/8) && slices.Contains(required, any(property)) {
		return true
	}
	parts, _ := n["allOf"].([]any)
	return slices.ContainsFunc(parts, func(part any) bool { return c.requires(part, property, depth+1) })
}

// mapped returns the names of a mapping by the references that they stand for. A mapping has
// references, or names of schemas that are where the base is.
func (c *converter) mapped(mapping map[string]any, base string) map[string]any {
	out := map[string]any{}
	home := "#/components/schemas/"
	if at := strings.LastIndexByte(base, '/'); at >= 0 && schemaHome(base[:at+1]) {
		home = base[:at+1]
	}
	for _, name := range sortedKeys(mapping) {
		target := text(mapping, name)
		if !c.doc.spend(2) || target == "" {
			continue
		}
		if !strings.HasPrefix(target, "#") {
			target = home + fault.PointerToken(target)
		}
		if _, err := c.doc.lookup(target); err != nil {
			continue
		}
		out[target] = append(stringsOf(out[target]), name)
	}
	return out
}

func stringsOf(list any) []string {
	out, _ := list.([]string)
	return out
}

// target returns the schema of a reference and the reference that it is at, behind those that
// only lead on.
func (c *converter) target(ref string) (map[string]any, string, error) {
	for range maxRefHops {
		node, err := c.doc.lookup(ref)
		if err != nil {
			return nil, ref, err
		}
		next, is := refOf(node)
		if !is {
			n, _ := node.(map[string]any)
			return n, ref, nil
		}
		ref = next
	}
	return nil, ref, reason("a reference leads back to itself")
}

func refOf(node any) (string, bool) {
	n, _ := node.(map[string]any)
	ref, is := n["$ref"].(string)
	return ref, is
}

// schemaName returns the name of the schema that a reference points to.
func schemaName(ref string) string { return unescapeToken(ref[strings.LastIndexByte(ref, '/')+1:]) }

// schemaHome reports whether schemas of a document stand right below the place.
func schemaHome(place string) bool {
	return strings.HasSuffix(place, "/components/schemas/") || strings.HasSuffix(place, "/definitions/")
}

// heirs returns the references of the schemas that extend ref by allOf, directly or not. Only
// schemas that stand beside each other are looked at.
func (c *converter) heirs(ref string) []string {
	at := strings.LastIndexByte(ref, '/')
	if at < 0 || !schemaHome(ref[:at+1]) {
		return nil
	}
	children := c.childrenIn(ref[:at+1])
	var out []string
	seen := map[string]bool{ref: true}
	queue := []string{ref}
	for len(queue) > 0 && len(out) <= maxSubtypes {
		for _, child := range children[queue[0]] {
			if c.doc.spend(1) && !seen[child] {
				seen[child] = true
				out, queue = append(out, child), append(queue, child)
			}
		}
		queue = queue[1:]
	}
	return out
}

// childrenIn returns which schemas of one place extend each other, by the one that is extended.
func (c *converter) childrenIn(home string) map[string][]string {
	if known, seen := c.children[home]; seen {
		return known
	}
	out := map[string][]string{}
	c.children[home] = out
	place, _ := c.doc.lookup(strings.TrimSuffix(home, "/"))
	schemas, _ := place.(map[string]any)
	if !c.doc.spend(len(schemas)) { // a reference may write one place in many ways
		return out
	}
	for _, name := range sortedKeys(schemas) {
		n, _ := schemas[name].(map[string]any)
		parts, _ := n["allOf"].([]any)
		for _, part := range parts {
			if parent, is := refOf(part); is && c.doc.spend(1) {
				out[parent] = append(out[parent], home+fault.PointerToken(name))
			}
		}
	}
	return out
}

// baseOf returns the choice of a node that stands for a base and its subtypes: a reference to
// one, also alone in an allOf, which is how OpenAPI 3.0 puts a description beside a reference.
func (c *converter) baseOf(node any) *choice {
	ref, is := refOf(node)
	if !is {
		if ref, is = refOf(onlyPart(node)); !is {
			return nil
		}
	}
	return c.subtypes(ref)
}

// onlyPart returns the one part of an allOf that has nothing beside it but words.
func onlyPart(node any) any {
	n, _ := node.(map[string]any)
	parts, _ := n["allOf"].([]any)
	if len(parts) != 1 || n["properties"] != nil || n["required"] != nil || n["discriminator"] != nil || forms(n) != nil {
		return nil
	}
	return parts[0]
}

// anyForm converts a schema for a value that may be of a subtype of it.
func (c *converter) anyForm(node any, s *scratch, inPlace bool) any {
	ref, is := refOf(node)
	if is && c.subtypes(ref) == nil && c.crowded[ref] {
		s.lose("a discriminator chooses from too many schemas and is not used")
	}
	if is && c.subtypes(ref) != nil {
		c.nodes++
		return c.reference(node.(map[string]any), ref+anyMark, s, inPlace) //nolint:forcetypeassert // refOf has seen it
	}
	part := onlyPart(node)
	if c.baseOf(part) == nil {
		return c.schema(node, s, inPlace)
	}
	n, _ := node.(map[string]any)
	rest := maps.Clone(n)
	delete(rest, "allOf")
	c.nodes++
	out := c.keywords(rest, s, inPlace)
	out["allOf"] = []any{c.anyForm(part, s, inPlace)}
	if nullable, _ := flag(n, "nullable"); nullable {
		return makeNullable(out)
	}
	return out
}

// dispatch writes a choice as JSON Schema: the property has one of the names, and each name
// leads to its form. So what the catalog shows is what is checked.
func (c *converter) dispatch(ch *choice, s *scratch) map[string]any {
	out := map[string]any{"type": "object", "properties": map[string]any{ch.property: map[string]any{"enum": ch.names()}}}
	var all []any
	var chosen []string
	for _, one := range ch.cases {
		chosen = append(chosen, one.names...)
		all = append(all, map[string]any{"if": named(ch.property, one.names), "then": c.formOf(ch, one.node, s)})
	}
	slices.Sort(chosen)
	switch {
	case ch.base != "":
		all = append(all, map[string]any{"if": named(ch.property, chosen), "else": c.schema(map[string]any{"$ref": ch.base}, s, true)})
	case ch.required:
		out["required"] = []string{ch.property}
	default:
		free := make([]any, len(ch.loose))
		for i, form := range ch.loose {
			free[i] = c.formOf(ch, form, s)
		}
		all = append(all, map[string]any{"if": map[string]any{"required": []string{ch.property}}, "else": map[string]any{"anyOf": free}})
	}
	out["allOf"] = all
	if len(ch.others) == 0 {
		return out
	}
	list := []any{out}
	for _, form := range ch.others {
		list = append(list, c.schema(form, s, true))
	}
	return map[string]any{"anyOf": list}
}

// formOf converts one form of a choice. A form that is a base by another property has subtypes
// of its own.
func (c *converter) formOf(ch *choice, node any, s *scratch) any {
	ref, is := refOf(node)
	if below := c.subtypes(ref); is && below != nil && (ch.base == "" || below.property != ch.property) {
		return c.anyForm(node, s, true)
	}
	return c.schema(node, s, true)
}

// named returns the schema of an object whose property has one of the names.
func named(property string, names []string) map[string]any {
	value := map[string]any{"enum": names}
	if len(names) == 1 {
		value = map[string]any{"const": names[0]}
	}
	return map[string]any{"properties": map[string]any{property: value}, "required": []string{property}}
}

// withoutForms returns a base as the schemas extend it that it lists as its own forms: without
// the list, which would lead back to them, and without another list that has one of them too.
func withoutForms(node any) any {
	n, ok := node.(map[string]any)
	if !ok || forms(n) == nil {
		return node
	}
	word, other := formsWord(n), "anyOf"
	if word == other {
		other = "oneOf"
	}
	back := map[string]bool{}
	for _, form := range listOf(n[word]) {
		if ref, is := refOf(form); is {
			back[ref] = true
		}
	}
	both := slices.ContainsFunc(listOf(n[other]), func(form any) bool {
		ref, is := refOf(form)
		return is && back[ref]
	})
	n = maps.Clone(n)
	delete(n, word)
	delete(n, "discriminator")
	if both { // the other list leads back too
		delete(n, other)
	}
	return n
}
