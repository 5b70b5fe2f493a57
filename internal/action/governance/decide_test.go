package governance_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

const (
	allow   = governance.ActionAllow
	notify  = governance.ActionNotify
	approve = governance.ActionRequireApproval
	block   = governance.ActionBlock
)

func at(risk verb.Risk) governance.Call {
	c := refund(`{"amount":5000}`)
	c.Risk = risk
	return c
}

func named(actions ...governance.Action) []governance.Policy {
	var list []governance.Policy
	for _, a := range actions {
		list = append(list, policy(string(a), a))
	}
	return list
}

// TestDecisionTable tries every set of actions at every risk level. The strictest decides.
// Only require_approval opens high risk, and nothing opens an unknown level.
func TestDecisionTable(t *testing.T) {
	t.Parallel()
	type row struct {
		decision governance.Decision
		notify   bool
		policy   string // "" where the registry decides
	}
	blocked, registry := row{governance.Block, false, "block"}, row{governance.Block, false, ""}
	held := row{governance.PendingApproval, false, "require_approval"}
	notified, allowed := row{governance.Allow, true, "notify"}, row{governance.Allow, false, "allow"}
	for _, c := range []struct {
		actions                    []governance.Action
		low, medium, high, unknown row
	}{
		{nil, row{governance.Allow, false, ""}, row{governance.Allow, true, ""}, registry, registry},
		{[]governance.Action{allow}, allowed, allowed, registry, registry},
		{[]governance.Action{notify}, notified, notified, registry, registry},
		{[]governance.Action{allow, notify}, notified, notified, registry, registry},
		{[]governance.Action{approve}, held, held, held, registry},
		{[]governance.Action{allow, approve}, held, held, held, registry},
		{[]governance.Action{notify, approve}, held, held, held, registry},
		{[]governance.Action{allow, notify, approve}, held, held, held, registry},
		{[]governance.Action{block}, blocked, blocked, blocked, blocked},
		{[]governance.Action{allow, block}, blocked, blocked, blocked, blocked},
		{[]governance.Action{notify, block}, blocked, blocked, blocked, blocked},
		{[]governance.Action{approve, block}, blocked, blocked, blocked, blocked},
		{[]governance.Action{allow, notify, block}, blocked, blocked, blocked, blocked},
		{[]governance.Action{allow, approve, block}, blocked, blocked, blocked, blocked},
		{[]governance.Action{notify, approve, block}, blocked, blocked, blocked, blocked},
		{[]governance.Action{allow, notify, approve, block}, blocked, blocked, blocked, blocked},
	} {
		policies := named(c.actions...)
		for risk, want := range map[verb.Risk]row{verb.RiskLow: c.low, verb.RiskMedium: c.medium, verb.RiskHigh: c.high, "": c.unknown, "HIGH": c.unknown, "none": c.unknown} {
			for range 2 {
				slices.Reverse(policies)
				v := governance.Compile(7, policies).Evaluate(at(risk))
				where := fmt.Sprintf("%v at %q", c.actions, risk)
				require.Equal(t, want, row{v.Decision, v.Notify, v.PolicyName}, where)
				require.Equal(t, v.Decision, v.ShadowDecision, where)
				require.Equal(t, want.decision == governance.PendingApproval, v.ApprovalRequired(), where)
				require.Len(t, v.Matches, len(policies), where)
				require.NotEmpty(t, v.Reason, where)
				require.Equal(t, want.decision == governance.PendingApproval, len(v.Requirements) > 0, where)
				checkDecided(t, v)
				if risk == verb.RiskHigh && want == registry {
					require.Contains(t, v.Reason, "no approval gate configured", where)
				}

				// The same policies in shadow decide nothing, and say what they would decide.
				shadows := slices.Clone(policies)
				for i := range shadows {
					shadows[i].Mode = governance.Shadow
				}
				s := governance.Compile(7, shadows).Evaluate(at(risk))
				var none *governance.Set
				plain := none.Evaluate(at(risk))
				require.Equal(t, plain.Decision, s.Decision, where)
				require.Equal(t, plain.Reason, s.Reason, where)
				require.Equal(t, v.Decision, s.ShadowDecision, where)
				require.Empty(t, s.PolicyName, where)
				require.Empty(t, s.Requirements, where)
				require.Len(t, s.Matches, len(policies), where)
				checkDecided(t, s)
			}
		}
	}
}

