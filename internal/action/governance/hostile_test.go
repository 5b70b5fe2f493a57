package governance_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

func TestWideObjects(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"m\u0031":"first"`)
	for i := 2; i <= 500; i++ {
		fmt.Fprintf(&b, `,"m%d":{"n":%d}`, i, i)
	}
	b.WriteString(`}`)
	call := refund(b.String())
	for _, c := range []governance.Condition{
		cond("args.m1", "equals", `"first"`), cond("args.m2.n", "equals", "2"), cond("args.m500.n", "equals", "500"), cond("args.m501", "not_exists", ""),
	} {
		require.Equal(t, yes, judge(t, c, call), "%v", c)
	}
}

func TestDeepArgumentsAreNotRead(t *testing.T) {
	t.Parallel()
	deep := func(n int) governance.Call {
		return refund(`{"total":1,"deep":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	require.Equal(t, yes, judge(t, cond("args.total", "equals", "1"), deep(100)))
	require.Equal(t, closed, judge(t, cond("args.total", "equals", "1"), deep(100_000)))
	require.Equal(t, closed, judge(t, cond("args.total", "equals", "1"), refund(`{"total":1} {"total":2}`)))
}

// In this schema each place leads to all others. A path with too many places counts as
// known, without the time that following them would take.
func TestSchemaOfReferencesIsReadInLimitedTime(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"$defs":{`)
	for i := range 120 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"d%d":{"allOf":[`, i)
		for j := range 120 {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"$ref":"#/$defs/d%d"}`, j)
		}
		b.WriteString(`]}`)
	}
	b.WriteString(`},"$ref":"#/$defs/d0"}`)
	require.True(t, governance.NewFields(json.RawMessage(b.String())).Knows("anything.at.all"))
}

func TestSchemaDoesNotCountANamedMemberAsAdditional(t *testing.T) {
	t.Parallel()
	call := refund(`{"named":"5","other":"5"}`)
	call.Fields = governance.NewFields(json.RawMessage(`{"properties":{"named":{"type":"number"}},"additionalProperties":{"type":"string"}}`))
	require.Equal(t, closed, judge(t, cond("args.named", "equals", `"5"`), call), "a number by its name")
	require.Equal(t, yes, judge(t, cond("args.other", "equals", `"5"`), call))
	require.Equal(t, closed, judge(t, cond("args.missing", "equals", `"5"`), call), "the schema has something to say of every name")
}

func TestEnforcedPoliciesAreListedBeforeShadows(t *testing.T) {
	t.Parallel()
	shadow := policy("a", block)
	shadow.Mode, shadow.Priority = governance.Shadow, 9
	v := governance.Compile(1, []governance.Policy{shadow, policy("b", block)}).Evaluate(refund(`{}`))
	require.Equal(t, []governance.Mode{governance.Enforce, governance.Shadow}, []governance.Mode{v.Matches[0].Mode, v.Matches[1].Mode})
	require.Equal(t, "b", v.PolicyName)
}
