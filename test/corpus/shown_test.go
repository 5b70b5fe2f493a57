//go:build corpus

package corpus

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// node is a place of a document.
type node = map[string]json.RawMessage

// example is a body that the document shows for an operation.
type example struct {
	method, path, name string
	media              string
	schema             json.RawMessage // of the body, nil where there is none
	body               json.RawMessage
}

// parameter is one that an operation takes, with the values that the document shows for it.
type parameter struct {
	in, name, style string
	explode, json   bool
	required        bool
	schema          json.RawMessage
	shown           []value
}

// value is what a document shows for a parameter.
type value struct {
	name string
	text json.RawMessage
}

// operation is one with a parameter that the document shows a value of.
type operation struct {
	method, path string
	params       []parameter
}

func methods() []string { return []string{"get", "put", "post", "delete", "patch"} }

// eachOperation calls do for the operations of the document in the order of paths and methods.
func (d *document) eachOperation(do func(method, path string, item, op node)) {
	for _, path := range slices.Sorted(maps.Keys(d.paths)) {
		item := at(d.doc, d.paths[path])
		for _, method := range methods() {
			if op := at(d.doc, item[method]); op != nil {
				do(strings.ToUpper(method), path, item, op)
			}
		}
	}
}

// bodies lists the examples of bodies, of every media type: those that stand beside the schema, and
// those within it.
func (d *document) bodies() (list []example) {
	d.eachOperation(func(method, path string, _, op node) {
		content := at(d.doc, at(d.doc, op["requestBody"])["content"])
		for _, media := range slices.Sorted(maps.Keys(content)) {
			prefix := map[bool]string{false: media + " "}[media == "application/json"]
			entry := at(d.doc, content[media])
			for _, v := range d.values(entry, entry["schema"]) {
				list = append(list, example{method, path, prefix + v.name, media, entry["schema"], v.text})
			}
		}
	})
	return list
}

// operations lists the operations with values of parameters.
func (d *document) operations() (list []operation) {
	d.eachOperation(func(method, path string, item, op node) {
		o := operation{method: method, path: path}
		place := map[string]int{}
		for _, owner := range []node{item, op} {
			var entries []json.RawMessage
			_ = json.Unmarshal(owner["parameters"], &entries) // most have none
			for _, entry := range entries {
				p := d.parameter(at(d.doc, entry))
				if i, again := place[p.in+" "+p.name]; again {
					o.params[i] = p
					continue
				}
				place[p.in+" "+p.name] = len(o.params)
				o.params = append(o.params, p)
			}
		}
		if slices.ContainsFunc(o.params, func(p parameter) bool { return len(p.shown) > 0 }) {
			list = append(list, o)
		}
	})
	return list
}

func (d *document) parameter(n node) parameter {
	p := parameter{in: textIn(n["in"]), name: textIn(n["name"]), style: textIn(n["style"]), schema: n["schema"]}
	if p.style == "" {
		p.style = map[string]string{"query": "form", "cookie": "form"}[p.in]
	}
	p.explode = p.style == "form"
	_ = json.Unmarshal(n["explode"], &p.explode) // what is absent leaves the default
	_ = json.Unmarshal(n["required"], &p.required)
	p.shown = d.values(n, p.schema)
	for _, media := range at(d.doc, n["content"]) {
		p.json, p.schema = true, at(d.doc, media)["schema"]
		p.shown = append(p.shown, d.values(at(d.doc, media), p.schema)...)
	}
	return p
}

// values lists what is shown beside a schema and within it.
func (d *document) values(beside node, schema json.RawMessage) (list []value) {
	add := func(name string, shown json.RawMessage) {
		if shown != nil {
			list = append(list, value{name, behind(d.doc, shown)})
		}
	}
	add("example", beside["example"])
	named := at(d.doc, beside["examples"])
	for _, name := range slices.Sorted(maps.Keys(named)) {
		add("examples/"+name, at(d.doc, named[name])["value"])
	}
	within := at(d.doc, schema)
	add("schema example", within["example"])
	var more []json.RawMessage
	_ = json.Unmarshal(within["examples"], &more) // OpenAPI 3.0 has none
	for i, shown := range more {
		add("schema examples/"+strconv.Itoa(i), shown)
	}
	return list
}

