package argschema_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
)

func TestValidateNamesPathAndRule(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["amount"],"additionalProperties":false,"properties":{
		"amount":{"type":"integer","minimum":1,"maximum":9007199254740993},"currency":{"enum":["usd","eur"]},
		"email":{"type":"string","format":"email"},"code":{"type":"string","pattern":"^[A-Z]+$","maxLength":4},
		"step":{"multipleOf":0.01},"any":{"anyOf":[{"type":"string"},{"type":"integer"}]},"a/b~c":{"type":"string"},
		"items":{"type":"array","uniqueItems":true,"items":{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}}}}`
	const secret = "S3CRET"
	tests := map[string]struct {
		args string
		want []fault.Detail
	}{
		"fits":                  {`{"amount":9007199254740993,"currency":"usd","email":"a@b.example","step":0.07}`, nil},
		"one too many":          {`{"amount":9007199254740994}`, []fault.Detail{{Path: "/args/amount", Rule: "maximum", Message: "must be at most 9007199254740993"}}},
		"missing":               {`{}`, []fault.Detail{{Path: "/args/amount", Rule: "required", Message: "is required"}}},
		"nothing":               {``, []fault.Detail{{Path: "/args/amount", Rule: "required", Message: "is required"}}},
		"unknown":               {`{"amount":1,"amonut":2}`, []fault.Detail{{Path: "/args/amonut", Rule: "unknown_field", Message: "is not known; did you mean amount?"}}},
		"type":                  {`{"amount":"S3CRET"}`, []fault.Detail{{Path: "/args/amount", Rule: "type", Message: "must be integer"}}},
		"enum":                  {`{"amount":1,"currency":"S3CRET"}`, []fault.Detail{{Path: "/args/currency", Rule: "enum", Message: `must be one of "usd", "eur"`}}},
		"format":                {`{"amount":1,"email":"S3CRET"}`, []fault.Detail{{Path: "/args/email", Rule: "format", Message: "must be a valid email"}}},
		"pattern and length":    {`{"amount":1,"code":"S3CRET"}`, []fault.Detail{{Path: "/args/code", Rule: "maxLength", Message: "must have at most 4 characters"}, {Path: "/args/code", Rule: "pattern", Message: "must match ^[A-Z]+$"}}},
		"multiple":              {`{"amount":1,"step":0.075}`, []fault.Detail{{Path: "/args/step", Rule: "multipleOf", Message: "must be a multiple of 1/100"}}},
		"alternatives":          {`{"amount":1,"any":["S3CRET"]}`, []fault.Detail{{Path: "/args/any", Rule: "anyOf", Message: "must fit one of the allowed forms"}}},
		"an escaped path":       {`{"amount":1,"a/b~c":1}`, []fault.Detail{{Path: "/args/a~1b~0c", Rule: "type", Message: "must be string"}}},
		"inside":                {`{"amount":1,"items":[{"id":"a"},{"id":7},{}]}`, []fault.Detail{{Path: "/args/items/1/id", Rule: "type", Message: "must be string"}, {Path: "/args/items/2/id", Rule: "required", Message: "is required"}}},
		"twice":                 {`{"amount":1,"items":[{"id":"a"},{"id":"a"}]}`, []fault.Detail{{Path: "/args/items", Rule: "uniqueItems", Message: "must not have the same item twice"}}},
		"a list":                {`[]`, []fault.Detail{{Path: "/args", Rule: "type", Message: "must be object"}}},
		"no JSON":               {`{`, []fault.Detail{{Path: "/args", Rule: "type", Message: "must be an object"}}},
		"an endless number":     {`{"amount":1e999999999}`, []fault.Detail{{Path: "/args", Rule: "number", Message: "has a number that is out of range"}}},
		"a long number":         {`{"amount":` + strings.Repeat("9", 65) + `}`, []fault.Detail{{Path: "/args", Rule: "number", Message: "has a number that is out of range"}}},
		"a number within text":  {`{"amount":1,"code":"1e999999999\""}`, []fault.Detail{{Path: "/args/code", Rule: "maxLength", Message: "must have at most 4 characters"}, {Path: "/args/code", Rule: "pattern", Message: "must match ^[A-Z]+$"}}},
		"one is a whole number": {`{"amount":1.0}`, nil},
	}
	compiled, err := argschema.Compile(json.RawMessage(schema))
	require.NoError(t, err)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := compiled.Validate(json.RawMessage(tc.args))
			require.Equal(t, tc.want, got)
			for _, d := range got {
				require.NotContains(t, d.Message, secret)
			}
		})
	}
}

func TestCompileRefusesBadSchemas(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"not JSON":          `{`,
		"an endless number": `{"maximum":1e999999999}`,
		"a file":            `{"$ref":"file:///etc/passwd"}`,
		"a page":            `{"$ref":"https://example.com/schema.json"}`,
		"a wrong keyword":   `{"type":"strange"}`,
		"a look-ahead":      `{"pattern":"(?!x)"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := argschema.Compile(json.RawMessage(schema))
			require.Error(t, err)
		})
	}
}

