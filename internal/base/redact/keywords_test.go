package redact_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/redact"
)

// TestMaskKnowsEveryKeyword: a mark hides its value under each keyword that an import keeps.
func TestMaskKnowsEveryKeyword(t *testing.T) {
	t.Parallel()
	marks := []string{`"x-sensitive":true`, `"format":"password"`, `"writeOnly":true`, `"x-opaque":true`}
	// In a schema % stands for a marked schema, in the arguments for the value.
	for name, tc := range map[string]struct{ schema, args string }{
		"properties":            {`{"properties":{"v":%}}`, `{"v":%}`},
		"in another case":       {`{"properties":{"v":%},"additionalProperties":true}`, `{"V":%}`},
		"patternProperties":     {`{"patternProperties":{"^s_":%},"additionalProperties":false}`, `{"s_x":%}`},
		"a pattern of no RE2":   {`{"patternProperties":{"(?=s)":%}}`, `{"s_x":%}`},
		"additionalProperties":  {`{"properties":{"a":{}},"additionalProperties":%}`, `{"v":%}`},
		"unevaluatedProperties": {`{"properties":{"a":{}},"unevaluatedProperties":%}`, `{"v":%}`},
		"items":                 {`{"properties":{"l":{"items":%}}}`, `{"l":[%]}`},
		"prefixItems":           {`{"properties":{"l":{"prefixItems":[{},%]}}}`, `{"l":["a",%]}`},
		"items after a prefix":  {`{"properties":{"l":{"prefixItems":[{}],"items":%}}}`, `{"l":["a",%]}`},
		"unevaluatedItems":      {`{"properties":{"l":{"prefixItems":[{}],"unevaluatedItems":%}}}`, `{"l":["a",%]}`},
		"contains":              {`{"properties":{"l":{"items":{},"contains":%}}}`, `{"l":[%]}`},
		"items of old drafts":   {`{"properties":{"l":{"items":[{},%]}}}`, `{"l":["a",%]}`},
		"additionalItems":       {`{"properties":{"l":{"items":[{}],"additionalItems":%}}}`, `{"l":["a",%]}`},
		"$ref":                  {`{"properties":{"v":{"$ref":"#/$defs/S"}},"$defs":{"S":%}}`, `{"v":%}`},
		"beside a $ref":         {`{"properties":{"v":{"allOf":[{"$ref":"#/$defs/S"},%]}},"$defs":{"S":{"type":"string"}}}`, `{"v":%}`},
		"allOf":                 {`{"allOf":[{"properties":{"v":%}}]}`, `{"v":%}`},
		"anyOf":                 {`{"anyOf":[{"type":"null"},{"properties":{"v":%}}]}`, `{"v":%}`},
		"oneOf":                 {`{"properties":{"v":{"oneOf":[{"type":"number"},%]}}}`, `{"v":%}`},
		"not":                   {`{"not":{"properties":{"v":%}}}`, `{"v":%}`},
		"if":                    {`{"if":{"properties":{"v":%}}}`, `{"v":%}`},
		"then":                  {`{"if":{},"then":{"properties":{"v":%}}}`, `{"v":%}`},
		"else":                  {`{"if":{},"else":{"properties":{"v":%}}}`, `{"v":%}`},
		"dependentSchemas":      {`{"dependentSchemas":{"a":{"properties":{"v":%}}}}`, `{"a":1,"v":%}`},
		"nine references deep":  {nested(9), `{"v":%}`},
		"recursion":             {`{"$defs":{"N":{"properties":{"n":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/N"}]},"v":%}}},"$ref":"#/$defs/N"}`, `{"n":{"n":{"n":{"v":%}}}}`},
		"a dead reference":      {`{"properties":{"v":{"$ref":"https://example.com/x"}},"$comment":%}`, `{"v":%}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, mark := range marks {
				schema := strings.ReplaceAll(tc.schema, "%", `{"type":"string",`+mark+`}`)
				for value, want := range map[string]string{`"THE VALUE"`: `"[masked]"`, `{"in":["THE VALUE"]}`: `{"in":["[masked]"]}`} {
					got, _ := redact.MaskArgs(json.RawMessage(strings.ReplaceAll(tc.args, "%", value)), json.RawMessage(schema))
					require.Equal(t, strings.ReplaceAll(tc.args, "%", want), string(got), schema)
				}
			}
		})
	}
}

// nested is a chain of n definitions before the marked one.
func nested(n int) string {
	var b strings.Builder
	b.WriteString(`{"properties":{"v":{"$ref":"#/$defs/D1"}},"$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"D%d":{"allOf":[{"$ref":"#/$defs/D%d"}]},`, i+1, i+2)
	}
	fmt.Fprintf(&b, `"D%d":%%}}`, n+1)
	return b.String()
}

func TestMaskHidesSecretNames(t *testing.T) {
	t.Parallel()
	const schema = `{"properties":{"tokens_by_owner":{"type":"object","propertyNames":{"allOf":[{"x-sensitive":true}]}},"plain":{"propertyNames":{"maxLength":3}}}}`
	got, paths := redact.MaskArgs(json.RawMessage(`{"tokens_by_owner":{"ABC":1, "DEF":{"x":2}},"plain":{"abc":1}}`), json.RawMessage(schema))
	require.JSONEq(t, `{"tokens_by_owner":{"[masked 1]":0,"[masked 2]":{"x":0}},"plain":{"abc":1}}`, string(got))
	require.Contains(t, paths, "/tokens_by_owner/[masked 1]")
}

// TestMaskTakesNoMoreWorkThanItsBound: these would take work that doubles, or more, with each
// level. What is beyond the bound is masked. The test does not end where the bound is missing.
func TestMaskTakesNoMoreWorkThanItsBound(t *testing.T) {
	t.Parallel()
	deep := func(open, inner, end string, n int) json.RawMessage {
		return json.RawMessage(strings.Repeat(open, n) + inner + strings.Repeat(end, n))
	}
	t.Run("alternatives that lead to each other", func(t *testing.T) {
		t.Parallel()
		var refs, defs []string
		for i := range 8 {
			refs = append(refs, fmt.Sprintf(`{"$ref":"#/$defs/A%d"}`, i))
			defs = append(defs, fmt.Sprintf(`"A%d":{"type":"object","properties":{"x":{"$ref":"#/$defs/N"},"s":{"writeOnly":true}}}`, i))
		}
		schema := `{"$ref":"#/$defs/N","$defs":{"N":{"anyOf":[` + strings.Join(refs, ",") + `]},` + strings.Join(defs, ",") + `}}`
		got, _ := redact.MaskArgs(deep(`{"x":`, `{"s":"SECRET","t":"shown"}`, `}`, 60), json.RawMessage(schema))
		require.Equal(t, string(deep(`{"x":`, `{"s":"[masked]","t":"shown"}`, `}`, 60)), string(got))
	})
	t.Run("more alternatives than are followed", func(t *testing.T) {
		t.Parallel()
		list := make([]string, 200)
		for i := range list {
			list[i] = fmt.Sprintf(`{"properties":{"s%d":{"x-sensitive":true}}}`, i)
		}
		got, _ := redact.MaskArgs(json.RawMessage(`{"in":{"s199":"SECRET","other":"x"},"out":"shown"}`),
			json.RawMessage(`{"properties":{"in":{"anyOf":[`+strings.Join(list, ",")+`]}}}`))
		require.JSONEq(t, `{"in":{"s199":"[masked]","other":"[masked]"},"out":"shown"}`, string(got))
	})
	t.Run("a tenant's path through arrays in arrays", func(t *testing.T) {
		t.Parallel()
		stars := strings.Split(strings.Repeat("*.", 31)+"*", ".")
		m := redact.NewMasker(nil).Also(append([]string{"a"}, stars...))
		got, _ := m.Mask(json.RawMessage(`{"a":` + string(deep(`[`, `"SECRET"`, `]`, 60)) + `}`))
		require.NotContains(t, string(got), "SECRET")
	})
	t.Run("costly patterns over many names", func(t *testing.T) {
		t.Parallel()
		var args strings.Builder
		args.WriteString(`{"first":"shown"`)
		for i := range 3000 {
			fmt.Fprintf(&args, `,"n%d%s":"v"`, i, strings.Repeat("a", 100))
		}
		args.WriteString(`,"last":"beyond the bound"}`)
		got, _ := redact.MaskArgs(json.RawMessage(args.String()), json.RawMessage(`{"patternProperties":{"(?:.{0,900}b)$":{"x-sensitive":true}}}`))
		require.Contains(t, string(got), `"first":"shown"`)
		require.Contains(t, string(got), `"last":"[masked]"`)
	})
}
