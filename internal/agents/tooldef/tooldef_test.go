package tooldef_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/schemagraph"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/toolrules"
)

func made(t *testing.T, format tooldef.Format, schema string, budget int) (tool []byte, omits []string) {
	t.Helper()
	v := tooldef.Verb{Name: verb.Name{Provider: "shop", Verb: "create_refund"}, Description: "Refund an order.", Operation: verb.Write, Idempotency: verb.IdempotencyIntrinsic, Risk: verb.RiskHigh}
	p, err := tooldef.ParametersOf(json.RawMessage(schema), format, budget)
	require.NoError(t, err)
	raw, err := json.Marshal(v.Tool(format, p))
	require.NoError(t, err)
	return raw, p.Omits
}

func parameters(t *testing.T, schema string, budget int) (json.RawMessage, []string) {
	t.Helper()
	raw, omits := made(t, tooldef.Anthropic, schema, budget)
	var tool struct {
		InputSchema json.RawMessage `json:"input_schema"`
	}
	require.NoError(t, json.Unmarshal(raw, &tool))
	return tool.InputSchema, omits
}

func TestToolOfEachFormat(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`
	const same = `{"additionalProperties":false,"properties":{"id":{"type":"string"}},"required":["id"],"type":"object"}`
	for format, want := range map[tooldef.Format]string{
		tooldef.OpenAI:    `{"type":"function","function":{"name":"shop__create_refund","description":"Refund an order.","parameters":` + same + `}}`,
		tooldef.Anthropic: `{"name":"shop__create_refund","description":"Refund an order.","input_schema":` + same + `}`,
		tooldef.Gemini:    `{"name":"shop__create_refund","description":"Refund an order.","parametersJsonSchema":` + same + `}`,
		tooldef.MCP: `{"name":"shop__create_refund","description":"Refund an order.","inputSchema":` + same +
			`,"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":true}}`,
	} {
		raw, omits := made(t, format, schema, 0)
		require.JSONEq(t, want, string(raw), format)
		require.Empty(t, omits)
	}
}

// refusedSchemas are schemas that a maker refuses as they are, each with the rule that it breaks.
var refusedSchemas = map[string]struct {
	schema string
	by     []tooldef.Format
}{
	"name with brackets":   {`{"type":"object","properties":{"filter[x]":{"type":"string"}},"required":["filter[x]"]}`, tooldef.Formats()},
	"long name":            {`{"type":"object","properties":{"` + strings.Repeat("a", 66) + `":{"type":"string"}}}`, tooldef.Formats()},
	"empty name":           {`{"type":"object","properties":{"":{"type":"string"}}}`, tooldef.Formats()},
	"nested name":          {`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"$top":{"type":"integer"}}}}}}`, tooldef.Formats()},
	"name in a definition": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","properties":{"b:c":{"type":"string"}}}}}`, tooldef.Formats()},
	"name with a dash":     {`{"type":"object","properties":{"user-id":{"type":"string"}}}`, []tooldef.Format{tooldef.Gemini}},
	"anyOf at the top":     {`{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}]}`, tooldef.Formats()},
	"oneOf beside an object": {
		`{"type":"object","properties":{"a":{"type":"string"}},"oneOf":[{"required":["a"]},{"required":["b"],"properties":{"b":{"type":"string"}}}]}`,
		[]tooldef.Format{tooldef.OpenAI, tooldef.Anthropic, tooldef.Gemini},
	},
	"allOf at the top":             {`{"type":"object","properties":{},"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]}]}`, []tooldef.Format{tooldef.OpenAI, tooldef.Anthropic, tooldef.Gemini}},
	"reference at the top":         {`{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"a":{"type":"string"}}}}}`, tooldef.Formats()},
	"array without items":          {`{"type":"object","properties":{"a":{"type":["array","null"]}}}`, tooldef.Formats()},
	"required that is no property": {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a","b"]}`, tooldef.Formats()},
	"unknown keyword":              {`{"type":"object","properties":{"a":{"type":"string","minLength":1,"pattern":"a","const":"b"}}}`, []tooldef.Format{tooldef.Gemini}},
	"own keyword":                  {`{"type":"object","properties":{"a":{"x-opaque":true}}}`, []tooldef.Format{tooldef.Gemini}},
	"nested allOf":                 {`{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/A"},{"type":"object","properties":{"c":{"type":"string"}}}]}},"$defs":{"A":{"type":"object","properties":{"b":{"type":"string"}}}}}`, []tooldef.Format{tooldef.Gemini}},
	"enum of booleans":             {`{"type":"object","properties":{"a":{"enum":[true,false,null]}}}`, []tooldef.Format{tooldef.Gemini}},
	"words beside $ref":            {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A","description":"b"}},"$defs":{"A":{"type":"string"}}}`, []tooldef.Format{tooldef.Gemini}},
	"definition that requires itself": {
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/A"}},"required":["b"]}}}`,
		[]tooldef.Format{tooldef.Gemini},
	},
	"no arguments": {`{"type":"object","properties":{}}`, []tooldef.Format{tooldef.Gemini}},
}

func plainly(format tooldef.Format, schema string) []byte {
	return fmt.Appendf(nil, map[tooldef.Format]string{
		tooldef.OpenAI: `{"type":"function","function":{"name":"a__b","description":"c","parameters":%s}}`, tooldef.Anthropic: `{"name":"a__b","description":"c","input_schema":%s}`,
		tooldef.Gemini: `{"name":"a__b","description":"c","parametersJsonSchema":%s}`, tooldef.MCP: `{"name":"a__b","description":"c","inputSchema":%s}`,
	}[format], schema)
}

// The rules of the test find each of these, and no tool that is made of one breaks a rule.
func TestWhatMakersRefuseIsMended(t *testing.T) {
	t.Parallel()
	for name, c := range refusedSchemas {
		for _, format := range tooldef.Formats() {
			for _, by := range c.by {
				if by == format {
					require.NotEmpty(t, toolrules.Violations(format, plainly(format, c.schema)), "%s by %s", name, format)
				}
			}
			for _, budget := range []int{0, 1 << 10} {
				raw, _ := made(t, format, c.schema, budget)
				require.Empty(t, toolrules.Violations(format, raw), "%s for %s: %s", name, format, raw)
			}
		}
	}
	for format, tool := range map[tooldef.Format]string{
		tooldef.OpenAI:    `{"type":"function","function":{"name":"a:b","description":"c","parameters":{"type":"object","properties":{}}}}`,
		tooldef.Anthropic: `{"name":"a:b","description":"c","input_schema":{"type":"object","properties":{}}}`,
		tooldef.Gemini:    `{"name":"7a","description":"c"}`,
		tooldef.MCP:       `{"name":"a b","description":"c","inputSchema":{"type":"object","properties":{}}}`,
	} {
		require.Len(t, toolrules.Violations(format, []byte(tool)), 1, format)
	}
	require.NotEmpty(t, toolrules.Violations(tooldef.OpenAI, plainly(tooldef.OpenAI, strings.Repeat(" ", 1)+`{"type":"string"}`)))
}

func TestNameOfAToolFitsEachMaker(t *testing.T) {
	t.Parallel()
	for _, name := range []verb.Name{{Provider: "7shifts", Verb: "list"}, {Provider: "7" + strings.Repeat("a", 39), Verb: strings.Repeat("b", 22)}, {Provider: "a", Verb: "b"}} {
		for _, format := range tooldef.Formats() {
			raw, err := json.Marshal(tooldef.Verb{Name: name, Description: strings.Repeat("ä", 3000)}.Tool(format, tooldef.Nothing()))
			require.NoError(t, err)
			require.Empty(t, toolrules.Violations(format, raw), "%s: %.200s", format, raw)
		}
	}
	for _, schema := range []string{`true`, `{`, ``} {
		_, err := tooldef.ParametersOf(json.RawMessage(schema), tooldef.MCP, 0)
		require.Error(t, err)
	}
}

// What was a union has the arguments of all branches, and requires what each of them requires.
func TestUnionAtTheTopBecomesOneObject(t *testing.T) {
	t.Parallel()
	got, omits := parameters(t, `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],
		"allOf":[{"$ref":"#/$defs/Base"}],
		"oneOf":[{"properties":{"kind":{"const":"card"},"number":{"type":"string"}},"required":["kind","number"]},
		         {"properties":{"kind":{"const":"bank"},"iban":{"type":"string"}},"required":["kind","iban"]}],
		"$defs":{"Base":{"type":"object","properties":{"note":{"type":"string"}},"required":["note"]}}}`, 0)
	require.JSONEq(t, `{"type":"object","properties":{"id":{"type":"string"},"note":{"type":"string"},"number":{"type":"string"},"iban":{"type":"string"},
		"kind":{"anyOf":[{"const":"card"},{"const":"bank"}]}},"required":["id","kind","note"]}`, string(got))
	require.Equal(t, []string{"which alternatives of the arguments go together"}, omits)
}

// back is what a verb gets of the arguments of a tool call.
func back(t *testing.T, schema, args string) (string, error) {
	t.Helper()
	raw, err := tooldef.Back(schemagraph.Read(json.RawMessage(schema)), json.RawMessage(args))
	return string(raw), err
}

const odd = `{"type":"object","properties":{"filter[x]":{"type":"string"},"list":{"type":"array","items":{"$ref":"#/$defs/A"}},"any":{"type":"object","additionalProperties":{"$ref":"#/$defs/A"}}},
	"anyOf":[{"properties":{"$top":{"type":"integer"}}}],"$defs":{"A":{"type":"object","properties":{"b:c":{"type":"string"},"next":{"$ref":"#/$defs/A"}}}}}`

// given returns the name that the tool has for an argument.
func given(t *testing.T, schema, name string) string {
	t.Helper()
	raw, _ := parameters(t, schema, 0)
	var found string
	var look func(any)
	look = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				if described, ok := inner.(map[string]any); ok {
					if text, _ := described["description"].(string); strings.HasPrefix(text, fmt.Sprintf("%q.", name)) {
						found = key
					}
				}
				look(inner)
			}
		case []any:
			for _, inner := range v {
				look(inner)
			}
		}
	}
	var tree any
	require.NoError(t, json.Unmarshal(raw, &tree))
	look(tree)
	require.NotEmpty(t, found, "%s in %s", name, raw)
	return found
}

