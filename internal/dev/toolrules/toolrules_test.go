package toolrules_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/dev/toolrules"
)

// tool is a tool of a format; schema "" leaves the parameters out.
func tool(format tooldef.Format, name, description, schema string) []byte {
	words := map[tooldef.Format]string{tooldef.OpenAI: "parameters", tooldef.Anthropic: "input_schema", tooldef.Gemini: "parametersJsonSchema", tooldef.MCP: "inputSchema"}
	function := map[string]any{"name": name, "description": description}
	if schema != "" {
		function[words[format]] = json.RawMessage(schema)
	}
	var made any = function
	if format == tooldef.OpenAI {
		made = map[string]any{"type": "function", "function": function}
	}
	raw, err := json.Marshal(made)
	if err != nil {
		panic(err)
	}
	return raw
}

const plain = `{"type":"object","properties":{"a":{"type":"string"}},"required":[]}`

// broken breaks one rule each, of the makers that are named. The others accept it.
var broken = map[string]struct {
	name, description, schema string
	by                        []tooldef.Format
	says                      string
}{
	"name with a colon":         {"shop:get", "d", plain, []tooldef.Format{tooldef.OpenAI, tooldef.Anthropic, tooldef.MCP}, "name"},
	"name with a space":         {"shop get", "d", plain, tooldef.Formats(), "name"},
	"name with a dot":           {"shop.get", "d", plain, []tooldef.Format{tooldef.OpenAI, tooldef.Anthropic}, "name"},
	"name that is a number":     {"7shifts", "d", plain, []tooldef.Format{tooldef.Gemini}, "name"},
	"name of 65":                {strings.Repeat("a", 65), "d", plain, []tooldef.Format{tooldef.OpenAI, tooldef.Gemini}, "name"},
	"name of 129":               {strings.Repeat("a", 129), "d", plain, tooldef.Formats(), "name"},
	"no name":                   {"", "d", plain, tooldef.Formats(), "name"},
	"no description":            {"n", "", plain, tooldef.Formats(), "description"},
	"long description":          {"n", strings.Repeat("ä", 1025), plain, []tooldef.Format{tooldef.OpenAI}, "1024"},
	"no schema":                 {"n", "d", "", []tooldef.Format{tooldef.OpenAI, tooldef.Anthropic, tooldef.MCP}, "no object"},
	"a text at the top":         {"n", "d", `{"type":"string","properties":{}}`, tooldef.Formats(), "no object"},
	"a union of types":          {"n", "d", `{"type":["object","null"],"properties":{"a":{}}}`, tooldef.Formats(), "no object"},
	"no properties":             {"n", "d", `{"type":"object"}`, tooldef.Formats(), "no object"},
	"empty properties":          {"n", "d", `{"type":"object","properties":{}}`, []tooldef.Format{tooldef.Gemini}, "parameters without properties"},
	"no JSON Schema":            {"n", "d", `{"type":"object","properties":{"a":{"type":"text"}}}`, tooldef.Formats(), "type"},
	"property with a bracket":   {"n", "d", `{"type":"object","properties":{"a[b]":{}}}`, tooldef.Formats(), `property "a[b]"`},
	"property of 65":            {"n", "d", `{"type":"object","properties":{"` + strings.Repeat("a", 65) + `":{}}}`, tooldef.Formats(), "property"},
	"property with a dash":      {"n", "d", `{"type":"object","properties":{"a-b":{}}}`, []tooldef.Format{tooldef.Gemini}, `property "a-b"`},
	"property of an element":    {"n", "d", `{"type":"object","properties":{"a":{"type":"array","items":{"properties":{"$b":{}}}}}}`, tooldef.Formats(), `property "$b"`},
	"property in a union":       {"n", "d", `{"type":"object","properties":{"a":{"anyOf":[{"properties":{"$b":{}}}]}}}`, tooldef.Formats(), `property "$b"`},
	"required, and not there":   {"n", "d", `{"type":"object","properties":{"a":{}},"required":["b"]}`, tooldef.Formats(), "is no property"},
	"required deep, not there":  {"n", "d", `{"type":"object","properties":{"a":{"properties":{},"required":["b"]}}}`, tooldef.Formats(), "is no property"},
	"array without items":       {"n", "d", `{"type":"object","properties":{"a":{"type":"array"}}}`, tooldef.Formats(), "array without items"},
	"array or null, no items":   {"n", "d", `{"type":"object","properties":{"a":{"type":["null","array"]}}}`, tooldef.Formats(), "array without items"},
	"keyword that is not known": {"n", "d", `{"type":"object","properties":{"a":{"pattern":"x"}}}`, []tooldef.Format{tooldef.Gemini}, "keyword pattern"},
	"words beside a reference":  {"n", "d", `{"type":"object","properties":{"a":{"$ref":"#/$defs/A","title":"x"}},"$defs":{"A":{}}}`, []tooldef.Format{tooldef.Gemini}, "beside $ref"},
	"enum of booleans":          {"n", "d", `{"type":"object","properties":{"a":{"enum":[true]}}}`, []tooldef.Format{tooldef.Gemini}, "enum of true"},
	"enum with null":            {"n", "d", `{"type":"object","properties":{"a":{"enum":["x",null]}}}`, []tooldef.Format{tooldef.Gemini}, "enum of"},
	"endless":                   {"n", "d", `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"]}}}`, []tooldef.Format{tooldef.Gemini}, "requires itself"},
}

func TestEachRuleOfAMakerRefuses(t *testing.T) {
	t.Parallel()
	for word, value := range map[string]string{"oneOf": `[{"required":[]}]`, "anyOf": `[{"required":[]}]`, "allOf": `[{"required":[]}]`, "enum": `[{}]`, "const": `{}`, "not": `{"type":"string"}`} {
		schema := fmt.Sprintf(`{"type":"object","properties":{"a":{}},%q:%s}`, word, value)
		requireBroken(t, word, []tooldef.Format{tooldef.OpenAI, tooldef.Anthropic, tooldef.Gemini}, word, func(f tooldef.Format) []byte { return tool(f, "n", "d", schema) })
	}
	for name, c := range broken {
		requireBroken(t, name, c.by, c.says, func(f tooldef.Format) []byte { return tool(f, c.name, c.description, c.schema) })
	}
	require.NotEmpty(t, toolrules.Violations(tooldef.OpenAI, []byte(`{"type":"tool","function":{"name":"n","description":"d","parameters":`+plain+`}}`)), "no function")
	for _, format := range tooldef.Formats() {
		require.NotEmpty(t, toolrules.Violations(format, []byte(`[]`)), format)
		require.Empty(t, toolrules.Violations(format, tool(format, "n", "d", plain)), format)
		require.Empty(t, toolrules.Violations(format, tool(format, strings.Repeat("a", 64), strings.Repeat("ä", 1024), plain)), format)
	}
	require.Empty(t, toolrules.Violations(tooldef.Gemini, tool(tooldef.Gemini, "n", "d", "")), "Gemini takes a function without parameters")
}

// requireBroken checks that these makers refuse a tool, by the words of the rule, and no others do.
func requireBroken(t *testing.T, name string, by []tooldef.Format, says string, made func(tooldef.Format) []byte) {
	t.Helper()
	for _, format := range tooldef.Formats() {
		found := strings.Join(toolrules.Violations(format, made(format)), "; ")
		if slices.Contains(by, format) {
			require.Contains(t, found, says, "%s by %s", name, format)
		} else {
			require.Empty(t, found, "%s is fine for %s", name, format)
		}
	}
}