// checkDecided checks that the strictest match is first, and that the match that decided
// is the policy that the verdict reports.
func checkDecided(t *testing.T, v governance.Verdict) {
	t.Helper()
	order := []governance.Action{block, approve, notify, allow}
	last, decided := 0, ""
	for _, m := range v.Matches {
		require.GreaterOrEqual(t, slices.Index(order, m.Action), last)
		last = slices.Index(order, m.Action)
		if m.Decided {
			require.Empty(t, decided, "one decides")
			decided = m.PolicyName
		}
		require.NotNil(t, m.Conditions)
	}
	require.Equal(t, v.PolicyName, decided)
}

func TestShadowBesideEnforced(t *testing.T) {
	t.Parallel()
	shadow := policy("would block", block)
	shadow.Mode = governance.Shadow
	v := governance.Compile(1, []governance.Policy{shadow, policy("gate", approve)}).Evaluate(at(verb.RiskHigh))
	require.Equal(t, governance.PendingApproval, v.Decision)
	require.Equal(t, governance.Block, v.ShadowDecision)
	require.Equal(t, "gate", v.PolicyName)
	require.Len(t, v.Requirements, 1)
	require.Equal(t, "would block", v.Matches[0].PolicyName)
	require.Equal(t, governance.Shadow, v.Matches[0].Mode)

	// A shadow policy never loosens what is enforced either.
	gate := policy("would open", approve)
	gate.Mode = governance.Shadow
	v = governance.Compile(1, []governance.Policy{gate, policy("yes", allow)}).Evaluate(at(verb.RiskHigh))
	require.Equal(t, governance.Block, v.Decision)
	require.Equal(t, governance.PendingApproval, v.ShadowDecision)
}

func TestDisabledPoliciesAndVersion(t *testing.T) {
	t.Parallel()
	p := policy("off", block)
	p.Enabled = false
	s := governance.Compile(42, []governance.Policy{p})
	v := s.Evaluate(at(verb.RiskLow))
	require.Equal(t, governance.Allow, v.Decision)
	require.Empty(t, v.Matches)
	require.EqualValues(t, 42, s.Version())
	var none *governance.Set
	require.Zero(t, none.Version())
}

func TestVerdictNamesThePolicyOfTheHighestPriority(t *testing.T) {
	t.Parallel()
	low, high, b, a := policy("low", approve), policy("high", approve), policy("b", approve), policy("a", approve)
	low.Priority, high.Priority = -5, 10
	loud := policy("loud", allow)
	loud.Priority = 1000
	list := []governance.Policy{low, b, loud, high, a}
	v := governance.Compile(1, list).Evaluate(at(verb.RiskLow))
	require.Equal(t, "high", v.PolicyName)
	var order []string
	for _, r := range v.Requirements {
		order = append(order, r.PolicyName)
	}
	require.Equal(t, []string{"high", "a", "b", "low"}, order)
	require.Equal(t, high.ID, *v.Requirements[0].PolicyID)
	require.Equal(t, high.Approval, v.Requirements[0].Rule)
	require.EqualValues(t, 1, v.Requirements[0].Version)

	same := policy("a", approve)
	same.ID = uuid.MustParse("00000000-0000-0000-0000-000000000001")
	v = governance.Compile(1, []governance.Policy{a, same}).Evaluate(at(verb.RiskLow))
	require.Equal(t, same.ID, v.Matches[0].PolicyID, "the same name: by id")
}

