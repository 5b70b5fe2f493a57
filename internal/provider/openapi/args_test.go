package openapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/openapi"
)

// inPath is the schema of a text in a path.
const inPath = `{"minLength":1,"not":{"pattern":"(^|[/\\\\]|%(25)*(2[fF]|5[cC]))(\\.|%(25)*2[eE]){1,2}(;|[/\\\\]|%(25)*(2[fF]|3[bB]|5[cC])|$)","type":"string"},"type":"string"}`

// jsonBody is a POST whose JSON body has the schema.
func jsonBody(schema string) string {
	return `{"/x/{id}":{"post":{"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],` +
		`"requestBody":{"required":true,"content":{"application/json":{"schema":` + schema + `}}}}}}`
}

func TestBodyPropertiesBecomeArguments(t *testing.T) {
	t.Parallel()
	id, given := `"id":`+inPath, `{"additionalProperties":true,"x-opaque":true}`
	tests := map[string]struct {
		version, schema, components string
		want                        string
		degraded                    string
	}{
		"an object by property": {
			schema: `{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"type":"string","xml":{},"x-y":1}}}`,
			want:   `{"additionalProperties":false,"properties":{"a":{"type":"integer"},"b":{"type":"string"},` + id + `},"required":["a","id"],"type":"object"}`,
		},
		"an open object": {
			schema: `{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`,
			want:   `{"additionalProperties":{"type":"string"},"properties":{"a":{},` + id + `},"required":["id"],"type":"object"}`,
		},
		"read-only properties are the provider's": {
			schema:     `{"type":"object","required":["a","b"],"properties":{"a":{"readOnly":true},"b":{"type":"object","required":["c"],"properties":{"c":{"$ref":"#/components/schemas/R"}}}}}`,
			components: `{"schemas":{"R":{"type":"string","readOnly":true}}}`,
			want:       `{"additionalProperties":false,"properties":{"b":{"additionalProperties":false,"properties":{},"type":"object"},` + id + `},"required":["b","id"],"type":"object"}`,
		},
		"a clash": {
			schema: `{"type":"object","properties":{"id":{},"b":{}}}`,
			want:   `{"additionalProperties":false,"properties":{"body":{"additionalProperties":false,"properties":{"b":{},"id":{}},"type":"object"},` + id + `},"required":["body","id"],"type":"object"}`,
		},
		"a list": {
			schema: `{"type":"array","items":{"type":"integer"}}`,
			want:   `{"additionalProperties":false,"properties":{"body":{"items":{"type":"integer"},"type":"array"},` + id + `},"required":["body","id"],"type":"object"}`,
		},
		"alternatives": {
			schema: `{"oneOf":[{"type":"object","properties":{"a":{}}},{"type":"string"}]}`,
			want:   `{"additionalProperties":false,"properties":{"body":{"oneOf":[{"properties":{"a":{}},"type":"object"},{"type":"string"}],"unevaluatedProperties":false},` + id + `},"required":["body","id"],"type":"object"}`,
		},
		"one of two is required": {
			schema: `{"properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			want:   `{"additionalProperties":false,"allOf":[{"anyOf":[{"required":["a"]},{"required":["b"]}]}],"properties":{"a":{},"b":{},` + id + `},"required":["id"],"type":"object"}`,
		},
		"at least one": {
			schema: `{"properties":{"a":{},"b":{}},"minProperties":1}`,
			want:   `{"additionalProperties":false,"allOf":[{"anyOf":[{"required":["a"]},{"required":["b"]}]}],"properties":{"a":{},"b":{},` + id + `},"required":["id"],"type":"object"}`,
		},
		"at most": {
			schema: `{"properties":{"a":{},"b":{}},"maxProperties":1}`,
			want:   `{"additionalProperties":false,"properties":{"a":{},"b":{},` + id + `},"required":["id"],"type":"object"}`, degraded: "how many properties the body has is not checked",
		},
		"allOf and references": {
			schema:     `{"allOf":[{"$ref":"#/components/schemas/A"},{"properties":{"b":{"$ref":"#/components/schemas/B"}},"required":["b"]}]}`,
			components: `{"schemas":{"A":{"type":"object","properties":{"a":{"type":"string"}}},"B":{"type":"integer"}}}`,
			want: `{"$defs":{"B":{"type":"integer"}},"additionalProperties":false,"properties":{"a":{"type":"string"},"b":{"$ref":"#/$defs/B"},` + id +
				`},"required":["b","id"],"type":"object"}`,
		},
		"OpenAPI 3.0 keywords": {
			schema: `{"properties":{"a":{"type":"integer","nullable":true,"minimum":1,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false,"example":3},` +
				`"e":{"type":"string","nullable":true,"enum":["x"]},"r":{"$ref":"#/components/schemas/R","minimum":1},"n":{"nullable":true,"allOf":[{"type":"string"}],"description":"d"}}}`,
			components: `{"schemas":{"R":{"type":"number"}}}`,
			want: `{"$defs":{"R":{"type":"number"}},"additionalProperties":false,"properties":{"a":{"examples":[3],"exclusiveMinimum":1,"maximum":9,"type":["integer","null"]},` +
				`"e":{"enum":["x",null],"type":["string","null"]},` + id + `,"n":{"anyOf":[{"allOf":[{"type":"string"}]},{"type":"null"}],"description":"d"},"r":{"$ref":"#/$defs/R"}},"required":["id"],"type":"object"}`,
		},
		"OpenAPI 3.1 keywords": {
			version: "3.1.0",
			schema: `{"properties":{"a":{"type":["integer","null"],"exclusiveMinimum":1},"c":{"const":7},"r":{"$ref":"#/components/schemas/R","maximum":5},` +
				`"t":{"prefixItems":[{"type":"string"}],"items":false},"d":{"$defs":{"x":{}},"if":{"type":"string"},"then":{"minLength":2}}}}`,
			components: `{"schemas":{"R":{"type":"number"}}}`,
			want: `{"$defs":{"R":{"type":"number"}},"additionalProperties":false,"properties":{"a":{"exclusiveMinimum":1,"type":["integer","null"]},"c":{"const":7},` +
				`"d":{"if":{"type":"string"},"then":{"minLength":2}},` + id + `,"r":{"$ref":"#/$defs/R","maximum":5},"t":{"items":false,"prefixItems":[{"type":"string"}]}},"required":["id"],"type":"object"}`,
		},
		"a tree": {
			schema:     `{"properties":{"root":{"$ref":"#/components/schemas/Node"}}}`,
			components: `{"schemas":{"Node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/components/schemas/Node"}}}},"Unused":{}}}`,
			want: `{"$defs":{"Node":{"properties":{"children":{"items":{"$ref":"#/$defs/Node","unevaluatedProperties":false},"type":"array"}},"type":"object"}},"additionalProperties":false,` +
				`"properties":{` + id + `,"root":{"$ref":"#/$defs/Node","unevaluatedProperties":false}},"required":["id"],"type":"object"}`,
		},
		"a tree through combinations": {
			schema: `{"properties":{"root":{"$ref":"#/components/schemas/Node"}}}`,
			components: `{"schemas":{"Node":{"required":["n"],"properties":{"n":{},"a":{"nullable":true,"allOf":[{"$ref":"#/components/schemas/Node"}]},` +
				`"b":{"type":"array","items":{"anyOf":[{"$ref":"#/components/schemas/Node"},{"type":"string"}]}},"c":{"oneOf":[{"not":{"$ref":"#/components/schemas/Node"}}]},` +
				`"d":{"if":{"$ref":"#/components/schemas/Node"},"then":{"$ref":"#/components/schemas/Node"},"else":{"dependentSchemas":{"x":{"$ref":"#/components/schemas/Node"}}}}}}}}`,
			want: `{"$defs":{"Node":{"required":["n"],"properties":{"n":{},"a":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Node"}]},{"type":"null"}],"unevaluatedProperties":false},` +
				`"b":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"string"}],"unevaluatedProperties":false}},"c":{"oneOf":[{"not":{"$ref":"#/$defs/Node"}}]},` +
				`"d":{"if":{"$ref":"#/$defs/Node"},"then":{"$ref":"#/$defs/Node"},"else":{"dependentSchemas":{"x":{"$ref":"#/$defs/Node"}}}}}}},` +
				`"additionalProperties":false,"properties":{` + id + `,"root":{"$ref":"#/$defs/Node","unevaluatedProperties":false}},"required":["id"],"type":"object"}`,
		},
		"a dynamic reference": {
			version:  "3.1.0",
			schema:   `{"properties":{"a":{"$dynamicRef":"#node"},"b":{"x-opaque":true,"type":"string"}}}`,
			want:     `{"additionalProperties":false,"properties":{"a":` + given + `,"b":{"type":"string"},` + id + `},"required":["id"],"type":"object"}`,
			degraded: "a dynamic reference in a schema is not followed",
		},
		"a reference to itself": {
			schema:     `{"properties":{"a":{"$ref":"#/components/schemas/A"}}}`,
			components: `{"schemas":{"A":{"$ref":"#/components/schemas/A"}}}`,
			want:       `{"$defs":{"A":{"additionalProperties":true,"x-opaque":true}},"additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/A"},` + id + `},"required":["id"],"type":"object"}`,
			degraded:   "a schema that refers back to itself is not checked",
		},
		"a circle of three": {
			schema:     `{"properties":{"a":{"$ref":"#/components/schemas/A"}}}`,
			components: `{"schemas":{"A":{"allOf":[{"$ref":"#/components/schemas/B"}]},"B":{"not":{"$ref":"#/components/schemas/C"}},"C":{"anyOf":[{"$ref":"#/components/schemas/A"},{"type":"string"}]}}}`,
			want:       `{"$defs":{"A":{"additionalProperties":true,"x-opaque":true}},"additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/A"},` + id + `},"required":["id"],"type":"object"}`,
			degraded:   "a schema that refers back to itself is not checked",
		},
		"references that lead out or nowhere": {
			schema:   `{"properties":{"a":{"$ref":"file:///etc/passwd"},"b":{"$ref":"https://x.example/s.json"},"c":{"$ref":"#/components/schemas/None"},"d":{"$ref":"other.json#/A"},"e":{"$ref":"#anchor"}}}`,
			want:     `{"additionalProperties":false,"properties":{"a":` + given + `,"b":` + given + `,"c":` + given + `,"d":` + given + `,"e":` + given + `,` + id + `},"required":["id"],"type":"object"}`,
			degraded: "a reference leaves the document; a reference points to nothing; a reference to an anchor is not supported",
		},
		"a reference into a path": {
			schema: `{"properties":{"a":{"$ref":"#/paths/~1x~1%7Bid%7D/post/parameters/0/schema"}}}`,
			want:   `{"$defs":{"schema":{"type":"string"}},"additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/schema"},` + id + `},"required":["id"],"type":"object"}`,
		},
		"numbers that a validator chokes on": {
			schema:   `{"properties":{"a":{"minimum":1e999999999,"maximum":5},"b":{"multipleOf":0},"c":{"enum":[1e999999999]},"d":{"maxLength":-1},"e":{"multipleOf":1e-9999999},"f":{"default":1e999999999}}}`,
			want:     `{"additionalProperties":false,"properties":{"a":{"maximum":5},"b":{},"c":{},"d":{},"e":{},"f":{},` + id + `},"required":["id"],"type":"object"}`,
			degraded: "a bound in a schema is not usable; a number out of range in a schema is not checked",
		},
		"patterns": {
			schema:   `{"properties":{"a":{"pattern":"^(?!x)"},"b":{"pattern":"^\\u0041+$"},"c":{"pattern":"("},"d":{"pattern":"((a{100}){100}){100}"}}}`,
			want:     `{"additionalProperties":false,"properties":{"a":{},"b":{"pattern":"^\\x{0041}+$"},"c":{},"d":{},` + id + `},"required":["id"],"type":"object"}`,
			degraded: "a pattern that cannot be compiled is not checked",
		},
		"names by pattern": {
			version:  "3.1.0",
			schema:   `{"properties":{"a":{"type":"object","patternProperties":{"^x-":{"type":"integer"},"(?=y)":{"type":"string"}},"additionalProperties":false},"b":{"dependentRequired":{"c":["d"]},"dependentSchemas":{"c":{"required":["e"]}}}}}`,
			want:     `{"additionalProperties":false,"properties":{"a":{"additionalProperties":{"additionalProperties":true,"x-opaque":true},"patternProperties":{"^x-":{"type":"integer"}},"type":"object"},"b":{"dependentRequired":{"c":["d"]},"dependentSchemas":{"c":{"required":["e"]}}},` + id + `},"required":["id"],"type":"object"}`,
			degraded: "a pattern that cannot be compiled is not checked",
		},
		"nonsense": {
			schema:   `{"properties":{"a":5,"b":{"type":"file"},"c":{"type":"string","required":true,"enum":[]},"d":{"items":[{"type":"string"}]},"e":{"allOf":7,"properties":[]}}}`,
			want:     `{"additionalProperties":false,"properties":{"a":{"additionalProperties":true,"x-opaque":true},"b":{},"c":{"type":"string"},"d":{"prefixItems":[{"type":"string"}]},"e":{},` + id + `},"required":["id"],"type":"object"}`,
			degraded: "a schema has a type that JSON does not have; a schema is not an object",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.version == "" {
				tc.version = "3.0.3"
			}
			im := load(t, document(tc.version, jsonBody(tc.schema), tc.components))
			require.Empty(t, im.Rejected)
			require.JSONEq(t, tc.want, string(im.Verbs[0].Schema))
			if tc.degraded == "" {
				require.Empty(t, im.Degraded)
			} else {
				require.Equal(t, tc.degraded, im.Degraded[0].Reason)
			}
		})
	}
}

