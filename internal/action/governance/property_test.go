package governance_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

var (
	fields    = []string{"args.amount", "args.reason", "args.tags", "args.items.amount", "args.items.0.sku", "args.customer.address.country", "args.total", "args.any", "agent_id", "session.tainted", "metadata.a", "time.hour", "verb", "bad"}
	operators = []governance.Operator{"equals", "not_equals", "greater", "greater_or_equal", "less", "less_or_equal", "in", "not_in", "contains", "not_contains", "starts_with", "ends_with", "matches", "exists", "not_exists", "not_matches", "length_equals", "length_greater", "length_less", "like"}
	values    = []string{`1`, `10.50`, `-3`, `1e3`, `"a"`, `"vip"`, `"^a"`, `"("`, `true`, `null`, `["a",1]`, `["vip"]`, `{}`, ``}
	documents = []string{
		``, `{}`, `null`, `[]`, `{"amount":10.5}`, `{"amount":"10.5"}`, `{"amount":1000,"reason":"a","tags":["vip"],"items":[{"amount":1,"sku":"a"},{"amount":2}],"any":null}`,
		`{"amount":null,"reason":[],"tags":"vip","items":{},"total":5}`, `{"customer":{"address":{"country":"a"}},"any":[1,"a"],"items":[]}`, `{"amount":`, `{"amount":NaN}`, `"x"`,
	}
	matchers = []governance.Matcher{
		{Type: "verb", Value: "stripe:create_refund"},
		{Type: "verb", Value: "stripe:*"},
		{Type: "verb", Value: "*:create_*"},
		{Type: "verb", Value: "*refund"},
		{Type: "verb", Value: "*f*"},
		{Type: "verb", Value: "github:*"},
		{Type: "provider", Value: "stripe"},
		{Type: "provider", Value: "github"},
		{Type: "risk_level", Value: "HIGH"},
		{Type: "riskLevel", Value: "low"},
		{Type: "operation_type", Value: "write"},
		{Type: "domain", Value: "payments"},
		{Type: "tag", Value: "x"},
		{Type: "verb", Value: "*:*"},
		{Provider: "stripe", Operation: "write"},
		{Provider: "stripe", Operation: "read"},
		{Verb: "*", Provider: "github"},
		{Verb: "stripe:*refund", Risk: "low"},
		{Verb: "*:create_*", Domain: "payments"},
		{Verb: "*und*", Operation: "write"},
		{Type: "provider", Value: "stripe", Domain: "payments"},
		{},
	}
	actions = []governance.Action{allow, notify, approve, block}
)

func drawPolicy(t *rapid.T) governance.Policy {
	p := policy(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), rapid.SampledFrom(append(actions, "permit")).Draw(t, "action"))
	p.ID = uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	p.Enabled = rapid.IntRange(0, 9).Draw(t, "enabled") > 0
	p.Mode = rapid.SampledFrom([]governance.Mode{governance.Enforce, governance.Enforce, governance.Shadow}).Draw(t, "mode")
	p.Priority = int32(rapid.IntRange(-1, 1).Draw(t, "priority"))
	p.Matchers = rapid.SliceOfN(rapid.SampledFrom(matchers), 0, 3).Draw(t, "matchers")
	p.Match.All = rapid.SliceOfN(rapid.SampledFrom(matchers), 0, 2).Draw(t, "all")
	p.Match.Except = rapid.SliceOfN(rapid.SampledFrom(matchers), 0, 1).Draw(t, "except")
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		p.Conditions = append(p.Conditions, drawCondition(t, 2))
	}
	return p
}

func drawCall(t *rapid.T) governance.Call {
	c := refund(rapid.SampledFrom(documents).Draw(t, "args"))
	c.Risk = rapid.SampledFrom([]verb.Risk{"low", "medium", "high", "other"}).Draw(t, "risk")
	if rapid.Bool().Draw(t, "no schema") {
		c.Fields = nil
	}
	if rapid.Bool().Draw(t, "agent") {
		agent, tainted := "a", true
		c.Context = governance.Context{AgentID: &agent, Tainted: &tainted}
	}
	return c
}

// tightness orders verdicts: allow, allow with a notice, held, blocked.
func tightness(d governance.Decision, notified bool) int {
	switch {
	case d == governance.Block:
		return 3
	case d == governance.PendingApproval:
		return 2
	case notified:
		return 1
	}
	return 0
}

// Where at least one enforced policy matches, one more policy of any action never makes the
// verdict looser. There is one exception: on high risk, require_approval opens what allow
// and notify alone leave blocked. Where no policy matched before, the policy's decision
// replaces the registry's. But only require_approval opens high risk, so a policy that
// allows can at most remove the notice of medium risk. A shadow policy changes only
// ShadowDecision.
func TestOneMorePolicyOnlyTightens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policies := rapid.SliceOfN(rapid.Custom(drawPolicy), 0, 5).Draw(t, "policies")
		one, call := drawPolicy(t), drawCall(t)
		before := governance.Compile(1, policies).Evaluate(call)
		after := governance.Compile(1, append(slices.Clone(policies), one)).Evaluate(call)
		if one.Mode == governance.Shadow || !one.Enabled {
			after.Matches, before.Matches, after.ShadowDecision, before.ShadowDecision = nil, nil, "", ""
			require.Equal(t, before, after)
			return
		}
		enforced := slices.ContainsFunc(before.Matches, func(m governance.Match) bool { return m.Mode == governance.Enforce })
		opens := call.Risk == verb.RiskHigh && one.Action == approve && before.PolicyName == "" && after.Decision == governance.PendingApproval
		quiets := !enforced && call.Risk == verb.RiskMedium && one.Action == allow && after.Decision == governance.Allow
		if !opens && !quiets {
			require.GreaterOrEqual(t, tightness(after.Decision, after.Notify), tightness(before.Decision, before.Notify))
		}
		require.GreaterOrEqual(t, len(after.Matches), len(before.Matches))
	})
}