func TestMatchers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, value string
		want       bool
	}{
		{"verb", "stripe:create_refund", true},
		{"verb", "stripe:create_refunds", false},
		{"verb", "stripe:create", false},
		{"verb", "Stripe:create_refund", true},
		{"verb", "stripe__create_refund", true},
		{"verb", "Stripe__*", true},
		{"verb", "create_refund", false},
		{"verb", "stripe\uff1acreate_refund", false},
		{"verb", "stripe\u02d0create_refund", false},
		{"verb", "create_refund", false},
		{"verb", "*", true},
		{"verb", "**", true},
		{"verb", "*:*", true},
		{"verb", "stripe:*", true},
		{"verb", "strip:*", false},
		{"verb", "str*", true},
		{"verb", "stripe*", true},
		{"verb", "stripe:create_refund*", true},
		{"verb", "stripe:create_refund_*", false},
		{"verb", "*:create_*", true},
		{"verb", "*:create_refund", true},
		{"verb", "*:refund", false},
		{"verb", "*:delete_*", false},
		{"verb", "*_refund", true},
		{"verb", "*refund*", true},
		{"verb", "*:*_refund", true},
		{"verb", "s*e:c*e_r*d", true},
		{"verb", "s*e:c*e_r*x", false},
		{"verb", "*e:create*", true},
		{"verb", "*:*:*", false},
		{"verb", "*:c*:x", false},
		{"provider", "stripe", true},
		{"provider", "Stripe", true},
		{"provider", "strip", false},
		{"risk_level", "low", true},
		{"risk_level", "LOW", true},
		{"riskLevel", "Low", true},
		{"RISKLEVEL", "high", false},
		{"operation_type", "write", true},
		{"operation_type", "WRITE", true},
		{"operation_type", "read", false},
		{"domain", "payments", true},
		{"domain", "pay", false},
	} {
		p := policy("p", block)
		p.Matchers = []governance.Matcher{{Type: governance.MatcherType(c.typ), Value: c.value}}
		v := governance.Compile(1, []governance.Policy{p}).Evaluate(refund(`{}`))
		require.Equal(t, c.want, v.Decision == governance.Block, "%v", c)
		require.Equal(t, c.want, p.Covers(refund(`{}`)), "%v", c)

		// One of several matchers is enough, and a policy with several that fit is one match.
		p.Matchers = slices.Concat([]governance.Matcher{{Type: "verb", Value: "other:verb"}}, p.Matchers, p.Matchers, []governance.Matcher{{Type: "verb", Value: "stripe:create_*"}, {Type: "provider", Value: "stripe"}})
		require.Len(t, governance.Compile(1, []governance.Policy{p}).Evaluate(refund(`{}`)).Matches, 1, "%v", c)
	}
	require.True(t, policy("p", block).Covers(refund(`{}`)))
}

