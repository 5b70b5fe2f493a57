package openapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/openapi"
)

func TestParametersThatSomethingElseSetsAreDropped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ scheme, path, parameter, degraded string }{
		"the credential's cookie in another case": {`{"type":"apiKey","in":"cookie","name":"sid"}`, "/x", `{"name":"SID","in":"cookie"}`, "the credential's"},
		"the credential's query in part":          {`{"type":"apiKey","in":"query","name":"key"}`, "/x", `{"name":"key[0]","in":"query","required":true}`, "the credential's"},
		"the credential's header as CGI reads it": {`{"type":"apiKey","in":"header","name":"X-Api-Key"}`, "/x", `{"name":"x_api_key","in":"header","required":true}`, "the credential's"},
		"the credential itself":                   {`{"type":"apiKey","in":"query","name":"key"}`, "/x", `{"name":"key","in":"query","required":true}`, ""},
		"the path's own query":                    {`{"type":"http","scheme":"bearer"}`, "/x?action=pay", `{"name":"Action","in":"query","required":true}`, "its path gives it a value"},
		"another method":                          {`{"type":"http","scheme":"bearer"}`, "/x", `{"name":"X-HTTP-Method-Override","in":"header"}`, "not the caller's"},
		"another sender":                          {`{"type":"http","scheme":"bearer"}`, "/x", `{"name":"X_Forwarded_For","in":"header","required":true}`, "not the caller's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im := load(t, document("3.0.3", `{"`+tc.path+`":{"get":{"parameters":[`+tc.parameter+`,{"name":"q","in":"query","schema":{"type":"integer"}}]}}}`,
				`{"securitySchemes":{"s":`+tc.scheme+`}}`))
			require.Empty(t, im.Rejected)
			require.JSONEq(t, `{"additionalProperties":false,"properties":{"q":{"type":"integer"}},"required":[],"type":"object"}`, string(im.Verbs[0].Schema))
			if tc.degraded == "" {
				require.Empty(t, im.Degraded)
			} else {
				require.Contains(t, im.Degraded[0].Reason, tc.degraded)
			}
		})
	}
}

func TestFieldsOfAFormAreNamedWhereOthersCanBeSent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		schema, encoding string
		names            []string
		arg              string
	}{
		"closed":               {`{"properties":{"b":{},"a":{}}}`, `{}`, nil, ""},
		"open":                 {`{"properties":{"b":{},"a":{}},"additionalProperties":{"type":"string"}}`, `{}`, []string{"a", "b"}, ""},
		"an exploded object":   {`{"properties":{"b":{},"a":{"type":"object"}}}`, `{"a":{"style":"form","explode":true}}`, []string{"a", "b"}, ""},
		"a deep object":        {`{"properties":{"b":{},"a":{"type":"object"}}}`, `{"a":{"style":"deepObject","explode":true}}`, nil, ""},
		"names that are alike": {`{"properties":{"a":{},"a[b]":{}}}`, `{}`, []string{"a", "a[b]"}, ""},
		"like the query's":     {`{"properties":{"q[x]":{}}}`, `{}`, []string{"q[x]"}, ""},
		"another method":       {`{"properties":{"_method":{}}}`, `{}`, []string{"_method"}, ""},
		"one argument":         {`{"properties":{"a":{},"q":{}}}`, `{}`, []string{"a", "q"}, "body"},
		"the credential's":     {`{"properties":{"a":{},"Key":{}},"required":["Key"]}`, `{}`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im := load(t, document("3.0.3", `{"/x":{"post":{"parameters":[{"name":"q","in":"query"}],"requestBody":{"required":true,"content":{"application/x-www-form-urlencoded":{"schema":`+
				tc.schema+`,"encoding":`+tc.encoding+`}}}}}}`, `{"securitySchemes":{"s":{"type":"apiKey","in":"query","name":"key"}}}`))
			require.Empty(t, im.Rejected)
			plan, err := httpplan.Parse(im.Verbs[0].Plan)
			require.NoError(t, err)
			require.Equal(t, tc.names, plan.Body.Names)
			require.Equal(t, tc.arg, plan.Body.Arg)
			require.NotContains(t, string(im.Verbs[0].Schema), "Key")
		})
	}
}

// The name of a definition whose own name is taken has a digest of its reference. A document can have a
// schema of just that name.
func TestDefinitionsWhoseNamesCollideStayApart(t *testing.T) {
	t.Parallel()
	const other = "#/components/others/foo"
	sum := sha256.Sum256([]byte(other))
	digest := "foo_" + hex.EncodeToString(sum[:4])
	ref := func(to string) string { return `{"$ref":"` + to + `"}` }
	body := `{"type":"object","properties":{"a":` + ref("#/components/schemas/foo") + `,"b":` + ref("#/components/schemas/"+digest) + `,"c":` + ref(other) + `}}`
	doc := document("3.1.0", `{"/p":{"post":{"requestBody":{"content":{"application/json":{"schema":`+body+`}}}}}}`,
		`{"schemas":{"foo":{"type":"string"},"`+digest+`":{"type":"integer"}},"others":{"foo":{"type":"boolean"}}}`)
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: doc})
	require.NoError(t, err)
	schema, err := argschema.Compile(im.Verbs[0].Schema)
	require.NoError(t, err)
	require.Empty(t, schema.Validate(json.RawMessage(`{"a":"x","b":1,"c":true}`)))
	require.NotEmpty(t, schema.Validate(json.RawMessage(`{"b":true}`)))
}

func TestOperationWhoseNameIsTakenIsToldItsOwn(t *testing.T) {
	t.Parallel()
	im := load(t, document("3.1.0", `{"/a":{"post":{"operationId":"pay"}},"/b":{"post":{"operationId":"pay"}},"/c":{"post":{"operationId":"Pay"}},"/d":{"post":{"operationId":"refund"}}}`, ""))
	require.Len(t, im.Verbs, 4)
	for i, path := range []string{"/b", "/c"} {
		sum := sha256.Sum256([]byte("POST " + path))
		name := "pay_" + hex.EncodeToString(sum[:3])
		require.Equal(t, name, im.Verbs[i+1].Name)
		require.Equal(t, "POST "+path, im.Degraded[i].Operation)
		require.Equal(t, "another operation has the name pay; this one is "+name, im.Degraded[i].Reason)
	}
	require.Len(t, im.Degraded, 2)
}
