package verb

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

func TestParseTakesProviderAndVerbOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Name{
		"shop:create_order":                   {"shop", "create_order"},
		"a-b_c:x":                             {"a-b_c", "x"},
		"0:9-_":                               {"0", "9-_"},
		strings.Repeat("a", MaxSlug) + ":v":   {strings.Repeat("a", MaxSlug), "v"},
		"shop:" + strings.Repeat("v", 250):    {"shop", strings.Repeat("v", 250)},
		"":                                    {},
		"shop":                                {},
		":v":                                  {},
		"shop:":                               {},
		"shop:a:b":                            {},
		"Shop:V":                              {"shop", "v"},
		"shop__v":                             {"shop", "v"},
		"SHOP__Get__v":                        {"shop", "get__v"},
		"shop:get__v":                         {"shop", "get__v"},
		"\u212Aite:v":                         {}, // the sign of Kelvin is no letter of a name
		"shop: v":                             {},
		"shop:v\n":                            {},
		"-shop:v":                             {},
		"a__b:v":                              {},
		strings.Repeat("a", MaxSlug+1) + ":v": {},
		"shop:" + strings.Repeat("v", 251):    {},
		"shop:create_order' OR 1=1":           {},
		"sh\u00f6p:v":                         {},
	} {
		got, err := Parse(text)
		require.Equal(t, want, got, "%q", text)
		require.Equal(t, want == Name{}, fault.HasCode(err, fault.CodeInvalidVerb), "%q", text)
		if err == nil {
			require.Equal(t, Canonical(text), got.String())
			require.Equal(t, got.String(), Canonical(got.String()), "it stays")
		}
	}
}

func TestValidSlugLeavesRoomForTheSeparator(t *testing.T) {
	t.Parallel()
	for slug, want := range map[string]bool{
		"shop": true, "0": true, "a-b": true, "a_b": true, "a--b": true, strings.Repeat("a", MaxSlug): true,
		"": false, "a__b": false, "_a": false, "-a": false, "A": false, "a.b": false, ReservedSlug: false, strings.Repeat("a", MaxSlug+1): false,
	} {
		require.Equal(t, want, ValidSlug(slug), "%q", slug)
	}
}

func TestFitKeepsLongNamesApart(t *testing.T) {
	t.Parallel()
	require.Equal(t, "create_order", Fit("shop", "create_order"))
	slug := strings.Repeat("p", MaxSlug)
	exact := strings.Repeat("v", MaxToolName-MaxSlug-2)
	require.Equal(t, exact, Fit(slug, exact), "it just fits")
	one, other := Fit(slug, exact+"a"), Fit(slug, exact+"b")
	require.NotEqual(t, one, other)
	for _, name := range []string{one, other, Fit(slug, strings.Repeat("v-_", 50))} {
		n := Name{Provider: slug, Verb: name}
		require.LessOrEqual(t, len(n.ToolName()), MaxToolName)
		back, err := Parse(n.String())
		require.NoError(t, err)
		require.Equal(t, n, back)
		provider, verb, _ := strings.Cut(n.ToolName(), "__")
		require.Equal(t, []string{n.Provider, n.Verb}, []string{provider, verb}, "a tool call can be mapped back")
	}
}

func TestParseIdempotencyReadsTheNameOfAHeader(t *testing.T) {
	t.Parallel()
	for text, header := range map[string]string{
		"none": "", "intrinsic": "", "header:Idempotency-Key": "Idempotency-Key", "header:x": "x", "header:" + strings.Repeat("x", 64): strings.Repeat("x", 64),
	} {
		got, ok := ParseIdempotency(text)
		require.True(t, ok, "%q", text)
		require.Equal(t, header, got.Header())
	}
	for _, text := range []string{"", "None", "header", "header:", "header:a b", "header:a\r\nb", "header:" + strings.Repeat("x", 65)} {
		_, ok := ParseIdempotency(text)
		require.False(t, ok, "%q", text)
	}
}