func TestArgumentsGetTheirNamesBack(t *testing.T) {
	t.Parallel()
	filter, top, bc := given(t, odd, "filter[x]"), given(t, odd, "$top"), given(t, odd, "b:c")
	require.Regexp(t, `^filter_x__[0-9a-f]{8}$`, filter)
	require.True(t, tooldef.MayBeGiven(json.RawMessage(`{"`+filter+`" : 1}`)))
	require.False(t, tooldef.MayBeGiven(json.RawMessage(`{"filter[x]":1,"a__b":"c__12345678"}`)))
	for args, want := range map[string]string{
		`{"` + filter + `":"a","` + top + `":1}`:                                                 `{"$top":1,"filter[x]":"a"}`,
		`{"list":[{"` + bc + `":"a","next":{"` + bc + `":"b"}}],"any":{"k":{"` + bc + `":"c"}}}`: `{"any":{"k":{"b:c":"c"}},"list":[{"b:c":"a","next":{"b:c":"b"}}]}`,
		// Where the schema does not have the argument, the name is the caller's own.
		`{"any":{"` + filter + `":{}},"` + bc + `":1}`: `{"any":{"` + filter + `":{}},"` + bc + `":1}`,
		`{"filter[x]":"a","n":1.10}`:                   `{"filter[x]":"a","n":1.10}`,
		`[`:                                            `[`,
	} {
		got, err := back(t, odd, args)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for args, path := range map[string]string{
		`{"filter[x]":"a","` + filter + `":"b"}`:     "/args/" + filter,
		`{"list":[{},{"b:c":"a","` + bc + `":"b"}]}`: "/args/list/1/" + bc,
	} {
		_, err := back(t, odd, args)
		f := fault.As(err)
		require.NotNil(t, f)
		require.Equal(t, fault.CodeValidation, f.Code)
		require.Equal(t, path, f.Details[0].Path)
	}
}

// An argument that has the name which another would get keeps it.
func TestGivenNameIsNeverAnothersName(t *testing.T) {
	t.Parallel()
	taken := given(t, odd, "filter[x]")
	schema := `{"type":"object","properties":{"filter[x]":{"type":"string"},"` + taken + `":{"type":"string"}}}`
	longer := given(t, schema, "filter[x]")
	require.NotEqual(t, taken, longer)
	got, err := back(t, schema, `{"`+longer+`":"a","`+taken+`":"b"}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"filter[x]":"a","`+taken+`":"b"}`, got)
	raw, _ := parameters(t, `{"type":"object","properties":{"a[b]":{"type":"string"},"a(b)":{"type":"string"}}}`, 0)
	require.Equal(t, 2, strings.Count(string(raw), `"type":"string"`))
}

func wide(n, levels int) string {
	inner := `{"type":"string","description":"` + strings.Repeat("long ", 60) + `"}`
	for range levels {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"p%d":%s`, i, inner)
		}
		inner = `{"type":"object","properties":{` + b.String() + `},"required":["p0"]}`
	}
	return inner
}

func TestToolFitsTheBudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema string
		omits  string
	}{
		"small":               {wide(2, 1), ""},
		"long descriptions":   {wide(60, 1), "descriptions beyond 200 characters"},
		"longer descriptions": {wide(100, 1), "descriptions beyond 80 characters"},
		"many arguments":      {wide(400, 1), "descriptions"},
		"deep":                {wide(8, 4), "descriptions, what is nested deeper than 3"},
		"a thousand":          {wide(1000, 1), "descriptions, what is nested deeper than 1, the arguments"},
		"refers to itself":    {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"},"text":{"type":"string","description":"` + strings.Repeat("x", 30_000) + `"}},"$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/A"}}}}}`, "descriptions beyond 200 characters"},
		"refers, and is too long": {strings.Replace(wide(400, 1), `"p0":`, `"z":{"$ref":"#/$defs/A"},"p0":`, 1)[:len(strings.Replace(wide(400, 1), `"p0":`, `"z":{"$ref":"#/$defs/A"},"p0":`, 1))-1] +
			`,"$defs":{"A":` + strings.Replace(wide(300, 1), `"p1":`, `"next":{"$ref":"#/$defs/A"},"p1":`, 1) + `}}`, "descriptions, what is nested deeper than 1"},
	} {
		for _, format := range tooldef.Formats() {
			raw, omits := made(t, format, c.schema, 16<<10)
			require.Empty(t, toolrules.Violations(format, raw), "%s for %s: %.300s", name, format, raw)
			require.LessOrEqual(t, len(raw), 16<<10+400, "%s for %s", name, format)
			require.True(t, strings.HasPrefix(strings.Join(omits, ", "), c.omits), "%s for %s: %v", name, format, omits)
			if c.omits == "" {
				require.Empty(t, omits)
			}
		}
	}
}