// TestTheVerdictIsThatOfTheMatches compares the index and the order of policies with
// judging each policy alone.
func TestTheVerdictIsThatOfTheMatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policies := rapid.SliceOfNDistinct(rapid.Custom(drawPolicy), 0, 12, func(p governance.Policy) uuid.UUID { return p.ID }).Draw(t, "policies")
		call := drawCall(t)
		set := governance.Compile(1, policies)
		v := set.Evaluate(call)
		requireRuling(t, set, call, v)
		shuffled := rapid.Permutation(policies).Draw(t, "order")
		require.Equal(t, v, governance.Compile(1, shuffled).Evaluate(call), "the order of policies says nothing")

		alone := map[uuid.UUID]bool{}
		for _, p := range policies {
			for _, m := range governance.Compile(1, []governance.Policy{p}).Evaluate(call).Matches {
				alone[m.PolicyID] = true
			}
		}
		require.Len(t, v.Matches, len(alone))
		for _, p := range policies {
			if len(p.Conditions) == 0 && p.Enabled {
				require.Equal(t, p.Covers(call), alone[p.ID], "the index finds what comparing each matcher does")
			}
			require.False(t, p.NeverFits() != "" && alone[p.ID])
		}
		held := 0
		for _, m := range v.Matches {
			require.True(t, alone[m.PolicyID])
			if m.Mode == governance.Enforce && m.Action == approve {
				held++
			}
		}
		if v.Decision == governance.PendingApproval {
			require.Len(t, v.Requirements, held)
		}
		require.NotEmpty(t, v.Reason)
		_, err := json.Marshal(v)
		require.NoError(t, err)
	})
}

// TestNumbersAreExact checks comparisons against those of whole numbers. The same number
// may be written in many ways.
func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		if rapid.Bool().Draw(t, "same") {
			b = a
		}
		shift := rapid.IntRange(-300, 300).Draw(t, "shift")
		left := fmt.Sprintf("%de%d", a, shift)
		right := fmt.Sprintf("%d.00E%+d", b, shift)
		call := refund(`{"any":` + left + `}`)
		for op, want := range map[governance.Operator]bool{
			governance.OpEquals: a == b, governance.OpNotEquals: a != b, governance.OpGreater: a > b, governance.OpGreaterOrEqual: a >= b,
			governance.OpLess: a < b, governance.OpLessOrEqual: a <= b,
		} {
			cs, err := governance.CompileConditions([]governance.Condition{cond("args.any", op, right)})
			require.NoError(t, err)
			require.Equal(t, want, cs.Met(call, governance.NewWork()), "%s %s %s", left, op, right)
		}
	})
}

// For any arguments, field and value nothing panics. A policy that blocks matches wherever
// one that allows does. A value that cannot be stored blocks.
func FuzzConditions(f *testing.F) {
	for i, args := range documents {
		f.Add(args, fields[i%len(fields)], string(operators[i%len(operators)]), values[i%len(values)])
	}
	f.Add(`{"a":{"b":[{"c":"\ud83d\ude00"}]}}`, `args.a.b.c`, "contains", `"\ud83d\ude00"`)
	f.Add(`{"\u0061":"\u00e4\"\\"}`, `args.a`, "matches", `"^.{3}$"`)
	schema := governance.NewFields(json.RawMessage(refundSchema))
	f.Fuzz(func(t *testing.T, args, field, operator, value string) {
		c := cond(field, governance.Operator(operator), value)
		call := governance.Call{
			Verb: verb.Name{Provider: "p", Verb: "v"}, Risk: verb.RiskLow, Args: json.RawMessage(args), Fields: schema,
			Masked: func() json.RawMessage { return json.RawMessage(args) },
		}
		blocks := governance.Compile(1, []governance.Policy{policy("b", block, c)}).Evaluate(call)
		allows := governance.Compile(1, []governance.Policy{policy("a", allow, c)}).Evaluate(call)
		if len(governance.CheckConditions("/c", []governance.Condition{c})) > 0 {
			require.Equal(t, governance.Block, blocks.Decision)
			require.Equal(t, governance.Block, allows.Decision)
			return
		}
		if len(allows.Matches) > 0 {
			require.Equal(t, governance.Block, blocks.Decision)
		}
		require.Empty(t, governance.Contradictions([]governance.Condition{c}))
		schema.Misfit(c)
		schema.MisfitOfWindow(c, true)
		// not is met on neither side where its condition is met on both, and so on.
		mayNot, mustNot := sides(call, not(c))
		require.Equal(t, len(allows.Matches) == 0, mayNot)
		require.Equal(t, len(blocks.Matches) == 0, mustNot)
	})
}
