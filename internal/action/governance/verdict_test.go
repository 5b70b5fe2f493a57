package governance_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

// requireRuling checks that Decide says what the verdict of Evaluate says.
func requireRuling(t require.TestingT, s *governance.Set, c governance.Call, v governance.Verdict) {
	r := s.Decide(c)
	require.Equal(t, v.Decision, r.Decision)
	require.Equal(t, v.Notify, r.Notify)
	require.Equal(t, v.Lookups, r.Lookups)
	var matched []uuid.UUID
	for _, m := range v.Matches {
		matched = append(matched, m.PolicyID)
	}
	require.ElementsMatch(t, matched, r.Matched)
}

func TestDecideSaysWhatEvaluateSays(t *testing.T) {
	t.Parallel()
	call := refund(`{"amount":5}`)
	unknown := call
	unknown.Risk = "other"
	over := cond("args.amount", "greater", "1")
	lookedUp := withLookups(policy("l", block, cond("lookup.order.status", "equals", `"x"`)), lookup("order", `{"id":{"field":"args.amount"}}`))
	lookedUp.ID = uuid.UUID{15: 1}
	broken := policy("b", "permit")
	blocks := policy("p", block, over)
	many := func(n int, action governance.Action) (list []governance.Policy) {
		for i := range n {
			p := policy(fmt.Sprint("p", i), action, over)
			p.ID = uuid.UUID{byte(i + 1)}
			list = append(list, p)
		}
		return list
	}
	for name, tc := range map[string]struct {
		set  *governance.Set
		call governance.Call
		want governance.Decision
	}{
		"no policies":         {nil, call, governance.Allow},
		"none matches":        {governance.Compile(1, []governance.Policy{policy("p", block, not(over))}), call, governance.Allow},
		"unknown risk":        {governance.Compile(1, many(1, approve)), unknown, governance.Block},
		"shadow only":         {governance.Compile(1, []governance.Policy{shadow(blocks)}), call, governance.Allow},
		"cannot be read":      {governance.Compile(1, []governance.Policy{broken}), call, governance.Block},
		"strictest of many":   {governance.Compile(1, append(many(20, notify), many(3, approve)...)), call, governance.PendingApproval},
		"most approvals":      {governance.Compile(1, many(governance.MaxRequirements, approve)), call, governance.PendingApproval},
		"too many approvals":  {governance.Compile(1, many(governance.MaxRequirements+1, approve)), call, governance.Block},
		"look-up":             {governance.Compile(1, []governance.Policy{lookedUp}), call, governance.Block},
		"blocked in any case": {governance.Compile(1, append(many(8, block), lookedUp)), call, governance.Block},
		"blocked by one more": {governance.Compile(1, append(many(12, block), lookedUp)), call, governance.Block},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.call.Risk == call.Risk {
				tc.call.Risk = verb.RiskLow
			}
			v := tc.set.Evaluate(tc.call)
			require.Equal(t, tc.want, v.Decision, v.Reason)
			requireRuling(t, tc.set, tc.call, v)
		})
	}
}

func TestVerdictExplainsMoreMatchesThanFew(t *testing.T) {
	t.Parallel()
	var list []governance.Policy
	for i := range 30 {
		p := policy(fmt.Sprint("p", i), notify, anyOf(cond("args.amount", "greater", "1"), cond("args.missing", "equals", "1")), cond("args.reason", "equals", `"x"`))
		p.ID, p.Priority = uuid.UUID{byte(i + 1)}, int32(i)
		list = append(list, p)
	}
	v := governance.Compile(1, list).Evaluate(refund(`{"amount":5}`))
	require.Len(t, v.Matches, 30)
	for i, m := range v.Matches {
		require.Equal(t, fmt.Sprint("p", 29-i), m.PolicyName)
		require.Len(t, m.Conditions, 2)
		require.True(t, m.Conditions[0].Any[0].Met)
		require.JSONEq(t, "5", string(m.Conditions[0].Any[0].Actual))
		require.False(t, m.Conditions[0].Any[1].Met, "it was not needed to judge the policy, and is judged for the explanation")
		require.Equal(t, "the call lacks it", m.Conditions[1].FailClosed)
	}
}
