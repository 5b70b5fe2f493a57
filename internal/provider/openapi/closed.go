package openapi

import (
	"slices"

	"agentruntime/internal/base/argschema"
)

// value converts the schema of a value: of an argument, and of what is inside of it.
func (c *converter) value(node any, s *scratch) any {
	out := c.anyForm(node, s, false)
	if n, is := out.(map[string]any); is {
		c.close(n, node)
	}
	return out
}

// close has a value's schema refuse the names that it does not list, where it lists any and does not
// open additionalProperties. out is what became of node. A misspelt name would otherwise pass, and mean
// that it was not sent.
func (c *converter) close(out map[string]any, node any) {
	if c.loose || !c.lists(node) {
		return
	}
	word := "additionalProperties"
	for _, applies := range []string{"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"} {
		if out[applies] != nil {
			word = "unevaluatedProperties" // it counts what those list
		}
	}
	if _, said := out[word]; !said && out[argschema.Opaque] == nil {
		out[word] = false
	}
}

// lists reports whether a schema lists the names of an object's members, in all of its forms.
func (c *converter) lists(node any) bool {
	n, ok := node.(map[string]any)
	if !ok || !c.doc.spend(2) {
		return false
	}
	if ref, is := n["$ref"].(string); is {
		return c.listsBehind(ref) || !c.doc.old && c.listsHere(n)
	}
	return c.listsHere(n)
}

// listsBehind is lists for a reference.
func (c *converter) listsBehind(ref string) bool {
	if known, seen := c.listing[ref]; seen {
		return known
	}
	c.listing[ref] = false // one that leads back to itself lists nothing by that
	node, err := c.doc.lookup(ref)
	c.listing[ref] = err == nil && c.lists(node)
	return c.listing[ref]
}

func (c *converter) listsHere(n map[string]any) bool {
	if len(field(n, "properties")) > 0 {
		return true
	}
	all, _ := n["allOf"].([]any)
	if slices.ContainsFunc(all, c.lists) {
		return true
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		forms, _ := n[word].([]any)
		listed := false
		for _, form := range forms {
			if c.lists(form) {
				listed = true
			} else if c.mayBeObject(form) {
				listed = false // this form is open
				break
			}
		}
		if listed {
			return true
		}
	}
	return false
}

// mayBeObject reports whether an object may fit the schema, as far as its type says.
func (c *converter) mayBeObject(node any) bool {
	n, err := c.doc.object(node)
	if err != nil {
		return true
	}
	if _, typed := n["type"]; !typed && (n["enum"] != nil || n["const"] != nil || n["required"] != nil) {
		return false // literals have no other names, and a group of required names is about those beside it
	}
	return saysObject(n)
}