// The fields of one matcher must all fit, and so must all of match.all; match.except exempts. The
// call is stripe:create_refund of the domain payments, a write of low risk.
func TestMatchersThatNarrow(t *testing.T) {
	t.Parallel()
	type m = governance.Matcher
	type n = governance.Narrowing
	list := func(list ...m) []m { return list }
	for name, c := range map[string]struct {
		matchers []m
		match    n
		want     bool
	}{
		"one field":                             {list(m{Provider: "stripe"}), n{}, true},
		"both fields fit":                       {list(m{Provider: "stripe", Operation: "Write"}), n{}, true},
		"one of two does not":                   {list(m{Provider: "stripe", Operation: "read"}), n{}, false},
		"every field fits":                      {list(m{Verb: "stripe:*", Provider: "stripe", Risk: "LOW", Operation: "write", Domain: "payments"}), n{}, true},
		"the last field does not":               {list(m{Verb: "stripe:*", Provider: "stripe", Risk: "low", Operation: "write", Domain: "pay"}), n{}, false},
		"any verb of a provider":                {list(m{Verb: "*", Provider: "github"}), n{}, false},
		"the glob decides":                      {list(m{Verb: "*refund*", Provider: "stripe"}), n{}, true},
		"a glob of the provider with an end":    {list(m{Verb: "stripe:*refund", Domain: "payments"}), n{}, true},
		"an alternative that fits":              {list(m{Provider: "stripe", Operation: "read"}, m{Type: "domain", Value: "payments"}), n{}, true},
		"all alone":                             {nil, n{All: list(m{Type: "provider", Value: "stripe"}, m{Operation: "write"})}, true},
		"all alone, one does not fit":           {nil, n{All: list(m{Type: "provider", Value: "stripe"}, m{Operation: "read"})}, false},
		"all beside an alternative":             {list(m{Type: "verb", Value: "*:create_*"}), n{All: list(m{Provider: "stripe"})}, true},
		"all beside an alternative, not both":   {list(m{Type: "verb", Value: "*:create_*"}), n{All: list(m{Provider: "github"})}, false},
		"an alternative that does not fit":      {list(m{Type: "verb", Value: "*:delete_*"}), n{All: list(m{Provider: "stripe"})}, false},
		"all of two globs":                      {nil, n{All: list(m{Verb: "*:create_*"}, m{Verb: "*_refund"})}, true},
		"all of two globs, one does not fit":    {nil, n{All: list(m{Verb: "*:create_*"}, m{Verb: "*_order"})}, false},
		"except of another verb":                {list(m{Provider: "stripe"}), n{Except: list(m{Verb: "stripe:get_*"})}, true},
		"except of this verb":                   {list(m{Provider: "stripe"}), n{Except: list(m{Verb: "stripe:create_*"})}, false},
		"except of this verb, with a type":      {list(m{Provider: "stripe"}), n{Except: list(m{Type: "verb", Value: "stripe:create_refund"})}, false},
		"except by two fields":                  {list(m{Provider: "stripe"}), n{Except: list(m{Provider: "stripe", Operation: "read"})}, true},
		"except by two fields that fit":         {list(m{Provider: "stripe"}), n{Except: list(m{Provider: "stripe", Operation: "write"})}, false},
		"one of several exceptions":             {list(m{Provider: "stripe"}), n{Except: list(m{Provider: "github"}, m{Risk: "low"})}, false},
		"except alone, for every other verb":    {nil, n{Except: list(m{Provider: "github"})}, true},
		"except alone, for this verb":           {nil, n{Except: list(m{Provider: "stripe"})}, false},
		"all and except":                        {nil, n{All: list(m{Provider: "stripe"}), Except: list(m{Operation: "read"})}, true},
		"all and except, for this verb":         {nil, n{All: list(m{Provider: "stripe"}), Except: list(m{Operation: "write"})}, false},
		"except each verb":                      {nil, n{Except: list(m{Verb: "*"})}, false},
		"except of an alternative that is each": {list(m{Verb: "*"}, m{Provider: "x"}), n{Except: list(m{Provider: "stripe"})}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy("p", block)
			p.Matchers, p.Match = c.matchers, c.match
			require.Empty(t, governance.CheckPolicy(p))
			v := governance.Compile(1, []governance.Policy{p}).Evaluate(refund(`{}`))
			require.Equal(t, c.want, v.Decision == governance.Block)
			require.Equal(t, c.want, p.Covers(refund(`{}`)))
			require.Equal(t, c.want, len(v.Matches) == 1, "once, however many of its matchers fit")
		})
	}
}

func TestMatcherComparesALongNameWhole(t *testing.T) {
	t.Parallel()
	c := refund(`{}`)
	c.Verb.Verb = strings.Repeat("v", 240)
	p := policy("p", block)
	p.Matchers = []governance.Matcher{{Type: "verb", Value: "*v"}}
	require.Equal(t, governance.Block, governance.Compile(1, []governance.Policy{p}).Evaluate(c).Decision)
}

