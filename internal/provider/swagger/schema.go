package swagger

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxHops is how many references lead from one to the next.
const maxHops = 32

// maxName is how much of a name a report repeats, in bytes.
const maxName = 100

var (
	errNoObject = errors.New("an object is expected where the document has another value")
	errCycle    = errors.New("a reference leads back to itself")
)

// schema converts a schema and all schemas in it, in place. A schema may be met twice: what is
// converted stays as it is.
func (c *converter) schema(value any) {
	node, ok := value.(map[string]any)
	if !ok || !c.Spend(1) {
		return
	}
	if c.moveRef(node) {
		return
	}
	if name, is := node["discriminator"].(string); is {
		node["discriminator"] = map[string]any{"propertyName": name}
	}
	if node["type"] == "file" {
		node["type"], node["format"] = "string", "binary"
	}
	if nullable, _ := node["x-nullable"].(bool); nullable {
		node["nullable"] = true
	}
	delete(node, "collectionFormat") // of the items of a parameter
	for key, below := range node {
		switch key {
		case "properties":
			for _, one := range object(below) {
				c.schema(one)
			}
		case "allOf", "anyOf", "oneOf":
			list, _ := below.([]any)
			for _, one := range list {
				c.schema(one)
			}
		case "items":
			if list, tuple := below.([]any); tuple {
				for _, one := range list {
					c.schema(one)
				}
			}
			c.schema(below)
		case "additionalProperties", "not":
			c.schema(below)
		}
	}
}

// moveRef makes a reference lead to where its target is now, and reports whether the node is one.
// A target outside of the definitions is converted when it is first met.
func (c *converter) moveRef(node map[string]any) bool {
	ref, is := node["$ref"].(string)
	if !is {
		return false
	}
	origin := c.origin(ref)
	if rest, defined := strings.CutPrefix(origin, "#/definitions/"); defined {
		node["$ref"] = "#/components/schemas/" + rest
		return true
	}
	if !strings.HasPrefix(origin, "#/") {
		return true
	}
	node["$ref"] = "#/" + Home + origin[1:]
	if !c.seen[origin] {
		c.seen[origin] = true
		if target, err := c.Lookup(origin); err == nil {
			c.schema(target)
		}
	}
	return true
}

// origin returns a reference as it was before the conversion.
func (c *converter) origin(ref string) string {
	if rest, moved := strings.CutPrefix(ref, "#/components/schemas/"); moved {
		return "#/definitions/" + rest
	}
	if rest, moved := strings.CutPrefix(ref, "#/"+Home+"/"); moved {
		return "#/" + rest
	}
	return ref
}

func object(value any) map[string]any {
	node, _ := value.(map[string]any)
	return node
}

func text(node map[string]any, name string) string {
	s, _ := node[name].(string)
	return s
}

// texts returns the texts of a list.
func texts(value any) []string {
	list, _ := value.([]any)
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok && s != "" {
			out = append(out, s)
		}
	}
	return out
}

// mostMedia is how many media types of a list count. Each operation may have all that the document lists
// once, and a request has one.
const mostMedia = 16

// mediaTypes returns the media types of a list: the first of them, and those of JSON and forms wherever they stand.
func mediaTypes(value any) []string {
	all := texts(value)
	if len(all) <= mostMedia {
		return all
	}
	first := all[:mostMedia:mostMedia]
	for _, name := range []string{jsonType, formType, multipartType} {
		if slices.Contains(all[mostMedia:], name) && !slices.Contains(first, name) {
			first = append(first, name)
		}
	}
	return first
}

func clip(s string) string {
	if len(s) <= maxName {
		return s
	}
	for cut := maxName; ; cut-- {
		if utf8.RuneStart(s[cut]) {
			return s[:cut] + "…"
		}
	}
}
