package governance_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
)

func paths(details []fault.Detail) []string {
	list := []string{}
	for _, d := range details {
		list = append(list, d.Path)
	}
	slices.Sort(list)
	return list
}

func TestCheckPolicyAcceptsPoliciesAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	p := policy("Large refunds", "Require_Approval", cond("args.amount", "Greater", "1000"), cond("agent_id", "exists", ""))
	p.Mode = "ENFORCE"
	p.Matchers = []governance.Matcher{
		{Type: "verb", Value: "stripe:create_refund"},
		{Type: "VERB", Value: "stripe:*"},
		{Type: "verb", Value: "*:delete_*"},
		{Type: "verb", Value: "*"},
		{Type: "provider", Value: "stripe"},
		{Type: "provider", Value: "tool"},
		{Type: "riskLevel", Value: "HIGH"},
		{Type: "risk_level", Value: "low"},
		{Type: "operation_type", Value: "Write"},
		{Type: "domain", Value: "Ördnung"},
	}
	p.Approval.Approvers = append(p.Approval.Approvers, governance.Approver{Type: "User", Value: strings.ToUpper(uuid.NewString())}, governance.Approver{Type: "role", Value: "Member"})
	p.Approval.OnTimeout = "Escalate"
	before, err := json.Marshal(p)
	require.NoError(t, err)
	require.Empty(t, governance.CheckPolicy(p))
	after, err := json.Marshal(p)
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(after), "what is checked is not changed")

	n := governance.Normalize(p)
	require.Equal(t, governance.ActionRequireApproval, n.Action)
	require.Equal(t, governance.Enforce, n.Mode)
	require.Equal(t, governance.Matcher{Type: governance.MatchRisk, Value: "high"}, n.Matchers[6])
	require.Equal(t, governance.OpGreater, n.Conditions[0].Operator)
	require.Equal(t, governance.OnTimeoutEscalate, n.Approval.OnTimeout)

	block := governance.Policy{Name: "no rule of approval needed", Action: governance.ActionBlock}
	require.Empty(t, governance.CheckPolicy(block))
}