func TestContextFields(t *testing.T) {
	t.Parallel()
	agent, yesTaint, noTaint := "agent-1", true, false
	with := func(c governance.Context) governance.Call {
		call := refund(`{}`)
		call.Context = c
		return call
	}
	for _, c := range []struct {
		field, op, value string
		context          governance.Context
		want             judged
	}{
		{"agent_id", "equals", `"agent-1"`, governance.Context{AgentID: &agent}, yes},
		{"agent_id", "equals", `"agent-2"`, governance.Context{AgentID: &agent}, no},
		{"agent_id", "equals", `"agent-1"`, governance.Context{}, no},
		{"agent_id", "equals", `null`, governance.Context{}, yes},
		{"agent_id", "equals", `null`, governance.Context{AgentID: &agent}, no},
		{"agent_id", "not_equals", `"agent-1"`, governance.Context{}, yes},
		{"agent_id", "not_equals", `null`, governance.Context{}, no},
		{"agent_id", "in", `["agent-1",null]`, governance.Context{}, yes},
		{"agent_id", "in", `["agent-1"]`, governance.Context{}, no},
		{"agent_id", "not_in", `["agent-1"]`, governance.Context{}, yes},
		{"agent_id", "not_in", `[null]`, governance.Context{}, no},
		{"agent_id", "exists", ``, governance.Context{}, no},
		{"agent_id", "not_exists", ``, governance.Context{}, yes},
		{"agent_id", "exists", ``, governance.Context{AgentID: &agent}, yes},
		{"agent_id", "starts_with", `"agent-"`, governance.Context{AgentID: &agent}, yes},
		{"agent_id", "starts_with", `"agent-"`, governance.Context{}, closed},
		{"agent_id", "matches", `"x"`, governance.Context{}, closed},
		{"agent_id", "greater", `1`, governance.Context{AgentID: &agent}, closed},
		{"customer_id", "equals", `"agent-1"`, governance.Context{AgentID: &agent}, no},
		{"customer_id", "contains", `"gent"`, governance.Context{CustomerID: &agent}, yes},
		{"session.tainted", "equals", `true`, governance.Context{Tainted: &yesTaint}, yes},
		{"session.tainted", "equals", `true`, governance.Context{Tainted: &noTaint}, no},
		{"session.tainted", "equals", `true`, governance.Context{}, no},
		{"session.tainted", "not_equals", `true`, governance.Context{}, yes},
		{"session.tainted", "equals", `"true"`, governance.Context{Tainted: &yesTaint}, closed},
		{"session.taint_sources", "contains", `"shop:get_ticket"`, governance.Context{TaintSources: []string{"event", "shop:get_ticket"}}, yes},
		{"session.taint_sources", "contains", `"shop:get_order"`, governance.Context{TaintSources: []string{"event", "shop:get_ticket"}}, no},
		{"session.taint_sources", "exists", ``, governance.Context{}, no},
		{"session.taint_sources", "length_greater", `1`, governance.Context{TaintSources: []string{"event", "shop:get_ticket"}}, yes},
	} {
		require.Equal(t, c.want, judge(t, cond(c.field, governance.Operator(c.op), c.value), with(c.context)), "%v", c)
	}
}

