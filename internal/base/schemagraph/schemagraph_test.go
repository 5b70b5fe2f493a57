package schemagraph_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/schemagraph"
)

func TestLiveNodesLeadToASecret(t *testing.T) {
	t.Parallel()
	g := schemagraph.Read(json.RawMessage(`{"properties":{"a":{"$ref":"#/$defs/A"},"b":{"type":"string"}},
		"$defs":{"A":{"items":{"$ref":"#/$defs/B"}},"B":{"properties":{"s":{"x-sensitive":true},"again":{"$ref":"#/$defs/A"}}}}}`))
	require.True(t, g.Root.Live)
	require.False(t, g.Root.Secret)
	require.True(t, g.Root.Properties["a"].Live)
	require.False(t, g.Root.Properties["b"].Live)
	require.Positive(t, g.Size())
	require.Len(t, g.Root.Secrets("A"), 1)
	require.Empty(t, g.Root.Secrets("b"))
}

func TestSchemaBeyondTheBoundsIsUnreadable(t *testing.T) {
	t.Parallel()
	require.True(t, schemagraph.Read(json.RawMessage(`{"allOf":[`+strings.Repeat(`{},`, 30_000)+`{}]}`)).Unreadable)
	require.True(t, schemagraph.Read(json.RawMessage(`{`)).Unreadable)
	require.False(t, schemagraph.Read(nil).Unreadable)
	require.Nil(t, schemagraph.Read(json.RawMessage(`true`)).Root)
}

func TestPatternsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"patternProperties":{`)
	for i := range 40 {
		b.WriteString(`"^` + strings.Repeat("a", i+1) + `.{900}$":{"x-sensitive":true},`)
	}
	b.WriteString(`"z":{}}}`)
	without := 0
	for _, p := range schemagraph.Read(json.RawMessage(b.String())).Root.Patterns {
		if p.Expression == nil {
			without++
			require.True(t, p.Fits("anything", false), "an expression that costs too much may fit any name")
		}
	}
	require.Positive(t, without)
}

func TestFoldAgreesWithEqualFold(t *testing.T) {
	t.Parallel()
	words := []string{"amount", "Amount", "AMOUNT", "straße", "STRASSE", "ﬀ", "kelvin", "KELVIN", "\u212Aelvin", "ſum", "SUM", "Σ", "ς", "σ", "İ", "i", "", "\xff"}
	for _, a := range words {
		for _, b := range words {
			require.Equal(t, strings.EqualFold(a, b), schemagraph.Fold(a) == schemagraph.Fold(b), "%q %q", a, b)
		}
	}
}

// The place of a part of a schema repeats the names above it, so names count too.
func TestSchemaWithLongNamesInDeepPlacesIsOpaque(t *testing.T) {
	t.Parallel()
	below := func(name string) json.RawMessage {
		return json.RawMessage(`{"properties":{"` + name + `":{"properties":{"p":{}` + manyNames(1_000) + `}}}}`)
	}
	require.True(t, schemagraph.Read(below(strings.Repeat("n", 60_000))).Unreadable)
	require.False(t, schemagraph.Read(below(strings.Repeat("n", 1_000))).Unreadable)
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"n` + strconv.Itoa(i) + `":{}`)
	}
	return b.String()
}
