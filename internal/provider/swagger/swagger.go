// Package swagger turns a Swagger 2.0 document into OpenAPI 3.0. The importer of provider
// documents calls it. It works on the tree of JSON values, so that numbers keep their digits, and
// converts each operation by itself: what is wrong with one is said there and fails no other. It
// reads no file.
package swagger

import (
	"slices"
	"strings"
)

// Document is what the conversion asks of a document.
type Document struct {
	Root map[string]any
	// Lookup returns the value that a reference points to.
	Lookup func(ref string) (any, error)
	// Spend counts work, and reports whether the conversion may go on. Where it may not, the
	// result is incomplete.
	Spend func(units int) bool
}

// NotesKey is the member of an operation that has its Notes. No document has a value of that type.
const NotesKey = "x-agent-runtime-swagger"

// Notes say what an operation lost, and why it cannot be called; "" where it can.
type Notes struct {
	Lost     []string
	Rejected string
}

// What the result has besides the document, in units of work. Many paths may refer to one item, and each
// gets a copy of its operations. 15 million units, the most that a document may take, stand for about 400 MB.
const (
	memberWork    = 2  // one member of an object that is copied
	parameterWork = 24 // a parameter, beside its members
	responseWork  = 14 // an answer
)

// Home is the member under which the result has the document. References to places that OpenAPI
// 3.0 does not have lead there.
const Home = "x-swagger"

type converter struct {
	Document

	consumes, produces []string
	seen               map[string]bool // references to schemas that are converted
	out                map[string]any
}

// Convert returns the document as OpenAPI 3.0. It changes the tree, and the result shares it.
func Convert(doc Document) map[string]any {
	c := &converter{Document: doc, seen: map[string]bool{}}
	c.consumes, c.produces = mediaTypes(doc.Root["consumes"]), mediaTypes(doc.Root["produces"])
	c.out = map[string]any{"openapi": "3.0.3", Home: doc.Root}
	for key, value := range doc.Root {
		switch key {
		case "info", "tags", "externalDocs", "security":
			c.out[key] = value
		default:
			if strings.HasPrefix(key, "x-") && key != Home {
				c.out[key] = value
			}
		}
	}
	schemas := object(doc.Root["definitions"])
	for _, schema := range schemas {
		c.schema(schema)
	}
	c.out["components"] = map[string]any{"schemas": schemas, "securitySchemes": c.securitySchemes()}
	if servers := c.servers(texts(doc.Root["schemes"])); servers != nil {
		c.out["servers"] = servers
	}
	if paths, ok := doc.Root["paths"].(map[string]any); ok {
		c.out["paths"] = c.paths(paths)
	}
	return c.out
}

// servers returns a server for each scheme, https first. Without a scheme it is https: documents
// are fetched from anywhere.
func (c *converter) servers(schemes []string) []any {
	host, base := text(c.Root, "host"), text(c.Root, "basePath")
	if host == "" {
		if strings.Trim(base, "/") == "" {
			return nil
		}
		return []any{map[string]any{"url": base}}
	}
	if base != "" && !strings.HasPrefix(base, "/") {
		base = "/" + base
	}
	var list []any
	for _, scheme := range []string{"https", "http"} {
		if slices.Contains(schemes, scheme) || len(schemes) == 0 && scheme == "https" {
			list = append(list, map[string]any{"url": scheme + "://" + host + base})
		}
	}
	return list
}

func (c *converter) securitySchemes() map[string]any {
	out := map[string]any{}
	for name, value := range object(c.Root["securityDefinitions"]) {
		if !c.Spend(2) {
			break
		}
		scheme, ok := value.(map[string]any)
		if !ok {
			continue
		}
		out[name] = scheme // apiKey is the same
		switch text(scheme, "type") {
		case "basic":
			out[name] = map[string]any{"type": "http", "scheme": "basic"}
		case "oauth2":
			flow := map[string]any{"scopes": object(scheme["scopes"])}
			for _, key := range []string{"authorizationUrl", "tokenUrl"} {
				if scheme[key] != nil {
					flow[key] = scheme[key]
				}
			}
			out[name] = map[string]any{"type": "oauth2", "flows": map[string]any{flowName(text(scheme, "flow")): flow}}
		}
	}
	return out
}

func flowName(flow string) string {
	switch flow {
	case "application":
		return "clientCredentials"
	case "accessCode":
		return "authorizationCode"
	default: // implicit, password
		return flow
	}
}

func (c *converter) paths(paths map[string]any) map[string]any {
	out := make(map[string]any, len(paths))
	for path, value := range paths {
		if strings.HasPrefix(path, "x-") {
			out[path] = value
			continue
		}
		item, err := c.resolve(value)
		if !c.Spend(2 + memberWork*len(item)) {
			return out
		}
		if err != nil {
			out[path] = c.kept(value) // the importer says what is wrong
			continue
		}
		out[path] = c.pathItem(item)
	}
	return out
}

func (c *converter) pathItem(item map[string]any) map[string]any {
	out := make(map[string]any, len(item))
	for key, value := range item {
		node, isObject := value.(map[string]any)
		switch {
		case key == "parameters": // each operation has them
		case isObject && slices.Contains([]string{"get", "put", "post", "delete", "options", "head", "patch"}, key):
			out[key] = c.operation(item, node)
		default:
			out[key] = value
		}
	}
	return out
}

// kept returns a value with its reference leading to where it is now.
func (c *converter) kept(value any) any {
	if node, ok := value.(map[string]any); ok {
		c.moveRef(node)
	}
	return value
}

// operation converts one operation of a path.
func (c *converter) operation(item, node map[string]any) map[string]any {
	if !c.Spend(memberWork * len(node)) {
		return map[string]any{}
	}
	out := make(map[string]any, len(node)+2)
	for key, value := range node {
		switch key {
		case "consumes", "produces", "parameters", "responses", "schemes":
		default:
			out[key] = value
		}
	}
	o := &operation{converter: c, out: out, consumes: c.consumes}
	if own, has := node["consumes"]; has {
		o.consumes = mediaTypes(own)
	}
	if schemes := texts(node["schemes"]); len(schemes) > 0 {
		o.setServers(schemes)
	}
	o.parameters(item, node)
	out["responses"] = o.responses(node)
	if o.notes.Rejected != "" || len(o.notes.Lost) > 0 {
		out[NotesKey] = o.notes
	}
	return out
}

// resolve returns an object, following references.
func (c *converter) resolve(value any) (map[string]any, error) {
	for range maxHops {
		node, ok := value.(map[string]any)
		if !ok {
			return nil, errNoObject
		}
		ref, isRef := node["$ref"].(string)
		if !isRef {
			return node, nil
		}
		next, err := c.Lookup(c.origin(ref))
		if err != nil {
			return nil, err
		}
		value = next
	}
	return nil, errCycle
}
