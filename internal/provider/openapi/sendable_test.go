package openapi_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/argschema"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/httpplan"
	"agentruntime/internal/provider/httpcall"
)

// What the builder of requests refuses of a text in a path or a header, the catalog's schema refuses
// too, and it lets pass what can be sent.
func TestSchemaRefusesWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	doc := document("3.0.3", `{"/f/{id}/{list}/{free}/{path}":{"get":{"parameters":[
		{"name":"id","in":"path","required":true,"schema":{"type":"string","nullable":true}},
		{"name":"list","in":"path","required":true,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"free","in":"path","required":true,"schema":{"$ref":"#/components/schemas/Text"}},
		{"name":"path","in":"path","required":true,"allowReserved":true,"schema":{"type":"string"}},
		{"name":"X-H","in":"header","schema":{"type":"string"}}]}}}`, `{"schemas":{"Text":{"type":"string"}}}`)
	v := one(t, doc)
	schema, err := argschema.Compile(v.Schema)
	require.NoError(t, err)
	plan, err := httpplan.Parse(v.Plan)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		change map[string]any
		sent   bool
	}{
		"as it should be":         {nil, true},
		"slashes":                 {map[string]any{"id": "a/b", "path": "a/b/c"}, true},
		"dots within":             {map[string]any{"id": "a.b", "free": "...", "path": "..a/b.."}, true},
		"semicolons and percents": {map[string]any{"id": "a;..", "free": "50%2"}, true},
		"a tab in a header":       {map[string]any{"X-H": "a\tb é"}, true},
		"nothing":                 {map[string]any{"id": ""}, false},
		"null":                    {map[string]any{"id": nil}, false},
		"nothing behind a ref":    {map[string]any{"free": ""}, false},
		"an empty list":           {map[string]any{"list": []string{}}, false},
		"a list of nothing":       {map[string]any{"list": []string{""}}, false},
		"a dot":                   {map[string]any{"id": "."}, false},
		"two dots":                {map[string]any{"free": ".."}, false},
		"dots between slashes":    {map[string]any{"id": "a/../b"}, false},
		"dots and a backslash":    {map[string]any{"id": `a\..`}, false},
		"dots, encoded":           {map[string]any{"id": "%2e%2E"}, false},
		"dots, encoded twice":     {map[string]any{"id": "a%252f%252e."}, false},
		"dots and a semicolon":    {map[string]any{"id": "..;x"}, false},
		"dots in a list":          {map[string]any{"list": []string{".."}}, false},
		"an empty segment":        {map[string]any{"path": "a//b"}, false},
		"a line break":            {map[string]any{"X-H": "a\nb"}, false},
		"a zero":                  {map[string]any{"X-H": "a\x00"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := map[string]any{"id": "1", "list": []string{"a"}, "free": "f", "path": "p"}
			maps.Copy(args, tc.change)
			raw, err := json.Marshal(args)
			require.NoError(t, err)
			_, err = httpcall.BuildRequest(plan, "https://api.shop.example", raw)
			require.Equal(t, tc.sent, err == nil, "the builder: %v", err)
			if err != nil {
				require.True(t, fault.HasCode(err, fault.CodeInvalidArgs))
			}
			require.Equal(t, tc.sent, len(schema.Validate(raw)) == 0, "the schema: %v", schema.Validate(raw))
		})
	}
}

func TestRequiredListOfAQueryIsNotEmpty(t *testing.T) {
	t.Parallel()
	v := one(t, document("3.0.3", `{"/f":{"get":{"parameters":[
		{"name":"ids","in":"query","required":true,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"tags","in":"query","schema":{"type":"array","items":{"type":"string"}}}]}}}`, `{}`))
	schema, err := argschema.Compile(v.Schema)
	require.NoError(t, err)
	require.Empty(t, schema.Validate(json.RawMessage(`{"ids":["a"],"tags":[]}`)))
	require.Equal(t, "/args/ids", schema.Validate(json.RawMessage(`{"ids":[]}`))[0].Path)
}

func TestFormatByteIsBase64(t *testing.T) {
	t.Parallel()
	schema, err := argschema.Compile(json.RawMessage(`{"properties":{"b":{"type":"string","format":"byte"}}}`))
	require.NoError(t, err)
	for text, valid := range map[string]bool{"": true, "AAEC": true, "AA==": true, "AA": true, "_-8": true, "+/8=": true, "A": false, "AA=": false, "A===": false, "a b=": false, "é": false, "AA==AA==": false} {
		raw, err := json.Marshal(map[string]string{"b": text})
		require.NoError(t, err)
		require.Equal(t, valid, len(schema.Validate(raw)) == 0, text)
	}
}