// A policy that cannot be read is not dropped.
func TestPolicyThatCannotBeReadBlocksWhatItMayBeAbout(t *testing.T) {
	t.Parallel()
	elsewhere := []governance.Matcher{{Type: "provider", Value: "github"}}
	here := []governance.Matcher{{Type: "provider", Value: "stripe"}}
	for _, c := range []struct {
		name     string
		change   func(*governance.Policy)
		anywhere bool // not even its matchers can be read
	}{
		{"regular expression", func(p *governance.Policy) { p.Conditions = []governance.Condition{cond("args.a", "matches", `"("`)} }, false},
		{"operator", func(p *governance.Policy) { p.Conditions = []governance.Condition{cond("args.a", "like", `"("`)} }, false},
		{"value", func(p *governance.Policy) {
			p.Conditions = []governance.Condition{cond("args.amount", "greater", `"5"`)}
		}, false},
		{"value that is no JSON", func(p *governance.Policy) { p.Conditions = []governance.Condition{cond("args.amount", "greater", `{`)} }, false},
		{"field", func(p *governance.Policy) { p.Conditions = []governance.Condition{cond("arg.a", "exists", ``)} }, false},
		{"a later condition", func(p *governance.Policy) {
			p.Conditions = []governance.Condition{cond("args.amount", "less", `0`), cond("args.a", "like", ``)}
		}, false},
		{"action", func(p *governance.Policy) { p.Action = "permit" }, false},
		{"mode", func(p *governance.Policy) { p.Mode = "on" }, false},
		{"matcher type", func(p *governance.Policy) {
			p.Matchers = append(p.Matchers, governance.Matcher{Type: "tag", Value: "x"})
		}, true},
		{"matcher value", func(p *governance.Policy) { p.Matchers = append(p.Matchers, governance.Matcher{Type: "verb"}) }, true},
		{"matcher with a type and fields", func(p *governance.Policy) {
			p.Matchers = append(p.Matchers, governance.Matcher{Type: "verb", Value: "a:b", Provider: "a"})
		}, true},
		{"one of all", func(p *governance.Policy) { p.Match.All = []governance.Matcher{{Type: "tag", Value: "x"}} }, false},
		{"except, which then exempts nothing", func(p *governance.Policy) {
			p.Match.Except = []governance.Matcher{{Provider: "stripe"}, {Type: "tag", Value: "x"}}
		}, false},
	} {
		for _, action := range []governance.Action{allow, block} {
			p := policy("Broken rule", action)
			p.Matchers = here
			c.change(&p)
			v := governance.Compile(1, []governance.Policy{p, policy("fine", allow)}).Evaluate(refund(`{"amount":1}`))
			require.Equal(t, governance.Block, v.Decision, c.name)
			require.Equal(t, "Broken rule", v.PolicyName, c.name)
			require.Contains(t, v.Reason, `"Broken rule" cannot be read`, c.name)

			p = policy("Broken rule", action)
			p.Matchers = elsewhere
			c.change(&p)
			v = governance.Compile(1, []governance.Policy{p}).Evaluate(refund(`{"amount":1}`))
			require.Equal(t, c.anywhere, v.Decision == governance.Block, c.name)
		}
	}
	shadow := policy("Broken rule", allow, cond("args.a", "like", `1`))
	shadow.Mode = governance.Shadow
	v := governance.Compile(1, []governance.Policy{shadow}).Evaluate(refund(`{}`))
	require.Equal(t, governance.Allow, v.Decision, "what only watches blocks nothing")
	require.Equal(t, governance.Block, v.ShadowDecision)

	_, err := governance.CompileConditions([]governance.Condition{cond("args.a", "exists", ``), cond("args.a", "like", `"secret-1"`)})
	require.ErrorContains(t, err, "condition 1")
	require.NotContains(t, err.Error(), "secret-1")
}

func TestConditionsOfAGrant(t *testing.T) {
	t.Parallel()
	cs, err := governance.CompileConditions([]governance.Condition{cond("args.amount", "LESS", "100"), cond("args.reason", "equals", `"x"`)})
	require.NoError(t, err)
	require.True(t, cs.Met(refund(`{"amount":99.99,"reason":"x"}`), governance.NewWork()))
	require.False(t, cs.Met(refund(`{"amount":100,"reason":"x"}`), governance.NewWork()))
	require.False(t, cs.Met(refund(`{"amount":99}`), governance.NewWork()))
	require.False(t, cs.Met(refund(`{"amount":"99","reason":"x"}`), governance.NewWork()))
	require.False(t, cs.Met(refund(`{`), governance.NewWork()))
	cs, err = governance.CompileConditions(nil)
	require.NoError(t, err)
	require.True(t, cs.Met(refund(`{}`), governance.NewWork()))
	cs = nil
	require.False(t, cs.Met(refund(`{}`), governance.NewWork()))
}

