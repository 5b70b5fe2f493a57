package openapi

import (
	"maps"
	"slices"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/provider/httpplan"
)

// maxSpread is how many members the forms of a body may have together to be arguments of their
// own. Above it the body is one argument.
const maxSpread = 1000

// spread is a body that is one of several forms, each taken apart.
type spread struct {
	*choice

	forms []*object // of cases, and of the base at the end
	// nodes are the schemas of each member, those of one text once.
	nodes map[string][]any
	open  bool // a form may have other members
}

// takeSubtypes makes arguments of the members of a base and of all its subtypes, and says in
// the schema which form may have which. It reports whether it could.
func (o *operation) takeSubtypes(ch *choice) bool {
	sp := &spread{choice: ch, nodes: map[string][]any{}}
	nodes := make([]any, 0, len(ch.cases)+1)
	for _, one := range ch.cases {
		nodes = append(nodes, one.node)
	}
	if ch.base != "" {
		nodes = append(nodes, map[string]any{"$ref": ch.base})
	}
	for _, node := range nodes {
		flat := &object{props: map[string]any{}}
		if !o.readObject(node, flat, 0) || flat.atLeast > 0 {
			return false
		}
		sp.forms = append(sp.forms, flat)
		sp.open = sp.open || flat.extra != nil && !flat.closed
	}
	if !o.gather(sp) {
		return false
	}
	o.addSpread(sp)
	return true
}

// gather collects the members of all forms.
func (o *operation) gather(sp *spread) bool {
	seen := map[string]bool{}
	for _, flat := range sp.forms {
		for _, name := range sortedKeys(flat.props) {
			if o.props[name] != nil {
				return false
			}
			raw, err := exactjson.Encode(flat.props[name])
			if err != nil || !o.im.doc.spend(2+len(raw)/8) {
				return false
			}
			if key := name + "\x00" + string(raw); !seen[key] {
				seen[key] = true
				sp.nodes[name] = append(sp.nodes[name], flat.props[name])
			}
		}
	}
	return len(sp.nodes)*len(sp.forms) <= maxSpread
}

// addSpread makes the arguments.
func (o *operation) addSpread(sp *spread) {
	for _, name := range sortedKeys(sp.nodes) {
		o.props[name] = o.member(sp, name)
	}
	o.props[sp.property] = o.nameMember(sp)
	shared := slices.Clone(sp.forms[0].required)
	for _, flat := range sp.forms[1:] {
		has := setOf(flat.required)
		shared = slices.DeleteFunc(shared, func(name string) bool { return !has[name] })
	}
	if sp.base == "" {
		shared = append(shared, sp.property)
	}
	o.required = append(o.required, shared...)
	all, ofAll := listOf(o.extra["allOf"]), setOf(shared)
	var chosen []string
	for i, one := range sp.cases {
		chosen = append(chosen, one.names...)
		if then := o.rest(sp, sp.forms[i], ofAll); len(then) > 0 {
			all = append(all, map[string]any{"if": named(sp.property, one.names), "then": then})
		}
	}
	if sp.base != "" {
		if rest := o.rest(sp, sp.forms[len(sp.cases)], ofAll); len(rest) > 0 {
			slices.Sort(chosen)
			all = append(all, map[string]any{"if": named(sp.property, chosen), "else": rest})
		}
	}
	if len(all) > 0 {
		o.extra["allOf"] = all
	}
	if sp.open {
		o.extra["additionalProperties"] = true
	}
	o.plan.Body.Names = o.formNames(sortedKeys(sp.nodes), !sp.open)
}

// member converts a member of one or more forms.
func (o *operation) member(sp *spread, name string) any {
	if len(sp.nodes[name]) == 1 {
		return o.im.conv.value(sp.nodes[name][0], o.scratch)
	}
	list := make([]any, len(sp.nodes[name]))
	for i, node := range sp.nodes[name] {
		list[i] = o.im.conv.value(node, o.scratch)
	}
	return map[string]any{"anyOf": list}
}

// nameMember is the argument that names the form. It lists the names of all.
func (o *operation) nameMember(sp *spread) any {
	out, _ := o.props[sp.property].(map[string]any)
	if out == nil {
		out = map[string]any{"type": "string"}
	}
	out = maps.Clone(out)
	delete(out, "const")
	delete(out, "anyOf") // of names that each form declares for itself
	out["enum"] = sp.names()
	return out
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// rest returns what one form requires besides what all do, and which members it does not have.
func (o *operation) rest(sp *spread, flat *object, shared map[string]bool) map[string]any {
	props := map[string]any{}
	for _, name := range sortedKeys(sp.nodes) {
		node, has := flat.props[name]
		switch {
		case name == sp.property:
		case has && len(sp.nodes[name]) > 1:
			props[name] = o.im.conv.value(node, o.scratch)
		case !has && (flat.extra == nil || flat.closed):
			props[name] = false
		}
	}
	out := map[string]any{}
	if len(props) > 0 {
		out["properties"] = props
	}
	required := slices.DeleteFunc(slices.Clone(flat.required), func(name string) bool {
		return shared[name] || flat.props[name] == nil && flat.extra == nil
	})
	if len(required) > 0 {
		slices.Sort(required)
		out["required"] = slices.Compact(required)
	}
	if len(flat.choices) > 0 {
		list := make([]any, len(flat.choices))
		for i, choice := range flat.choices {
			list[i] = o.im.conv.schema(choice, o.scratch, true)
		}
		out["allOf"] = list
	}
	return out
}

// subtypesOfBody returns the choice of a body that is a base with subtypes, nil for any other.
// Only JSON bodies are taken apart by it.
func (o *operation) subtypesOfBody(schema any) *choice {
	ch := o.im.conv.baseOf(schema)
	if ref, is := refOf(schema); is && o.im.conv.crowded[ref] {
		o.scratch.lose("a discriminator chooses from too many schemas and is not used")
	}
	if ch != nil && o.plan.Body.Kind != httpplan.BodyJSON {
		o.scratch.lose("subtypes of the body cannot be sent in a form; the base can")
		return nil
	}
	return ch
}
