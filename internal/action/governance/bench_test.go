package governance_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

// tenantPolicies are n policies as a tenant has them: most about one verb or provider
// each, two that are about the call of the benchmark.
func tenantPolicies(n int) []governance.Policy {
	list := []governance.Policy{
		policy("large refunds", approve, cond("args.amount", "greater", "1000")),
		policy("refunds abroad", block, cond("args.customer.address.country", "in", `["KP","IR"]`)),
	}
	list[0].Matchers = []governance.Matcher{{Type: "verb", Value: "stripe:create_refund"}}
	list[1].Matchers = []governance.Matcher{{Type: "verb", Value: "*:create_refund"}, {Type: "provider", Value: "stripe"}}
	for i := len(list); i < n; i++ {
		p := policy(fmt.Sprintf("policy %d", i), actions[i%4], cond("args.amount", "greater", "10"), cond("args.reason", "contains", `"x"`))
		switch i % 11 {
		case 0, 1, 2:
			p.Matchers = []governance.Matcher{{Type: "verb", Value: fmt.Sprintf("provider%d:verb_%d", i%50, i)}}
		case 3, 4:
			p.Matchers = []governance.Matcher{{Type: "verb", Value: fmt.Sprintf("provider%d:*", i)}}
		case 5:
			p.Matchers = []governance.Matcher{{Type: "verb", Value: fmt.Sprintf("*:delete_%d_*", i)}, {Type: "verb", Value: fmt.Sprintf("*_purge%d", i)}}
		case 6:
			p.Matchers = []governance.Matcher{{Type: "provider", Value: fmt.Sprintf("provider%d", i)}, {Type: "domain", Value: fmt.Sprintf("domain%d", i)}}
		case 7:
			p.Matchers = []governance.Matcher{{Type: "risk_level", Value: "high"}, {Type: "operation_type", Value: "read"}}
		case 8:
			p.Matchers = []governance.Matcher{{Provider: fmt.Sprintf("provider%d", i), Operation: "write"}, {Risk: "medium", Domain: fmt.Sprintf("domain%d", i)}}
		case 9:
			p.Match.All = []governance.Matcher{{Provider: fmt.Sprintf("provider%d", i)}, {Risk: "medium"}}
			p.Match.Except = []governance.Matcher{{Verb: fmt.Sprintf("provider%d:get_*", i)}}
		default:
			p.Matchers = []governance.Matcher{{Type: "provider", Value: fmt.Sprintf("provider%d", i)}}
			if i < 100 { // every write but those of some providers
				p.Matchers = []governance.Matcher{{Type: "operation_type", Value: "write"}}
			}
			p.Match.Except = []governance.Matcher{{Provider: "github"}, {Provider: "stripe"}, {Provider: "nobody"}}
		}
		list = append(list, p)
	}
	return list
}

func benchmarkCall(args string) governance.Call {
	c := refund(args)
	c.Risk = verb.RiskMedium
	return c
}

func benchmarkDecide(b *testing.B, n int, args string, want governance.Decision) {
	b.Helper()
	s := governance.Compile(1, tenantPolicies(n))
	c := benchmarkCall(args)
	b.ReportAllocs()
	for b.Loop() {
		if r := s.Decide(c); r.Decision != want {
			b.Fatal(r.Decision)
		}
	}
}

func benchmarkEvaluate(b *testing.B, n int, args string, want governance.Decision) {
	b.Helper()
	s := governance.Compile(1, tenantPolicies(n))
	c := benchmarkCall(args)
	b.ReportAllocs()
	for b.Loop() {
		if v := s.Evaluate(c); v.Decision != want {
			b.Fatal(v.Decision, v.Reason)
		}
	}
}

const (
	quietCall = `{"amount":999.99,"reason":"damaged","customer":{"address":{"country":"DE"}},"tags":["vip"]}`
	heldCall  = `{"amount":5000,"reason":"damaged","customer":{"address":{"country":"DE"}},"tags":["vip"]}`
)

// A thousand policies must cost at most three times as much as ten.
func BenchmarkEvaluate10(b *testing.B)   { benchmarkEvaluate(b, 10, quietCall, governance.Allow) }
func BenchmarkEvaluate100(b *testing.B)  { benchmarkEvaluate(b, 100, quietCall, governance.Allow) }
func BenchmarkEvaluate1000(b *testing.B) { benchmarkEvaluate(b, 1000, quietCall, governance.Allow) }

func BenchmarkEvaluateHeld10(b *testing.B) {
	benchmarkEvaluate(b, 10, heldCall, governance.PendingApproval)
}

func BenchmarkEvaluateHeld1000(b *testing.B) {
	benchmarkEvaluate(b, 1000, heldCall, governance.PendingApproval)
}

func BenchmarkDecide1000(b *testing.B) { benchmarkDecide(b, 1000, quietCall, governance.Allow) }

