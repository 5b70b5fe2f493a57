package openapi_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/provider/openapi"
)

// Names that no schema lists are refused at any depth, unless the document opens the object. An import
// with strict false refuses them at the first level only.
func TestUnknownNamesInsideOfArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	const components = `{"schemas":{
		"Named":{"type":"object","properties":{"name":{"type":"string"}}},
		"Person":{"allOf":[{"$ref":"#/components/schemas/Named"},{"type":"object","properties":{"age":{"type":"integer"}}}]},
		"Open":{"type":"object","properties":{"name":{}},"additionalProperties":true},
		"Tree":{"type":"object","properties":{"leaf":{},"twigs":{"type":"array","items":{"$ref":"#/components/schemas/Tree"}}}},
		"Self":{"allOf":[{"$ref":"#/components/schemas/Self"}],"properties":{"name":{}}}}}`
	for name, c := range map[string]struct{ schema, known, unknown string }{
		"an object":                 {`{"type":"object","properties":{"name":{}}}`, `{"name":1}`, `{"name":1,"other":2}`},
		"an object without a type":  {`{"properties":{"name":{}}}`, `{"name":1}`, `{"other":2}`},
		"an object in an object":    {`{"properties":{"in":{"properties":{"name":{}}}}}`, `{"in":{"name":1}}`, `{"in":{"other":1}}`},
		"the items of a list":       {`{"type":"array","items":{"properties":{"name":{}}}}`, `[{"name":1},{}]`, `[{"name":1},{"other":1}]`},
		"the values of a map":       {`{"type":"object","additionalProperties":{"properties":{"name":{}}}}`, `{"any":{"name":1}}`, `{"any":{"other":1}}`},
		"a reference":               {`{"$ref":"#/components/schemas/Named"}`, `{"name":"a"}`, `{"other":"a"}`},
		"all of two":                {`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, `{"a":1,"b":2}`, `{"a":1,"b":2,"c":3}`},
		"all of and its own":        {`{"properties":{"c":{}},"allOf":[{"$ref":"#/components/schemas/Person"}]}`, `{"name":"a","age":1,"c":3}`, `{"name":"a","ago":1}`},
		"a reference to all of":     {`{"$ref":"#/components/schemas/Person"}`, `{"name":"a","age":1}`, `{"name":"a","ago":1}`},
		"one of two":                {`{"oneOf":[{"required":["a"],"properties":{"a":{}}},{"required":["b"],"properties":{"b":{}}}]}`, `{"b":1}`, `{"b":1,"c":1}`},
		"any of two":                {`{"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, `{"a":1,"b":1}`, `{"a":1,"c":1}`},
		"an object or a text":       {`{"anyOf":[{"properties":{"a":{}},"type":"object"},{"type":"string"}]}`, `"text"`, `{"c":1}`},
		"an object or null":         {`{"nullable":true,"type":"object","properties":{"a":{}}}`, `null`, `{"c":1}`},
		"one of them is required":   {`{"properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1}`, `{"a":1,"c":1}`},
		"a schema of itself":        {`{"$ref":"#/components/schemas/Tree"}`, `{"twigs":[{"twigs":[{"leaf":1}]}]}`, `{"twigs":[{"twigs":[{"other":1}]}]}`},
		"nothing is listed":         {`{"type":"object"}`, `{"any":{"thing":1}}`, ``},
		"nothing is said":           {`{}`, `{"any":1}`, ``},
		"it is open":                {`{"type":"object","properties":{"name":{}},"additionalProperties":true}`, `{"other":1}`, ``},
		"it is open behind":         {`{"$ref":"#/components/schemas/Open"}`, `{"other":1}`, ``},
		"a part of it is open":      {`{"allOf":[{"$ref":"#/components/schemas/Open"},{"properties":{"b":{}}}]}`, `{"b":1,"other":1}`, ``},
		"a form of it is free":      {`{"anyOf":[{"properties":{"a":{"type":"string"}},"type":"object"},{"type":"object"}]}`, `{"c":1}`, ``},
		"what is given up is open":  {`{"allOf":[{"$ref":"#/nowhere"},{"properties":{"a":{}}}]}`, `{"a":1,"b":1}`, ``},
		"what never ends is open":   {`{"$ref":"#/components/schemas/Self"}`, `{"name":1,"other":1}`, ``},
		"a list of what is allowed": {`{"type":"array","contains":{"properties":{"a":{}}}}`, `[{"a":1,"b":1}]`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := document("3.0.3", jsonBody(`{"properties":{"deep":`+c.schema+`}}`), components)
			for _, loose := range []bool{false, true} {
				im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: doc, Loose: loose})
				require.NoError(t, err)
				schema, err := argschema.Compile(im.Verbs[0].Schema)
				require.NoError(t, err)
				judge := func(args string) (rules []string) {
					for _, d := range schema.Validate(json.RawMessage(args)) {
						rules = append(rules, d.Rule)
					}
					return rules
				}
				require.Empty(t, judge(`{"id":"1","deep":`+c.known+`}`), "%s", im.Verbs[0].Schema)
				require.Equal(t, []string{"unknown_field"}, judge(`{"id":"1","depe":1}`))
				switch {
				case c.unknown == "":
				case loose:
					require.Empty(t, judge(`{"id":"1","deep":`+c.unknown+`}`))
				default:
					require.NotEmpty(t, judge(`{"id":"1","deep":`+c.unknown+`}`), "%s", im.Verbs[0].Schema)
				}
			}
		})
	}
}