func TestExplanations(t *testing.T) {
	t.Parallel()
	asked := 0
	call := refund(`{"amount":5000,"reason":"` + strings.Repeat("private ", 40) + `","pass":"hunter2","api_key":"sk_live_1","items":[{"sku":"a"},{"sku":"b"}],"any":"4242424242424242"}`)
	agent := "agent-1"
	call.Context.AgentID = &agent
	call.Masked = func() json.RawMessage {
		asked++
		return json.RawMessage(`{"amount":5000,"reason":"` + strings.Repeat("private ", 40) + `","pass":"[masked]","api_key":"[masked]","items":[{"sku":"a"},{"sku":"b"}],"any":"***4242"}`)
	}
	p := policy("Large refunds", block,
		cond("args.amount", "greater", "1000"), cond("args.reason", "contains", `"private"`), cond("args.pass", "equals", `"hunter2"`),
		cond("args.api_key", "not_equals", `"sk_live_2"`), cond("args.items.sku", "in", `["a","b"]`), cond("agent_id", "exists", `"ignored"`),
		cond("args.any", "ends_with", `"4242424242"`), cond("args.customer.address.country", "equals", `"KP"`))
	q := policy("second", block, cond("args.amount", "greater", "1"))
	v := governance.Compile(1, []governance.Policy{p, q}).Evaluate(call)
	require.Equal(t, 1, asked, "the masked arguments are asked for once")
	require.Equal(t, governance.Block, v.Decision)
	got := v.Matches[0].Conditions
	require.JSONEq(t, "5000", string(got[0].Actual))
	require.JSONEq(t, "1000", string(got[0].Value))
	require.JSONEq(t, `"(larger than 256 bytes)"`, string(got[1].Actual))
	for _, i := range []int{2, 3} {
		require.JSONEq(t, `"[masked]"`, string(got[i].Actual))
		require.JSONEq(t, `"[masked]"`, string(got[i].Value), "what a secret is compared with is one")
	}
	require.JSONEq(t, `["a","b"]`, string(got[4].Actual))
	require.JSONEq(t, `"agent-1"`, string(got[5].Actual))
	require.JSONEq(t, `"***4242"`, string(got[6].Actual))
	require.JSONEq(t, `"[masked]"`, string(got[6].Value), "masked in the call, so secret in the policy")
	require.JSONEq(t, `null`, string(got[7].Actual))
	require.Equal(t, "the call lacks it", got[7].FailClosed)
	whole, err := json.Marshal(v)
	require.NoError(t, err)
	for _, secret := range []string{"hunter2", "sk_live", "4242424242"} {
		require.NotContains(t, string(whole), secret)
	}
	require.Equal(t, `policy "Large refunds" blocks this call: args.amount greater 1000 and args.reason contains "private" and args.pass equals a secret value and `+
		`args.api_key not equals a secret value and args.items.sku in ["a","b"] and 3 more conditions; other policies that do so: 1. `+
		`Change the call or the policy: the same call would be blocked again`, v.Reason)
	require.NotContains(t, v.Reason, "5000")

	quiet := refund(`{"amount":1}`)
	quiet.Masked = func() json.RawMessage { t.Error("nothing matched"); return nil }
	require.Empty(t, governance.Compile(1, []governance.Policy{p}).Evaluate(quiet).Matches)
	quiet.Masked = nil
	v = governance.Compile(1, []governance.Policy{q, policy("gate", approve, cond("args.amount", "less", "9"), cond("args.reason", "equals", `"`+strings.Repeat("ä", 90)+`"`))}).Evaluate(quiet)
	require.Equal(t, governance.PendingApproval, v.Decision)
	require.JSONEq(t, `null`, string(v.Matches[0].Conditions[0].Actual))
	require.Equal(t, `policy "gate" requires approval for this call: args.amount less 9 and args.reason equals "`+strings.Repeat("ä", 49)+`… (counts as true: the call lacks it). It is held until it is approved`, v.Reason)
}
