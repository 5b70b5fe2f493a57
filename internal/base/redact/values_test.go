package redact_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/redact"
)

func TestValuesAndTheirMasks(t *testing.T) {
	t.Parallel()
	const secret = `key-0123456789-"x"/é`
	for name, tt := range map[string]struct{ in, want string }{
		"member":            {`{"a":"key-0123456789-\"x\"/é","b":1}`, `{"a":"[masked]","b":1}`},
		"escapes":           {`{"a":"\u006bey-0123456789-\u0022x\"\/\u00e9"}`, `{"a":"[masked]"}`},
		"array":             {`[ "key-0123456789-\"x\"/é" , ["key-0123456789-\"x\"/é"] ]`, `[ "[masked]" , ["[masked]"] ]`},
		"root":              {`"key-0123456789-\"x\"/é"`, `"[masked]"`},
		"a name":            {`{"key-0123456789-\"x\"/é" : "short"}`, `{"key-0123456789-\"x\"/é" : "short"}`},
		"a part":            {`{"a":"key-0123456789-\"x\"/é and more"}`, `{"a":"key-0123456789-\"x\"/é and more"}`},
		"another value":     {`{"a":"key-0123456789-\\\"x\"/é"}`, `{"a":"key-0123456789-\\\"x\"/é"}`},
		"backslash at end":  {`{"a":"\\","b":"key-0123456789-\"x\"/é"}`, `{"a":"\\","b":"[masked]"}`},
		"spaces and digits": {"{ \"n\" : 1.50e3 ,\n\t\"a\" : \"key-0123456789-\\\"x\\\"/é\" }", "{ \"n\" : 1.50e3 ,\n\t\"a\" : \"[masked]\" }"},
		"empty":             {`{}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, json.Valid([]byte(tt.in)))
			require.Equal(t, tt.want, string(redact.MaskValues(json.RawMessage(tt.in), map[string]bool{secret: true})))
			require.Equal(t, tt.in, string(redact.MaskValues(json.RawMessage(tt.in), nil)))
			found := redact.Values(json.RawMessage(tt.in), 16, 100)
			require.Equal(t, tt.want != tt.in, slices.Contains(found, secret))
		})
	}
}

func TestValuesAreBoundedInLength(t *testing.T) {
	t.Parallel()
	doc := json.RawMessage(`{"a":"1234","b":"12345","c":["123456","123456"],"d":"\u0031234567","e":"\u003112"}`)
	got := redact.Values(doc, 5, 6)
	slices.Sort(got)
	require.Equal(t, []string{"12345", "123456"}, got)
	for _, broken := range []string{`{"a":"`, `{"a":"\`, `"`, ``} {
		require.Empty(t, redact.Values(json.RawMessage(broken), 0, 100))
		require.Equal(t, broken, string(redact.MaskValues(json.RawMessage(broken), map[string]bool{"x": true})))
	}
}
