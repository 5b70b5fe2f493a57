package governance_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

func TestFieldsThatAnAnswerDoesNotList(t *testing.T) {
	t.Parallel()
	const order = `{"type":"object","properties":{"status":{"type":"string"},"lines":{"type":"array","items":{"$ref":"#/$defs/0"}},"meta":{"type":"object","x-opaque":true},"any":true,"null":{"anyOf":[{"$ref":"#/$defs/0"},{"type":"null"}]}},
		"$defs":{"0":{"type":"object","properties":{"sku":{"type":"string"},"parent":{"$ref":"#/$defs/0"}}}}}`
	for _, c := range []struct {
		answer   string
		unlisted bool
		fields   string // of the look-up o
	}{
		{order, false, "status STATUS lines lines.0 lines.0.sku lines.sku lines.sku meta meta.x.y any any.x null.sku lines.parent.parent.parent.sku"},
		{order, true, "state status.code lines.0.price lines.price null.x data data.status 0 lines.parent.parent.x"},
		{`{"allOf":[{"$ref":"#/$defs/1"},{"properties":{"more":{"type":"string"}}}],"$defs":{"1":{"properties":{"id":{"type":"string"}}}}}`, false, "id more"},
		{`{"allOf":[{"$ref":"#/$defs/1"},{"properties":{"more":{"type":"string"}}}],"$defs":{"1":{"properties":{"id":{"type":"string"}}}}}`, true, "less data.id"},
		{`{"oneOf":[{"properties":{"a":{"type":"string"}}},{"type":"object","x-opaque":true}]}`, false, "a b"},
		{`{"type":"array","items":{"properties":{"id":{"type":"string"}}}}`, false, "data data.0 data.0.id data.id"},
		{`{"type":"array","items":{"properties":{"id":{"type":"string"}}}}`, true, "id 0.id items data.name data.0.name"},
		{`{"type":"string"}`, false, "data"},
		{`{"type":"string"}`, true, "x data.x"},
		{`{"type":"object","x-opaque":true}`, false, "x data.y"},
		{`{"$ref":"#/$defs/none"}`, false, "x"},
		{`{"properties":{"a":{"$ref":"#"}}}`, false, "a.b"}, // not of an importer: nothing is known of it
		{`{"allOf":[{"$ref":"#/$defs/1"}],"$defs":{"1":{"allOf":[{"$ref":"#/$defs/1"}]}}}`, false, "x"},
		{`true`, false, "x"},
		{`not JSON`, false, "x"},
	} {
		for field := range strings.FieldsSeq(c.fields) {
			require.Equal(t, c.unlisted, governance.Unlisted("lookup.o."+field, json.RawMessage(c.answer)), "%s in %s", field, c.answer)
		}
	}
	require.False(t, governance.Unlisted("args.x", json.RawMessage(order)))
	require.False(t, governance.Unlisted("lookup.o", json.RawMessage(order)))
}

// Schemas that combine each other many times are looked at for a bounded time only.
func TestSearchInAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	defs := []string{`"0":{"properties":{"id":{"type":"string"}}}`}
	for i := 1; i < 60; i++ {
		defs = append(defs, fmt.Sprintf(`"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]}`, i, i-1, i-1))
	}
	require.False(t, governance.Unlisted("lookup.o.x", json.RawMessage(`{"$ref":"#/$defs/59","$defs":{`+strings.Join(defs, ",")+`}}`)))
}
