package openapi_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
)

// What the builder of requests refuses of a value in its place, the catalog's schema refuses too, and it
// lets pass what can be sent.
func TestSchemaRefusesWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	doc := document("3.0.3", `{"/f/{id}/{list}/{free}/{path}/{dots}":{"post":{"parameters":[
		{"name":"id","in":"path","required":true,"schema":{"type":"string","nullable":true}},
		{"name":"list","in":"path","required":true,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"free","in":"path","required":true,"schema":{"$ref":"#/components/schemas/Text"}},
		{"name":"path","in":"path","required":true,"allowReserved":true,"schema":{"type":"string"}},
		{"name":"dots","in":"path","required":true,"style":"label","explode":true,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"X-H","in":"header","schema":{"type":"string"}},
		{"name":"X-L","in":"header","schema":{"type":"array","items":{"type":"string"}}},
		{"name":"X-O","in":"header","explode":true,"schema":{"type":"object","additionalProperties":{"type":"string"}}},
		{"name":"q","in":"query","schema":{"type":"array","items":{"type":"string","nullable":true}}},
		{"name":"comma","in":"query","explode":false,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"free_comma","in":"query","explode":false,"allowReserved":true,"schema":{"$ref":"#/components/schemas/Texts"}},
		{"name":"pipe","in":"query","style":"pipeDelimited","explode":false,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"space","in":"query","style":"spaceDelimited","explode":false,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"spaces","in":"query","style":"spaceDelimited","explode":true,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"object","in":"query","explode":false,"schema":{"type":"object","additionalProperties":{"type":"string"}}},
		{"name":"deep","in":"query","style":"deepObject","explode":true,"schema":{"type":"object","additionalProperties":{"type":"array","items":{"nullable":true,"type":"string"}}}},
		{"name":"sid","in":"cookie","schema":{"type":"array","items":{"type":"string","nullable":true}}}],
		"requestBody":{"content":{"application/x-www-form-urlencoded":{
			"schema":{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string","nullable":true}},"piped":{"type":"array","items":{"type":"string"}},"meta":{"type":"object"}}},
			"encoding":{"piped":{"style":"pipeDelimited","explode":false}}}}}}}}`,
		`{"schemas":{"Text":{"type":"string"},"Texts":{"type":"array","items":{"type":"string"}}}}`)
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

		"lists as they should be":                {map[string]any{"dots": []string{"a", "b"}, "X-L": []string{"a", "b"}, "q": []string{"a,b", ""}, "pipe": []string{"a,b"}, "sid": []string{"a b"}, "tags": []string{"a", "b\n"}}, true},
		"a comma that is encoded":                {map[string]any{"comma": []string{"a,b"}}, true},
		"a space that separates nothing":         {map[string]any{"spaces": []string{"a b"}}, true},
		"objects as they should be":              {map[string]any{"X-O": map[string]any{"a": "b"}, "object": map[string]any{"a": "b c"}, "deep": map[string]any{"a": []string{"b"}}, "meta": map[string]any{"a": []any{nil}}}, true},
		"a dot in a dotted path":                 {map[string]any{"dots": []string{"a.b"}}, false},
		"a comma in a header's list":             {map[string]any{"X-L": []string{"a,b"}}, false},
		"a line break in a header's list":        {map[string]any{"X-L": []string{"a\n"}}, false},
		"a comma in a header's object":           {map[string]any{"X-O": map[string]any{"a": "b,c"}}, false},
		"a comma in a name of a header's object": {map[string]any{"X-O": map[string]any{"a,b": "c"}}, false},
		"a line break in a header's object":      {map[string]any{"X-O": map[string]any{"a": "b\n"}}, false},
		"a null in a query's list":               {map[string]any{"q": []any{"a", nil}}, false},
		"a comma that is not encoded":            {map[string]any{"free_comma": []string{"a,b"}}, false},
		"a pipe in a piped list":                 {map[string]any{"pipe": []string{"a", "b|c"}}, false},
		"a space in a spaced list":               {map[string]any{"space": []string{"a b"}}, false},
		"a comma in a query's object":            {map[string]any{"object": map[string]any{"a": "b,c"}}, false},
		"an encoded comma in a query's object":   {map[string]any{"object": map[string]any{"a": "b%2cc"}}, false},
		"a bracket in a deep object":             {map[string]any{"deep": map[string]any{"a]b": []string{"c"}}}, false},
		"a null in a deep object's list":         {map[string]any{"deep": map[string]any{"a": []any{nil}}}, false},
		"a null in a cookie's list":              {map[string]any{"sid": []any{"a", nil}}, false},
		"a null in a form's list":                {map[string]any{"tags": []any{"a", nil}}, false},
		"a pipe in a form's piped list":          {map[string]any{"piped": []string{"a|b"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := map[string]any{"id": "1", "list": []string{"a"}, "free": "f", "path": "p", "dots": []string{"d"}}
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