func BenchmarkDecideHeld1000(b *testing.B) {
	benchmarkDecide(b, 1000, heldCall, governance.PendingApproval)
}

func BenchmarkCompile1000(b *testing.B) {
	list := tenantPolicies(1000)
	b.ReportAllocs()
	for b.Loop() {
		governance.Compile(1, list)
	}
}

// TestPoliciesThatDoNotApplyAllocateNothing counts allocations. Unlike times, they are the
// same on every machine.
//
//nolint:paralleltest // testing.AllocsPerRun counts for the whole process
func TestPoliciesThatDoNotApplyAllocateNothing(t *testing.T) {
	count := func(s *governance.Set, c governance.Call) float64 {
		decided := testing.AllocsPerRun(100, func() { s.Decide(c) })
		evaluated := testing.AllocsPerRun(100, func() { s.Evaluate(c) })
		require.LessOrEqual(t, decided, min(evaluated, 1), "at most the list of the policies that match")
		return evaluated
	}
	small, large := governance.Compile(1, tenantPolicies(10)), governance.Compile(1, tenantPolicies(1000))
	elsewhere := benchmarkCall(quietCall)
	elsewhere.Verb = verb.Name{Provider: "nobody", Verb: "asks"}
	require.Zero(t, count(large, elsewhere), "no policy is about it")
	// Two policies are about this call, and their conditions are false.
	quiet := benchmarkCall(quietCall)
	require.Zero(t, count(large, quiet))
	held := benchmarkCall(heldCall)
	require.InDelta(t, count(small, held), count(large, held), 0)
	require.Equal(t, governance.PendingApproval, large.Evaluate(held).Decision)

	// A thousand policies are about the call, and their conditions are false.
	var all []governance.Policy
	for i := range 1000 {
		all = append(all, policy(strconv.Itoa(i), block, cond("args.amount", "greater", "1e6"), cond("args.reason", "equals", `"x"`)))
	}
	require.Zero(t, count(governance.Compile(1, all), quiet))

	// A thousand are about all calls but those of the provider.
	all = nil
	for i := range 1000 {
		p := policy(strconv.Itoa(i), block)
		p.Match.Except = []governance.Matcher{{Provider: "github"}, {Provider: "stripe", Operation: "write"}}
		all = append(all, p)
	}
	require.Zero(t, count(governance.Compile(1, all), quiet))

	// A thousand ask groups of conditions.
	all = nil
	for i := range 1000 {
		all = append(all, policy(strconv.Itoa(i), block,
			anyOf(cond("args.amount", "greater", "1e6"), allOf(cond("args.amount", "less", "1000"), not(cond("args.customer.address.country", "equals", `"DE"`)))),
			not(allOf(cond("args.reason", "equals", `"damaged"`), cond("args.tags", "contains", `"vip"`))),
		))
	}
	require.Zero(t, count(governance.Compile(1, all), quiet))

	// A thousand have a look-up: about other verbs, or not needed because another condition is false.
	all = nil
	for i := range 1000 {
		p := withLookups(policy(strconv.Itoa(i), block, cond("args.amount", "greater", "1e6"), anyOf(cond("lookup.order.status", "equals", `"x"`))),
			lookup("order", `{"id":{"field":"args.order_id"}}`))
		if i%2 == 0 {
			p.Conditions = p.Conditions[1:]
			p.Matchers = []governance.Matcher{{Verb: "stripe:create_*"}}
			p.Match.Except = []governance.Matcher{{Verb: "stripe:create_refund"}}
		}
		all = append(all, p)
	}
	require.Zero(t, count(governance.Compile(1, all), quiet))
	require.Zero(t, count(governance.Compile(1, all[1:2]), quiet))

	f := governance.NewFields(json.RawMessage(refundSchema))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { f.Knows("amount") }), 3.0, "what reading the path costs")
}

//nolint:paralleltest // testing.AllocsPerRun counts for the whole process
func TestExplanationOfGroupsAllocatesAsOneOfTheirConditions(t *testing.T) {
	large, damaged, vip := cond("args.amount", "greater", "1000"), cond("args.reason", "equals", `"damaged"`), cond("args.tags", "contains", `"vip"`)
	count := func(conditions ...governance.Condition) float64 {
		set, call := governance.Compile(1, []governance.Policy{policy("gate", approve, conditions...)}), benchmarkCall(heldCall)
		return testing.AllocsPerRun(100, func() {
			if v := set.Evaluate(call); v.Decision != governance.PendingApproval || len(v.Matches[0].Conditions) != len(conditions) {
				t.Fatal(v)
			}
		})
	}
	flat := count(large, damaged, vip)
	require.InDelta(t, flat, count(allOf(large, anyOf(damaged, not(not(vip))))), 0)
	require.InDelta(t, flat, count(anyOf(large, damaged, vip)), 0)
}