// TestParametersBecomeArguments shows which parameters become arguments.
func TestParametersBecomeArguments(t *testing.T) {
	t.Parallel()
	im := load(t, document("3.0.0", `{"/o/{id}/{undeclared}":{
		"parameters":[{"name":"id","in":"path","schema":{"type":"integer"}},{"name":"page","in":"query","schema":{"type":"integer"}}],
		"get":{"parameters":[
			{"name":"page","in":"query","description":"<b>Page</b>","schema":{"type":"string"}},
			{"name":"id","in":"query","schema":{"type":"boolean"}},
			{"$ref":"#/components/parameters/Filter"},
			{"name":"Accept","in":"header","required":true,"schema":{}},
			{"name":"authorization","in":"header","schema":{}},
			{"name":"Host","in":"header","required":true,"schema":{}},
			{"name":"X-Token","in":"header","schema":{"type":"string"}},
			{"name":"Proxy-Thing","in":"header","schema":{}},
			{"name":"gone","in":"path","schema":{}},
			{"name":"","in":"query","schema":{}},
			{"name":"x","in":"body","schema":{}},
			{"name":"odd","in":"query","style":"wavy","schema":{}},
			{"name":"xml","in":"query","content":{"application/xml":{}}}]}}}`,
		`{"parameters":{"Filter":{"name":"filter","in":"query","content":{"application/json":{"schema":{"type":"object"}}}}},"securitySchemes":{"k":{"type":"apiKey","in":"header","name":"x-token"}}}`))
	require.Empty(t, im.Rejected)
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["id","undeclared"],"properties":{
		"id":{"type":"integer"},"query_id":{"type":"boolean"},"page":{"type":"string","description":"Page"},"filter":{"type":"object"},
		"undeclared":`+inPath+`,"odd":{"items":{"not":{"type":"null"}}}}}`, string(im.Verbs[0].Schema))
	require.Equal(t, "a parameter has a style that is not known; the default is used; a parameter is dropped: its media type is not supported; "+
		"a parameter is dropped: its name is not usable; a parameter is dropped: its place is not known; a parameter is dropped: the header is not the caller's to set; "+
		"a path parameter is not declared and taken as text; a path parameter that is not in the path is dropped", im.Degraded[0].Reason)
}

func TestUncallableOperationsAreRejected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ path, op, reason string }{
		"a required parameter that cannot be sent": {"/x", `{"parameters":[{"name":"q","in":"query","required":true,"content":{"application/xml":{}}}]}`, "the required parameter q cannot be sent: its media type is not supported"},
		"a parameter elsewhere":                    {"/x", `{"parameters":[{"$ref":"params.json#/a"}]}`, "a parameter cannot be read: a reference leaves the document (params.json)"},
		"a parameter that is itself":               {"/x", `{"parameters":[{"$ref":"#/components/parameters/P"}]}`, "a parameter cannot be read: a reference leads back to itself (#/components/parameters/P)"},
		"a required body of XML":                   {"/x", `{"requestBody":{"required":true,"content":{"application/xml":{}}}}`, "its body has no supported media type"},
		"a body at an address with a secret":       {"/x", `{"requestBody":{"$ref":"https://u:pw@x.example/b?token=secret#/a"}}`, "its body cannot be read: a reference leaves the document (https://x.example/b)"},
		"a body that is a text":                    {"/x", `{"requestBody":{"$ref":"#/openapi"}}`, "its body cannot be read: an object is expected where the document has another value (#/openapi)"},
		"a body elsewhere":                         {"/x", `{"requestBody":{"$ref":"http://x.example/"}}`, "its body cannot be read: a reference leaves the document (http://x.example/)"},
		"a template half open":                     {"/x/{id", `{}`, "its path template is not understood"},
		"a template of slashes":                    {"/x/{a/b}", `{}`, "its path template is not understood"},
		"a path that climbs":                       {"/x/../y", `{}`, "its path has a dot segment"},
		"a query template":                         {"/x?y={z}", `{}`, "its path has a template behind a question mark"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im := load(t, document("3.0.0", `{"`+tc.path+`":{"post":`+tc.op+`},"/ok":{"get":{}}}`, `{"parameters":{"P":{"$ref":"#/components/parameters/P"}}}`))
			require.Len(t, im.Verbs, 1, "the other operation is imported")
			require.Equal(t, []verb.Report{{Operation: "POST " + tc.path, Reason: tc.reason}}, im.Rejected)
		})
	}
}

// TestHostileDocumentsAreRefusedOrBounded must end soon, whatever the document says.
func TestHostileDocumentsAreRefusedOrBounded(t *testing.T) {
	t.Parallel()
	chain := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"schemas":{"A0":{"type":"string"}`)
		for i := 1; i < n; i++ {
			fmt.Fprintf(&b, `,"A%d":{"allOf":[{"$ref":"#/components/schemas/A%d"}]}`, i, i-1)
		}
		return b.String() + "}}"
	}
	wide := func(n, size int) string {
		var b strings.Builder
		b.WriteString(`{"schemas":{"End":{}`)
		for i := range n {
			fmt.Fprintf(&b, `,"B%d":{"description":%q,"properties":{"next":{"$ref":"#/components/schemas/B%d"}}}`, i, strings.Repeat("x", size), (i+1)%n)
		}
		return b.String() + "}}"
	}
	tests := map[string]struct{ components, ref, degraded string }{
		"a long chain":      {components: chain(20_000), ref: "A19999", degraded: "the schema is too large; its deeper parts are not checked"},
		"a tight web":       {components: wide(2_000, 500), ref: "B0", degraded: "the schema is too large; its deeper parts are not checked"},
		"doubling branches": {components: doubling(60), ref: "D0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im := load(t, document("3.1.0", jsonBody(`{"properties":{"a":{"$ref":"#/components/schemas/`+tc.ref+`"}}}`), tc.components))
			require.LessOrEqual(t, len(im.Verbs[0].Schema), 150<<10)
			if tc.degraded != "" {
				require.Equal(t, tc.degraded, im.Degraded[0].Reason)
			}
		})
	}
}