// What the verb takes, the tool takes: it only says less.
func TestToolTakesWhatTheVerbTakes(t *testing.T) {
	t.Parallel()
	for schema, args := range map[string][]string{
		odd: {`{}`, `{"filter[x]":"a"}`, `{"list":[{"b:c":"d"}]}`, `{"any":{"x":{"next":{}}}}`},
		refusedSchemas["oneOf beside an object"].schema: {`{"a":"b"}`, `{"b":"c"}`},
		wide(4, 4): {`{"p0":{"p0":{"p0":{"p0":"a"}}}}`},
	} {
		whole, err := argschema.Compile(json.RawMessage(schema))
		require.NoError(t, err)
		for _, budget := range []int{0, 2 << 10} {
			raw, _ := parameters(t, schema, budget)
			tool, err := argschema.Compile(raw)
			require.NoError(t, err)
			for _, one := range args {
				require.Empty(t, whole.Validate(json.RawMessage(one)))
				require.Empty(t, tool.Validate(json.RawMessage(one)), "%s by %s", one, raw)
			}
		}
	}
}

// Schemas that are made to be costly, or lead to themselves, end in bounded work.
func TestHostileSchemasEnd(t *testing.T) {
	t.Parallel()
	var doubled strings.Builder
	doubled.WriteString(`{"anyOf":[{"$ref":"#/$defs/A0"}],"$defs":{`)
	for i := range 40 {
		one := fmt.Sprintf(`{"$ref":"#/$defs/A%d"}`, i+1)
		fmt.Fprintf(&doubled, `"A%d":{"properties":{"p%d":%s},"anyOf":[%s,%s,%s]},`, i, i, one, one, one, one)
	}
	doubled.WriteString(`"A40":{"required":["x"]}}}`)
	var alternatives, required strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&alternatives, `,{"properties":{"a":{"const":%d}}}`, i)
		fmt.Fprintf(&required, `,"p%d"`, i)
	}
	for name, schema := range map[string]string{
		"allOf of itself":      `{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/A"}]}},"$defs":{"A":{"type":"object","properties":{"b":{"allOf":[{"$ref":"#/$defs/A"}]},"c":{"allOf":[{"$ref":"#/$defs/A"}]}}}}}`,
		"itself at the top":    `{"allOf":[{"$ref":"#/$defs/A"}],"$defs":{"A":{"allOf":[{"$ref":"#/$defs/A"}],"anyOf":[{"$ref":"#/$defs/A"}]}}}`,
		"only itself":          `{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}`,
		"doubled":              doubled.String(),
		"alternatives":         `{"type":"object","oneOf":[{}` + alternatives.String() + `]}`,
		"required only":        `{"type":"object","required":["x"` + required.String() + `]}`,
		"reference to nothing": `{"type":"object","properties":{"a":{"$ref":"#/$defs/B"},"b":{"$ref":"#/properties/a"}}}`,
	} {
		for _, format := range tooldef.Formats() {
			for _, budget := range []int{0, 1 << 10} {
				raw, _ := made(t, format, schema, budget)
				require.Less(t, len(raw), 1<<20, "%s for %s", name, format)
			}
		}
	}
}