func TestCheckPolicyRefuses(t *testing.T) {
	t.Parallel()
	type P = governance.Policy
	many := func(n int) []governance.Matcher {
		return slices.Repeat([]governance.Matcher{{Type: "verb", Value: "a:b"}}, n)
	}
	matcher := func(typ, value string) func(*P) {
		return func(p *P) {
			p.Matchers = []governance.Matcher{{Type: "verb", Value: "a:b"}, {Type: governance.MatcherType(typ), Value: value}}
		}
	}
	condition := func(field, op, value string) func(*P) {
		return func(p *P) {
			p.Conditions = []governance.Condition{cond("agent_id", "exists", ""), cond(field, governance.Operator(op), value)}
		}
	}
	approver := func(typ, value string) func(*P) {
		return func(p *P) {
			p.Approval.Approvers = []governance.Approver{{Type: governance.ApproverType(typ), Value: value}}
		}
	}
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	const typ, val, field, operator, value = "/verbMatchers/1/type", "/verbMatchers/1/value", "/conditions/1/field", "/conditions/1/operator", "/conditions/1/value"
	for _, c := range []struct {
		name   string
		change func(*P)
		path   string
	}{
		{"no name", func(p *P) { p.Name = "" }, "/name"},
		{"blank name", func(p *P) { p.Name = " \t" }, "/name"},
		{"long name", func(p *P) { p.Name = strings.Repeat("ä", 256) }, "/name"},
		{"mode", func(p *P) { p.Mode = "watch" }, "/mode"},
		{"action", func(p *P) { p.Action = "deny" }, "/action/type"},
		{"no action", func(p *P) { p.Action = "" }, "/action/type"},
		{"51 matchers", func(p *P) { p.Matchers = many(51) }, "/verbMatchers"},
		{"matcher type", matcher("verbs", "a:b"), typ},
		{"no matcher type", matcher("", "a:b"), typ},
		{"no matcher value", matcher("verb", ""), val},
		{"long matcher value", matcher("domain", strings.Repeat("x", 256)), val},
		{"verb without provider", matcher("verb", "refund"), val},
		{"look-alike colon", matcher("verb", "stripe\uff1arefund"), val},
		{"look-alike colon beside a glob", matcher("verb", "stripe\uff1a*"), val},
		{"two colons beside a glob", matcher("verb", "a:b:*"), val},
		{"glob in a provider", matcher("provider", "str*"), val},
		{"risk", matcher("riskLevel", "critical"), val},
		{"operation", matcher("operation_type", "delete"), val},
		{"matcher with a type and fields", func(p *P) {
			p.Matchers = []governance.Matcher{{Type: "verb", Value: "a:b", Provider: "a"}}
		}, "/verbMatchers/0"},
		{"matcher of nothing", func(p *P) { p.Matchers = []governance.Matcher{{}} }, "/verbMatchers/0/type"},
		{"value without a type", func(p *P) { p.Matchers = []governance.Matcher{{Value: "a:b"}} }, "/verbMatchers/0/type"},
		{"verb of a field", func(p *P) { p.Matchers = []governance.Matcher{{Verb: "refund"}} }, "/verbMatchers/0/verb"},
		{"provider of a field", func(p *P) { p.Matchers = []governance.Matcher{{Provider: "a*"}} }, "/verbMatchers/0/provider"},
		{"risk of a field", func(p *P) { p.Matchers = []governance.Matcher{{Risk: "critical"}} }, "/verbMatchers/0/risk_level"},
		{"operation of a field", func(p *P) { p.Matchers = []governance.Matcher{{Operation: "delete"}} }, "/verbMatchers/0/operation_type"},
		{"long domain of a field", func(p *P) { p.Matchers = []governance.Matcher{{Domain: strings.Repeat("x", 256)}} }, "/verbMatchers/0/domain"},
		{"51 of all", func(p *P) { p.Match.All = many(51) }, "/match/all"},
		{"51 exceptions", func(p *P) { p.Match.Except = many(51) }, "/match/except"},
		{"entry of all", func(p *P) { p.Match.All = []governance.Matcher{{Type: "tag", Value: "x"}} }, "/match/all/0/type"},
		{"exception", func(p *P) { p.Match.Except = []governance.Matcher{{Verb: "a:b"}, {Risk: "x"}} }, "/match/except/1/risk_level"},
		{"51 conditions", func(p *P) { p.Conditions = slices.Repeat([]governance.Condition{cond("agent_id", "exists", "")}, 51) }, "/conditions"},
		{"no field", condition("", "equals", "1"), field},
		{"field", condition("amount", "equals", "1"), field},
		{"args alone", condition("args", "exists", ""), field},
		{"args without a name", condition("args.", "exists", ""), field},
		{"an empty name", condition("args.a..b", "exists", ""), field},
		{"a dot at the end", condition("args.a.", "exists", ""), field},
		{"backslash", condition(`args.a\b`, "exists", ""), field},
		{"backslash at the end", condition(`args.a\`, "exists", ""), field},
		{"65 names", condition("args."+strings.TrimSuffix(strings.Repeat("a.", 65), "."), "exists", ""), field},
		{"long path", condition("args."+strings.Repeat("a", 1025), "exists", ""), field},
		{"operator", condition("args.a", "like", "1"), operator},
		{"no operator", condition("args.a", "", "1"), operator},
		{"no value", condition("args.a", "equals", ""), value},
		{"value is no JSON", condition("args.a", "equals", "{"), value},
		{"duplicate names", condition("args.a", "equals", `{"a":1,"a":2}`), value},
		{"an object", condition("args.a", "equals", `{}`), value},
		{"an array", condition("args.a", "equals", `[1]`), value},
		{"number as a string", condition("args.a", "greater", `"10"`), value},
		{"number null", condition("args.a", "less", `null`), value},
		{"exponent", condition("args.a", "less", `1e401`), value},
		{"text number", condition("args.a", "starts_with", `1`), value},
		{"contains null", condition("args.a", "contains", `null`), value},
		{"in no array", condition("args.a", "in", `"a"`), value},
		{"in nothing", condition("args.a", "in", `[]`), value},
		{"in 101", condition("args.a", "in", list(101)), value},
		{"in arrays", condition("args.a", "in", `[[1]]`), value},
		{"in objects", condition("args.a", "not_in", `["a",{}]`), value},
		{"long value", condition("args.a", "equals", `"`+strings.Repeat("x", 4096)+`"`), value},
		{"regular expression", condition("args.a", "matches", `"("`), value},
		{"look-ahead", condition("args.a", "matches", `"(?=a)"`), value},
		{"costly expression", condition("args.a", "matches", `"((a{0,100}){0,100})"`), value},
		{"nobody required", func(p *P) { p.Approval.Required = 0 }, "/approval/required"},
		{"11 required", func(p *P) { p.Approval.Required = 11 }, "/approval/required"},
		{"no approvers", func(p *P) { p.Approval.Approvers = nil }, "/approval/approvers"},
		{"51 approvers", func(p *P) { p.Approval.Approvers = slices.Repeat(p.Approval.Approvers[:1], 51) }, "/approval/approvers"},
		{"approver type", approver("team", "x"), "/approval/approvers/0/type"},
		{"role", approver("role", "root"), "/approval/approvers/0/value"},
		{"user", approver("user", "ann"), "/approval/approvers/0/value"},
		{"user as a urn", approver("user", "urn:uuid:0198d000-0000-7000-8000-000000000000"), "/approval/approvers/0/value"},
		{"nobody", approver("user", uuid.Nil.String()), "/approval/approvers/0/value"},
		{"no timeout", func(p *P) { p.Approval.TimeoutSeconds = 0 }, "/approval/timeout"},
		{"31 days", func(p *P) { p.Approval.TimeoutSeconds = 2592001 }, "/approval/timeout"},
		{"on_timeout", func(p *P) { p.Approval.OnTimeout = "approve" }, "/approval/on_timeout"},
	} {
		p := policy("good", governance.ActionRequireApproval)
		require.Empty(t, governance.CheckPolicy(p))
		c.change(&p)
		details := governance.CheckPolicy(p)
		require.Equal(t, []string{c.path}, paths(details), c.name)
		require.NotEmpty(t, details[0].Rule, c.name)
		require.NotEmpty(t, details[0].Message, c.name)
	}

	p := policy("limits", governance.ActionRequireApproval, cond("args.a", "in", list(100)), cond("args."+strings.TrimSuffix(strings.Repeat("a.", 64), "."), "exists", ""))
	p.Name, p.Matchers = strings.Repeat("ä", 255), many(50)
	p.Approval.Required, p.Approval.TimeoutSeconds = 10, 2592000
	require.Empty(t, governance.CheckPolicy(p))

	p = governance.Policy{Action: "x", Matchers: []governance.Matcher{{}}, Conditions: []governance.Condition{{}}}
	require.Equal(t, []string{"/action/type", "/conditions/0/field", "/name", "/verbMatchers/0/type"}, paths(governance.CheckPolicy(p)), "all at once")
}

func TestContradictions(t *testing.T) {
	t.Parallel()
	const a = "args.a"
	for _, c := range []struct {
		x, y governance.Condition
		want bool
	}{
		{cond(a, "equals", `"x"`), cond(a, "equals", `"y"`), true},
		{cond(a, "equals", `"x"`), cond(a, "equals", `"x"`), false},
		{cond(a, "equals", `1`), cond(a, "equals", `1.0`), false},
		{cond(a, "equals", `1`), cond(a, "equals", `"1"`), true},
		{cond(a, "equals", `"x"`), cond("args.b", "equals", `"y"`), false},
		{cond("agent_id", "equals", `"x"`), cond("customer_id", "equals", `"y"`), false},
		{cond("agent_id", "equals", `"x"`), cond("agent_id", "equals", `"y"`), true},
		{cond(a, "equals", `"x"`), cond(a, "not_equals", `"x"`), true},
		{cond(a, "not_equals", `"y"`), cond(a, "not_equals", `"x"`), false},
		{cond(a, "greater", `10`), cond(a, "less", `5`), true},
		{cond(a, "greater", `10`), cond(a, "less", `10.000000000000000000000000000001`), false},
		{cond(a, "greater", `10`), cond(a, "less", `10.0`), true},
		{cond(a, "greater_or_equal", `10`), cond(a, "less", `10`), true},
		{cond(a, "greater_or_equal", `10`), cond(a, "less_or_equal", `1e1`), false},
		{cond(a, "greater", `5`), cond(a, "greater", `10`), false},
		{cond(a, "equals", `11`), cond(a, "less", `10`), true},
		{cond(a, "equals", `9`), cond(a, "less", `10`), false},
		{cond(a, "exists", ``), cond(a, "not_exists", ``), true},
		{cond(a, "exists", ``), cond(a, "equals", `1`), false},
		{cond(a, "not_exists", ``), cond(a, "equals", `1`), false}, // both may count for a missing argument
		{cond("agent_id", "not_exists", ``), cond("agent_id", "equals", `"x"`), true},
		{cond("agent_id", "not_exists", ``), cond("agent_id", "equals", `null`), false},
		{cond("agent_id", "exists", ``), cond("agent_id", "equals", `null`), true},
		{cond(a, "in", `[1,2]`), cond(a, "in", `[3,4]`), true},
		{cond(a, "in", `[1,2]`), cond(a, "in", `[2,3]`), false},
		{cond(a, "in", `[1,2]`), cond(a, "not_in", `[2,1]`), true},
		{cond(a, "in", `[1,2]`), cond(a, "not_in", `[2]`), false},
		{cond(a, "in", `["ab","b"]`), cond(a, "starts_with", `"a"`), false},
		{cond(a, "in", `["ab","b"]`), cond(a, "starts_with", `"c"`), true},
		{cond(a, "in", `["ab","b"]`), cond(a, "matches", `"^c"`), true},
		{cond(a, "starts_with", `"ab"`), cond(a, "starts_with", `"a"`), false},
		{cond(a, "starts_with", `"ab"`), cond(a, "starts_with", `"b"`), true},
		{cond(a, "ends_with", `"ab"`), cond(a, "ends_with", `"b"`), false},
		{cond(a, "ends_with", `"ab"`), cond(a, "ends_with", `"a"`), true},
		{cond(a, "starts_with", `"abc"`), cond(a, "not_contains", `"b"`), true},
		{cond(a, "starts_with", `"abc"`), cond(a, "not_contains", `"d"`), false},
		{cond(a, "starts_with", `"abc"`), cond(a, "exists", ``), false},
		{cond(a, "contains", `"b"`), cond(a, "not_contains", `"b"`), true},
		{cond(a, "contains", `"bc"`), cond(a, "not_contains", `"b"`), false}, // an array may
		{cond(a, "contains", `1`), cond(a, "exists", ``), false},
		{cond(a, "like", `1`), cond(a, "equals", `1`), false},
		{cond(`args.a\.b`, "equals", `1`), cond(`args.a.b`, "equals", `2`), false},
	} {
		for _, pair := range [][]governance.Condition{{c.x, c.y}, {c.y, c.x}} {
			got := governance.Contradictions(pair)
			require.Equal(t, c.want, len(got) == 1, "%v", pair)
		}
	}
	got := governance.Contradictions([]governance.Condition{cond(a, "greater", "10"), cond("agent_id", "exists", ""), cond(a, "LESS", "5"), cond(a, "equals", "7")})
	require.Equal(t, []string{
		"conditions 0 and 2 can never both be true: args.a greater and less",
		"conditions 0 and 3 can never both be true: args.a greater and equals",
		"conditions 2 and 3 can never both be true: args.a less and equals",
	}, got)
}