// doubling is a schema whose validation would double its work n times.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"schemas":{"End":{"type":"integer"}`)
	for i := range n {
		next := fmt.Sprintf("D%d", i+1)
		if i == n-1 {
			next = "End"
		}
		branch := `{"properties":{"x":{"$ref":"#/components/schemas/` + next + `"}}}`
		fmt.Fprintf(&b, `,"D%d":{"anyOf":[%s,%s]}`, i, branch, branch)
	}
	return b.String() + "}}"
}

func TestDoublingSchemaIsRefusedInBoundedWork(t *testing.T) {
	t.Parallel()
	v := one(t, document("3.1.0", jsonBody(`{"properties":{"a":{"$ref":"#/components/schemas/D0"}}}`), doubling(50)))
	schema, err := argschema.Compile(v.Schema)
	require.NoError(t, err)
	args := json.RawMessage(`{"id":"1","a":` + strings.Repeat(`{"x":`, 50) + `"no"` + strings.Repeat(`}`, 50) + `}`)
	details := schema.Validate(args)
	require.Equal(t, "complexity", details[0].Rule)
	require.Empty(t, schema.Validate(json.RawMessage(`{"id":"1","a":{"x":{}}}`)), "the count starts again")
}

// A form is made of the members of an object, whatever the document says of it.
func TestFormThatIsOneArgumentIsAnObject(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		schema, want string
		lost         bool
	}{
		"a text":        {`{"type":"string"}`, `{"type":"object"}`, true},
		"texts or none": {`{"type":["string","null"]}`, `{"type":"object"}`, true},
		"no type":       {`{"additionalProperties":{"type":"integer"}}`, `{"type":"object","additionalProperties":{"type":"integer"}}`, false},
		"an object":     {`{"type":"object","minProperties":1}`, `{"type":"object","minProperties":1}`, false},
		"anything":      {`{}`, `{"type":"object"}`, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im := load(t, document("3.1.0", `{"/x":{"post":{"requestBody":{"content":{"application/x-www-form-urlencoded":{"schema":`+tc.schema+`}}}}}}`, ""))
			var schema struct{ Properties map[string]json.RawMessage }
			require.NoError(t, json.Unmarshal(im.Verbs[0].Schema, &schema))
			require.JSONEq(t, tc.want, string(schema.Properties["body"]))
			require.Equal(t, tc.lost, len(im.Degraded) == 1, "%v", im.Degraded)
		})
	}
}

// OpenAPI 3.0 ignores what stands beside a reference.
func TestReadOnlyBesideAReferenceCountsInOpenAPI31(t *testing.T) {
	t.Parallel()
	body := `{"type":"object","properties":{"o":{"type":"object","required":["id","n"],"properties":{"id":{"$ref":"#/components/schemas/Id","readOnly":true},"n":{}}}}}`
	for version, refused := range map[string]bool{"3.1.0": false, "3.0.3": true} {
		doc := document(version, `{"/p":{"post":{"requestBody":{"content":{"application/json":{"schema":`+body+`}}}}}}`, `{"schemas":{"Id":{"type":"string"}}}`)
		im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: doc})
		require.NoError(t, err)
		schema, err := argschema.Compile(im.Verbs[0].Schema)
		require.NoError(t, err)
		require.Equal(t, refused, len(schema.Validate(json.RawMessage(`{"o":{"n":1}}`))) > 0, version)
	}
}