// TestValidateIsSafeConcurrently: one schema with definitions serves many at once.
func TestValidateIsSafeConcurrently(t *testing.T) {
	t.Parallel()
	compiled, err := argschema.Compile(json.RawMessage(`{"$defs":{"N":{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"additionalProperties":false}},"$ref":"#/$defs/N"}`))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				require.Empty(t, compiled.Validate(json.RawMessage(`{"n":{"n":{"n":{}}}}`)))
				require.Len(t, compiled.Validate(json.RawMessage(`{"n":{"n":{"m":{}}}}`)), 1)
			}
		})
	}
	wg.Wait()
}

func TestDetailsAreCutAtTheLimit(t *testing.T) {
	t.Parallel()
	compiled, err := argschema.Compile(json.RawMessage(`{"type":"object","additionalProperties":{"type":"string"}}`))
	require.NoError(t, err)
	var b strings.Builder
	for i := range 500 {
		b.WriteString(`,"k` + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + `":1`)
	}
	require.Len(t, compiled.Validate(json.RawMessage("{"+b.String()[1:]+"}")), 20)
}

// Who misspells a name or a value is told which one is near, also within members and elements.
func TestValidateNamesWhatIsNear(t *testing.T) {
	t.Parallel()
	s, err := argschema.Compile(json.RawMessage(`{"type":"object","additionalProperties":false,"required":["amount"],"properties":{
		"amount":{"type":"integer"},"currency":{"enum":["eur","usd"]},
		"items":{"type":"array","items":{"$ref":"#/$defs/item"}}},
		"$defs":{"item":{"type":"object","additionalProperties":false,"properties":{"sku/code":{"type":"string"}}}}}`))
	require.NoError(t, err)
	for args, want := range map[string]string{
		`{"amount":1,"curency":"eur"}`:            "/args/curency is not known; did you mean currency?",
		`{"amount":1,"currency":"euro"}`:          "/args/currency must be one of \"eur\", \"usd\"; did you mean eur?",
		`{"amount":1,"items":[{"sku_code":"1"}]}`: "/args/items/0/sku_code is not known; did you mean sku/code?",
		`{"amount":1,"banana":1}`:                 "/args/banana is not known",
	} {
		details := s.Validate(json.RawMessage(args))
		require.Len(t, details, 1, args)
		require.Equal(t, want, details[0].Path+" "+details[0].Message)
	}
}

// A wrong value of a discriminator leaves no branch, and so no branch knows the members. That is one
// fault and not several.
func TestValidateOfAWrongDiscriminatorSaysOneThing(t *testing.T) {
	t.Parallel()
	s, err := argschema.Compile(json.RawMessage(`{"type":"object","required":["kind"],"unevaluatedProperties":false,
		"properties":{"kind":{"enum":["card","bank"]}},
		"allOf":[{"if":{"properties":{"kind":{"const":"card"}}},"then":{"properties":{"number":{"type":"string"}}}},
		         {"if":{"properties":{"kind":{"const":"bank"}}},"then":{"properties":{"iban":{"type":"string"}}}}]}`))
	require.NoError(t, err)
	details := s.Validate(json.RawMessage(`{"kind":"crad","number":"4242"}`))
	require.Len(t, details, 1, "%v", details)
	require.Equal(t, "/args/kind", details[0].Path)
	require.Contains(t, details[0].Message, "did you mean card?")
	require.Len(t, s.Validate(json.RawMessage(`{"kind":"card","iban":"DE"}`)), 1, "a member of another branch stays refused")
}