func FuzzParametersOf(f *testing.F) {
	for _, c := range refusedSchemas {
		f.Add(c.schema, 0)
		f.Add(c.schema, 1<<10)
	}
	f.Fuzz(func(t *testing.T, schema string, budget int) {
		if len(schema) > 4<<10 {
			return
		}
		for _, format := range tooldef.Formats() {
			p, err := tooldef.ParametersOf(json.RawMessage(schema), format, max(0, budget))
			if err == nil {
				require.True(t, json.Valid(p.Schema))
			}
		}
	})
}

// A definition that is used in many places could make 50 MB of 120 KB, in minutes.
func TestDefinitionsInFullAreBounded(t *testing.T) {
	t.Parallel()
	var members, uses strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&members, `,"p%x":{"type":"string"}`, i)
	}
	for i := range 490 {
		fmt.Fprintf(&uses, `,"q%x":{"allOf":[{"$ref":"#/$defs/A"}]}`, i)
	}
	schema := `{"type":"object","properties":{"a":{}` + uses.String() + `},"$defs":{"A":{"type":"object","properties":{"a":{}` + members.String() + `}}}}`
	for _, f := range tooldef.Formats() {
		p, err := tooldef.ParametersOf([]byte(schema), f, 0)
		require.NoError(t, err)
		require.Less(t, len(p.Schema), 4<<20, f)
		require.Equal(t, f == tooldef.Gemini, p.Omits != nil, f)
	}
}
