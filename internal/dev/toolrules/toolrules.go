// Package toolrules has what the makers of chat models and MCP clients refuse about tools, for tests. It
// says a second time what package tooldef obeys, from the same sources, and shares no code with it.
package toolrules

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/argschema"
)

var (
	openAIName    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	anthropicName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	geminiName    = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)
	mcpName       = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)
	propertyName  = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	geminiKey     = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)
)

func geminiWords() []string {
	return strings.Fields(`$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering`)
}

func topUnions() []string { return strings.Fields(`oneOf anyOf allOf enum const not`) }

type shown struct {
	Type     string
	Function struct {
		Name, Description string
		Parameters        json.RawMessage
	}
	Name, Description    string
	InputSchema          json.RawMessage `json:"input_schema"`
	MCPSchema            json.RawMessage `json:"inputSchema"` //nolint:tagliatelle // MCP's name
	ParametersJSONSchema json.RawMessage
}

// Violations returns what the maker of the format refuses about the tool.
func Violations(format tooldef.Format, tool []byte) (found []string) {
	var t shown
	if err := json.Unmarshal(tool, &t); err != nil {
		return []string{err.Error()}
	}
	name, description, schema, names := t.Function.Name, t.Function.Description, t.Function.Parameters, openAIName
	switch format {
	case tooldef.Anthropic:
		name, description, schema, names = t.Name, t.Description, t.InputSchema, anthropicName
	case tooldef.Gemini:
		name, description, schema, names = t.Name, t.Description, t.ParametersJSONSchema, geminiName
		if schema == nil {
			schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)
		}
	case tooldef.MCP:
		name, description, schema, names = t.Name, t.Description, t.MCPSchema, mcpName
	default:
		if t.Type != "function" || len([]rune(description)) > 1024 {
			found = append(found, "no function with a description of at most 1024 characters")
		}
	}
	if !names.MatchString(name) || description == "" {
		found = append(found, "name or description")
	}
	var top map[string]any
	if json.Unmarshal(schema, &top) != nil || top["type"] != "object" || top["properties"] == nil {
		return append(found, "no object at the top")
	}
	for _, word := range topUnions() {
		if top[word] != nil && format != tooldef.MCP {
			found = append(found, word+" at the top")
		}
	}
	if _, err := argschema.Compile(schema); err != nil {
		found = append(found, err.Error())
	}
	found = append(found, schemaViolations(format, top, "")...)
	if format == tooldef.Gemini {
		if len(top["properties"].(map[string]any)) == 0 {
			found = append(found, "parameters without properties")
		}
		found = append(found, endless(top)...)
	}
	return found
}

func schemaViolations(format tooldef.Format, schema map[string]any, at string) (found []string) {
	say := func(what string, args ...any) { found = append(found, at+": "+fmt.Sprintf(what, args...)) }
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		if !propertyName.MatchString(name) || format == tooldef.Gemini && !geminiKey.MatchString(name) {
			say("property %q", name)
		}
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, has := properties[name.(string)]; !has {
			say("required %q is no property", name)
		}
	}
	types, _ := schema["type"].([]any)
	if (schema["type"] == "array" || slices.Contains(types, any("array"))) && schema["items"] == nil {
		say("array without items")
	}
	if format == tooldef.Gemini {
		geminiViolations(schema, say)
	}
	each(schema, func(path string, one map[string]any) {
		found = append(found, schemaViolations(format, one, at+path)...)
	})
	return found
}

func geminiViolations(schema map[string]any, say func(string, ...any)) {
	for word := range schema {
		if !slices.Contains(geminiWords(), word) {
			say("keyword %s", word)
		}
		if schema["$ref"] != nil && !strings.HasPrefix(word, "$") {
			say("%s beside $ref", word)
		}
	}
	values, _ := schema["enum"].([]any)
	for _, value := range values {
		if _, bad := value.(bool); bad || value == nil {
			say("enum of %v", value)
		}
	}
}

// each calls f with every schema in the schema.
func each(schema map[string]any, f func(path string, one map[string]any)) {
	for keyword, value := range schema {
		switch v := value.(type) {
		case map[string]any:
			if slices.Contains([]string{"properties", "$defs", "patternProperties"}, keyword) {
				for name, inner := range v {
					if one, ok := inner.(map[string]any); ok {
						f("/"+keyword+"/"+name, one)
					}
				}
			} else if keyword != "default" {
				f("/"+keyword, v)
			}
		case []any:
			for i, inner := range v {
				if one, ok := inner.(map[string]any); ok && keyword != "enum" {
					f(fmt.Sprintf("/%s/%d", keyword, i), one)
				}
			}
		}
	}
}

// endless finds definitions that require themselves.
func endless(top map[string]any) (found []string) {
	defs, _ := top["$defs"].(map[string]any)
	var needs func(schema any, path []string)
	needs = func(schema any, path []string) {
		s, _ := schema.(map[string]any)
		if ref, ok := s["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/$defs/")
			if slices.Contains(path, name) {
				found = append(found, name+" requires itself")
				return
			}
			needs(defs[name], append(slices.Clone(path), name))
			return
		}
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, name := range required {
			needs(properties[name.(string)], path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		needs(defs[name], []string{name})
	}
	return found
}
