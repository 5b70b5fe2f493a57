package openapi

import (
	"maps"
	"slices"

	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/provider/httpplan"
)

// isForm reports whether the body is name=value pairs, which many servers merge with the query.
func (o *operation) isForm() bool {
	return o.plan.Body.Kind == httpplan.BodyForm || o.plan.Body.Kind == httpplan.BodyMultipart
}

// withoutCredentials drops the fields of a form that a server may take for the credential in
// the query.
func (o *operation) withoutCredentials(flat *object) {
	if !o.isForm() {
		return
	}
	dropped := map[string]bool{}
	for name := range flat.props {
		if o.isCredentials(httpplan.InQuery, name) {
			delete(flat.props, name)
			dropped[name] = true
			o.scratch.lose("a field of the body is dropped: its name could be taken for the credential's")
		}
	}
	flat.required = slices.DeleteFunc(flat.required, func(name string) bool { return dropped[name] })
}

// formNames returns the declared fields of a form for its plan, nil where every name that the
// schema lets pass is declared and none looks like another. Of a JSON body it returns those
// that choose a method, which callers may set only where they are declared.
func (o *operation) formNames(declared []string, closed bool) []string {
	if o.plan.Body.Kind == httpplan.BodyJSON {
		var names []string
		for _, name := range declared {
			if httpfield.ChoosesMethod(name) {
				names = append(names, name)
			}
		}
		return names
	}
	if !o.isForm() || len(declared) == 0 {
		return nil
	}
	slices.Sort(declared)
	if !closed || slices.ContainsFunc(declared, httpfield.ChoosesMethod) || o.alike(declared) {
		return declared
	}
	for _, enc := range o.plan.Body.Fields {
		if enc.Explode && enc.Style != "" && enc.Style != httpplan.StyleDeep {
			return declared
		}
	}
	return nil
}

// alike reports whether a server may take one of the names for another, or for a parameter of
// the query. Names that begin alike are the only ones that can be.
func (o *operation) alike(names []string) bool {
	seen := map[string]bool{}
	add := func(name string) bool {
		first, flat := httpfield.NameParts(name)[0], "\x00"+httpfield.FlatName(name)
		again := seen[first] || seen[flat]
		seen[first], seen[flat] = true, true
		return again
	}
	for _, p := range o.plan.Params {
		if p.In == httpplan.InQuery {
			add(p.Wire())
		}
	}
	return slices.ContainsFunc(names, add)
}

// formObject returns the schema of a form that is one argument. A form is made of the members of an
// object, so the schema says that it is one, whatever the document says.
func (o *operation) formObject(converted, node any) any {
	schema, _ := converted.(map[string]any)
	schema = maps.Clone(schema)
	types, many := schema["type"].([]string)
	if one, is := schema["type"].(string); is && one != "object" || many && !slices.Contains(types, "object") {
		o.scratch.lose("its form is no object in the document; give an object of its fields")
		schema, node = nil, map[string]any{}
	}
	if schema == nil {
		schema = map[string]any{}
	}
	schema["type"] = "object"
	return o.im.conv.limit(schema, node, sendableForm(o.plan.Body.Fields))
}
