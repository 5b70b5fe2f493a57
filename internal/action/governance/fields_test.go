package governance_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

func TestFieldsOfASchema(t *testing.T) {
	t.Parallel()
	const schema = `{
	  "$defs": {
	    "money": {"type":"object","properties":{"amount":{"type":"number"},"currency":{"type":"string"}}},
	    "tree": {"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/tree"}}}},
	    "odd/name~x": {"type":"object","properties":{"in":{"type":"string"}}},
	    "loop": {"allOf":[{"$ref":"#/$defs/loop"},{"properties":{"end":{"type":"string"}}}]},
	    "matrix": {"type":"array","items":{"$ref":"#/$defs/matrix"}}
	  },
	  "type":"object",
	  "properties":{
	    "price":{"$ref":"#/$defs/money"},
	    "tree":{"$ref":"#/$defs/tree"},
	    "odd":{"$ref":"#/$defs/odd~1name~0x"},
	    "loop":{"$ref":"#/$defs/loop"},
	    "matrix":{"$ref":"#/$defs/matrix"},
	    "both":{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]},
	    "either":{"anyOf":[{"type":"string"},{"properties":{"c":{}}}]},
	    "one":{"oneOf":[{"properties":{"d":{}}},{"properties":{"e":{}}}]},
	    "map":{"type":"object","additionalProperties":{"type":"object","properties":{"n":{"type":"number"}}}},
	    "open":{"type":"object","additionalProperties":true},
	    "patterned":{"type":"object","patternProperties":{"^x-":{"type":"string"},"(?=y)":{"type":"number"}}},
	    "only":{"type":"object","patternProperties":{"^x-":{"type":"string"}}},
	    "tuple":{"type":"array","prefixItems":[{"properties":{"first":{}}}],"items":{"properties":{"rest":{}}}},
	    "old":{"type":"array","items":[{"properties":{"first":{}}}],"additionalItems":{"properties":{"rest":{}}}},
	    "never":false,
	    "abroad":{"$ref":"https://example.com/schema.json"},
	    "givenUp":{"x-opaque":true}, "within":{"type":"object","properties":{"a":{}},"allOf":[{"x-opaque":true}]},
	    "a.b":{"type":"string"}, "true":true
	  },
	  "additionalProperties":false
	}`
	f := governance.NewFields(json.RawMessage(schema))
	for path, want := range map[string]bool{
		"price": true, "price.amount": true, "price.tax": false, "prices": false, "Price": false, "price.amount.x": false,
		"tree.children.name": true, "tree.children.0.children.3.name": true, "tree.children.children.children.name": true, "tree.children.size": false,
		"odd.in": true, "loop.end": true, "loop.start": false, "matrix.0.0.0": true, "matrix.x": false,
		"both.a": true, "both.b": true, "both.c": false, "either.c": true, "one.d": true, "one.e": true,
		"map.anything.n": true, "map.anything": true, "map.anything.m": false, "open": true, "open.anything": false,
		"patterned.x-a": true, "patterned.q": true, "only.x-a": true, "only.q": false,
		"tuple.0.first": true, "tuple.0.rest": false, "tuple.1.rest": true, "tuple.first": true, "tuple.rest": true, "tuple.1.first": false,
		"old.0.first": true, "old.1.rest": true, "old.1.first": false,
		"never": false, "abroad": true, "abroad.anything.at.all": true, "givenUp": true, "givenUp.a.0.b": true, "within.a": true, "within.b.c": true, "a.b": false, `a\.b`: true, "true": true,
		"": false, ".": false, `\`: false,
	} {
		require.Equal(t, want, f.Knows(path), path)
	}

	var none *governance.Fields
	require.False(t, none.Knows("a"))
	require.False(t, governance.NewFields(nil).Knows("a"))
	require.False(t, governance.NewFields(json.RawMessage(`true`)).Knows("a"))
	require.True(t, governance.NewFields(json.RawMessage(`{"type"`)).Knows("a"), "what cannot be read may have any field")
}

func TestFieldsOfAHostileSchema(t *testing.T) {
	t.Parallel()
	// Every alternate leads to every other. Without a limit each step would multiply them.
	var b strings.Builder
	b.WriteString(`{"$defs":{`)
	for i := range 100 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"d%d":{"properties":{"a":{"anyOf":[`, i)
		for j := range 100 {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"$ref":"#/$defs/d%d"}`, j)
		}
		b.WriteString(`]}}}`)
	}
	b.WriteString(`},"$ref":"#/$defs/d0"}`)
	f := governance.NewFields(json.RawMessage(b.String()))
	require.True(t, f.Knows(strings.Repeat("a.", 60)+"a"))
}

func TestMisfit(t *testing.T) {
	t.Parallel()
	f := governance.NewFields(json.RawMessage(refundSchema))
	for _, c := range []struct {
		condition governance.Condition
		want      string
	}{
		{cond("args.amount", "greater", "5"), ""},
		{cond("args.amount", "EQUALS", `"5"`), "another type"},
		{cond("args.amount", "starts_with", `"5"`), "another type"},
		{cond("args.amount", "in", `["5",5]`), ""},
		{cond("args.total", "greater", "5"), "does not have it"},
		{cond("args.total", "exists", ""), "does not have it"},
		{cond("args.amount", "exists", ""), ""},
		{cond("args.tags", "contains", `"x"`), ""},
		{cond("args.tags", "equals", `"x"`), "another type"},
		{cond("args.any", "equals", `"x"`), ""},
		{cond("agent_id", "equals", `"x"`), ""},
		{cond("args.amount", "equals", ``), ""},
	} {
		got := f.Misfit(c.condition)
		if c.want == "" {
			require.Empty(t, got, "%v", c.condition)
			continue
		}
		require.Contains(t, got, c.want, "%v", c.condition)
	}
	require.Empty(t, (*governance.Fields)(nil).Misfit(cond("args.total", "greater", "5")))
}