// at reads an object of the document, and follows its reference.
func at(doc node, text json.RawMessage) (n node) {
	_ = json.Unmarshal(behind(doc, text), &n) // what is no object is empty
	return n
}

// behind returns what a reference leads to, and any other value as it is. Some documents have
// references in their examples too.
func behind(doc node, text json.RawMessage) json.RawMessage {
	for range 8 {
		var n node
		var ref string
		if json.Unmarshal(text, &n) != nil || json.Unmarshal(n["$ref"], &ref) != nil || !strings.HasPrefix(ref, "#/") {
			break
		}
		found := doc
		for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			text = found[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
			found = nil
			_ = json.Unmarshal(text, &found) // the last one may be any value
		}
	}
	return text
}

// textIn returns a text of the document, "" where it has another value.
func textIn(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text)
	return text
}

// typesOf returns the types that a schema names, as far as it names them itself.
func (d *document) typesOf(schema json.RawMessage) (types []string) {
	n := at(d.doc, schema)
	if json.Unmarshal(n["type"], &types) != nil && textIn(n["type"]) != "" {
		types = []string{textIn(n["type"])}
	}
	if slices.Contains(types, "number") {
		types = append(types, "integer")
	}
	if len(types) > 0 && string(n["nullable"]) == "true" {
		types = append(types, "null")
	}
	return types
}

// typeOf returns the type of a JSON value.
func typeOf(raw json.RawMessage) string {
	switch text := strings.TrimSpace(string(raw)); {
	case text == "null":
		return "null"
	case text == "true" || text == "false":
		return "boolean"
	case strings.HasPrefix(text, `"`):
		return "string"
	case strings.HasPrefix(text, "["):
		return "array"
	case strings.HasPrefix(text, "{"):
		return "object"
	case strings.ContainsAny(text, ".eE"):
		return "number"
	}
	return "integer"
}

// written returns the value that an example has, also where the document has it as a text although the
// schema has no texts: of a number, a list or an object.
func (d *document) written(shown, schema json.RawMessage) json.RawMessage {
	types, inText := d.typesOf(schema), json.RawMessage(strings.TrimSpace(textIn(shown)))
	if !slices.Contains(types, "string") && json.Valid(inText) && (slices.Contains(types, typeOf(inText)) || len(types) == 0 && typeOf(inText) == "object") {
		return inText
	}
	return shown
}

// misfit says how a value is not what its schema says plainly, "" where it is: of another type, none of
// the words, of another format. prism takes 1 for "1" in a query, and does not judge names with brackets.
func (d *document) misfit(shown, schema json.RawMessage) string {
	types, n := d.typesOf(schema), at(d.doc, schema)
	if is := typeOf(shown); len(types) > 0 && !slices.Contains(types, is) {
		return "It is of the type " + is + ", and the schema wants " + types[0] + "."
	}
	var words, items []json.RawMessage
	_ = json.Unmarshal(n["enum"], &words) // most have none
	if len(words) > 0 && !slices.ContainsFunc(words, func(word json.RawMessage) bool { return string(word) == string(shown) }) {
		return "It is none of the words that the schema lists."
	}
	if typeOf(shown) == "array" && json.Unmarshal(shown, &items) == nil {
		for _, item := range items {
			if wrong := d.misfit(item, n["items"]); wrong != "" {
				return "An item: " + wrong
			}
		}
	}
	check := map[string]*regexp.Regexp{"date": regexp.MustCompile(`^\d{4}-\d\d-\d\d$`), "uuid": regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)}
	if format := textIn(n["format"]); typeOf(shown) == "string" && check[format] != nil && !check[format].MatchString(textIn(shown)) {
		return "It is not of the format " + format + "."
	}
	return ""
}

// readOnly lists the members of an object that its schema has as the provider's to set.
func (d *document) readOnly(schema json.RawMessage, depth int) (names []string) {
	n := at(d.doc, schema)
	properties := at(d.doc, n["properties"])
	for name, property := range properties {
		if string(at(d.doc, property)["readOnly"]) == "true" {
			names = append(names, name)
		}
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		var branches []json.RawMessage
		_ = json.Unmarshal(n[word], &branches) // most have none
		for _, branch := range branches {
			if depth < 8 {
				names = append(names, d.readOnly(branch, depth+1)...)
			}
		}
	}
	return names
}
