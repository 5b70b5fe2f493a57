package governance_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

func with(field string, op governance.Operator, other string) governance.Condition {
	return governance.Condition{Field: field, Operator: op, ValueField: other}
}

func TestLengthsAndNotMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field string
		op    governance.Operator
		value string
		args  string
		want  judged
	}{
		{"args.reason", "not_matches", `"^a+$"`, `{"reason":"b"}`, yes},
		{"args.reason", "not_matches", `"^a+$"`, `{"reason":"aa"}`, no},
		{"args.reason", "not_matches", `"^a+$"`, `{"reason":7}`, closed},
		{"args.reason", "not_matches", `"^a+$"`, `{}`, closed},
		{"args.tags", "not_matches", `"^v"`, `{"tags":["vip"]}`, closed}, // an array, not its elements
		{"args.items.sku", "not_matches", `"^v"`, `{"items":[{"sku":"v"},{"sku":"w"}]}`, some},

		{"args.reason", "length_equals", `3`, `{"reason":"äöü"}`, yes},
		{"args.reason", "length_equals", `3`, `{"reason":"\u00e4\ud83d\ude00x"}`, yes},
		{"args.reason", "length_greater", `2`, `{"reason":"ab"}`, no},
		{"args.reason", "length_less", `2`, `{"reason":""}`, yes},
		{"args.tags", "length_equals", `2`, `{"tags":["a","b"]}`, yes},
		{"args.tags", "length_less", `1`, `{"tags":[]}`, yes},
		{"args.items", "length_greater", `1`, `{"items":[{"amount":1},{"amount":2}]}`, yes},
		{"args.any", "length_equals", `2`, `{"any":{"a":1,"b":[1,2,3]}}`, yes},
		{"args.any", "length_equals", `2`, `{"any":22}`, closed},
		{"args.any", "length_equals", `2`, `{"any":null}`, closed},
		{"args.any", "length_equals", `2`, `{}`, closed},
		{"args.total", "length_equals", `2`, `{}`, no},
	} {
		require.Equal(t, c.want, judge(t, cond(c.field, c.op, c.value), refund(c.args)), "%v", c)
	}
}

func TestComparingTwoFields(t *testing.T) {
	t.Parallel()
	customer := "u1"
	for _, c := range []struct {
		field string
		op    governance.Operator
		other string
		args  string
		want  judged
	}{
		{"args.reason", "equals", "customer_id", `{"reason":"u1"}`, yes},
		{"args.reason", "equals", "customer_id", `{"reason":"u2"}`, no},
		{"args.reason", "not_equals", "customer_id", `{"reason":"u2"}`, yes},
		{"args.reason", "not_equals", "customer_id", `{}`, closed},
		{"customer_id", "equals", "args.reason", `{"reason":"u1"}`, yes},
		{"customer_id", "equals", "args.reason", `{}`, closed},
		{"args.reason", "equals", "agent_id", `{"reason":"u1"}`, closed}, // there is no agent
		{"agent_id", "equals", "session.id", `{}`, closed},               // two that are missing are not the same
		{"agent_id", "not_equals", "session.id", `{}`, closed},
		{"args.reason", "equals", "args.any", `{"reason":"1","any":1}`, closed}, // of another type
		{"args.any", "equals", "args.amount", `{"any":1.0,"amount":1e0}`, yes},  // exact
		{"args.any", "less", "args.amount", `{"any":1,"amount":2}`, yes},
		{"args.any", "greater_or_equal", "args.amount", `{"any":1,"amount":2}`, no},
		{"args.any", "less", "args.amount", `{"any":1,"amount":"2"}`, closed},
		{"args.reason", "starts_with", "customer_id", `{"reason":"u1-7"}`, yes},
		{"args.reason", "ends_with", "customer_id", `{"reason":"u1-7"}`, no},
		{"args.reason", "contains", "customer_id", `{"reason":"order of u1"}`, yes},
		{"args.tags", "contains", "customer_id", `{"tags":["u1","u2"]}`, yes},
		{"args.tags", "not_contains", "customer_id", `{"tags":["u2"]}`, yes},

		// Each value with each.
		{"args.items.sku", "equals", "customer_id", `{"items":[{"sku":"u1"},{"sku":"u1"}]}`, yes},
		{"args.items.sku", "equals", "customer_id", `{"items":[{"sku":"u1"},{"sku":"u2"}]}`, some},
		{"customer_id", "equals", "args.items.sku", `{"items":[{"sku":"u1"},{"sku":"u2"}]}`, some},
		{"customer_id", "equals", "args.items.sku", `{"items":[{"sku":"u2"},{}]}`, closed},
		{"args.items.sku", "not_equals", "args.items.sku", `{"items":[{"sku":"u1"},{"sku":"u1"}]}`, no},

		{"args.tags", "length_equals", "args.items", `{"tags":["a","b"],"items":[{},{}]}`, yes},
		{"args.tags", "length_equals", "args.items", `{"tags":["a"],"items":[{},{}]}`, no},
		{"args.tags", "length_less", "args.items", `{"tags":["a"],"items":[{},{}]}`, yes},
		{"args.tags", "length_equals", "args.items", `{"tags":["a"]}`, closed},
		{"args.tags", "length_equals", "args.items", `{"items":[]}`, closed},
		{"args.tags", "length_equals", "args.amount", `{"tags":["a"],"amount":1}`, closed},
		{"args.reason", "length_equals", "args.tags", `{"reason":"ab","tags":["a","b"]}`, yes},

		// The schema does not have the argument: it is judged only if the call has it.
		{"args.total", "equals", "customer_id", `{}`, no},
		{"args.total", "equals", "customer_id", `{"total":"u1"}`, yes},
		{"customer_id", "equals", "args.total", `{}`, closed},
	} {
		call := refund(c.args)
		call.Context.CustomerID = &customer
		require.Equal(t, c.want, judge(t, with(c.field, c.op, c.other), call), "%v", c)
	}
}

func TestComparisonsOfFieldsAreChecked(t *testing.T) {
	t.Parallel()
	value := with("args.a", "equals", "args.b")
	value.Value = json.RawMessage(`1`)
	for path, c := range map[string]governance.Condition{
		"/c/0/value_field":      with("args.a", "in", "args.b"),
		"/c/1/value_field":      with("args.a", "matches", "args.b"),
		"/c/2/value_field":      with("args.a", "exists", "args.b"),
		"/c/3/value_field":      with("args.a", "equals", "user.id"),
		"/c/4/value_field":      value,
		"/c/5/zone":             {Field: "args.a", Operator: "exists", Zone: "UTC"},
		"/c/6/zone":             {Field: "time.hour", Operator: "less", Value: json.RawMessage(`9`), Zone: "Europe/Atlantis"},
		"/c/7/zone":             {Field: "time.hour", Operator: "less", Value: json.RawMessage(`9`), Zone: "Local"},
		"/c/8/zone":             {Field: "time.hour", Operator: "less", Value: json.RawMessage(`9`), Zone: "../../etc/passwd"},
		"/c/9/value":            cond("time.weekday", "in", `["monday","Sunday"]`),
		"/c/10/value":           cond("time.hour", "equals", `"9"`),
		"/c/11/value":           cond("risk_level", "equals", `"severe"`),
		"/c/12/value":           cond("dry_run", "equals", `1`),
		"/c/13/value":           cond("args.a", "length_equals", `-1`),
		"/c/14/value":           cond("args.a", "length_equals", `1.5`),
		"/c/15/value":           cond("args.a", "length_less", `1e3`),
		"/c/16/value":           cond("args.a", "length_less", `"3"`),
		"/c/17/value":           cond("args.a", "not_matches", `"("`),
		"/c/18/field":           cond("metadata", "exists", ``),
		"/c/19/field":           cond("agent.tools", "exists", ``),
		"/c/20/value":           cond("args.a", "length_equals", ``),
		"/c/21":                 {Field: "", ValueField: "args.b", Not: &governance.Condition{Field: "args.a", Operator: "exists"}},
		"/c/22/not/value_field": not(with("args.a", "not_in", "args.b")),
	} {
		list := make([]governance.Condition, 0, 23)
		var at int
		for _, digit := range strings.Split(path, "/")[2] {
			at = at*10 + int(digit-'0')
		}
		for range at {
			list = append(list, cond("args.a", "exists", ""))
		}
		require.Equal(t, []string{path}, paths(governance.CheckConditions("/c", append(list, c))))
	}
}

// A condition on the mode is true of agents of this mode only, and of no call without an agent.
func TestConditionOnTheModeOfAnAgent(t *testing.T) {
	t.Parallel()
	modes := []string{"conversational", "workflow_only", "goal"}
	for _, asked := range modes {
		is := cond("agent.executionMode", "equals", `"`+asked+`"`)
		for _, mode := range modes {
			call := refund(`{}`)
			call.Context = governance.Context{Agent: json.RawMessage(`{"name":"Support","version":3,"executionMode":"` + mode + `"}`)}
			require.Equal(t, mode == asked, judge(t, is, call) == yes, "%s of %s", asked, mode)
		}
		require.NotEqual(t, yes, judge(t, is, refund(`{}`)), asked)
	}
}

func TestFieldsOfACall(t *testing.T) {
	t.Parallel()
	session, key, agent, word, ours, yesDry := "s-1", "0199a1ef-7c20-7a11-8f00-5d9e2b6c1a40", "a-1", "any", "m-1", true
	call := refund(`{}`)
	call.Context = governance.Context{
		SessionID: &session, KeyID: &key, AgentID: &word, OwnAgentID: &agent, MapID: &ours, DryRun: &yesDry, Metadata: json.RawMessage(`{"channel":"chat","tags":["a","b"],"order":{"n":12345678901234567890}}`),
		Agent: json.RawMessage(`{"name":"Support","version":3,"executionMode":"goal"}`),
		Now:   time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC), // a Sunday; in Berlin it is Monday
	}
	at := func(field, op, value, zone string) governance.Condition {
		c := cond(field, governance.Operator(op), value)
		c.Zone = zone
		return c
	}
	for _, c := range []governance.Condition{
		cond("verb", "equals", `"stripe:create_refund"`), cond("provider", "in", `["stripe"]`), cond("risk_level", "equals", `"low"`),
		cond("operation_type", "not_equals", `"read"`), cond("domain", "starts_with", `"pay"`), cond("session.id", "equals", `"s-1"`),
		cond("key.id", "exists", ``), cond("agent.id", "equals", `"a-1"`), cond("agent_id", "equals", `"any"`), cond("map_id", "equals", `"m-1"`), cond("agent.name", "matches", `"(?i)^support$"`),
		cond("agent.version", "less", `4`), cond("agent.executionMode", "equals", `"goal"`), cond("dry_run", "equals", `true`),
		cond("metadata.channel", "equals", `"chat"`), cond("metadata.tags", "contains", `"b"`), cond("metadata.order.n", "equals", `12345678901234567890`),
		cond("metadata.none", "equals", `null`), cond("metadata.none", "not_exists", ``), cond("metadata.tags", "length_equals", `2`),
		at("time.hour", "equals", `23`, ""), at("time.hour", "equals", `0`, "Europe/Berlin"), at("time.hour", "less", `6`, "Asia/Kolkata"),
		at("time.weekday", "equals", `"sunday"`, "UTC"), at("time.weekday", "in", `["monday","tuesday"]`, "Europe/Berlin"),
		at("time.weekday", "equals", `"sunday"`, "America/Los_Angeles"),
	} {
		require.Equal(t, yes, judge(t, c, call), "%v", c)
	}
	bare := refund(`{}`)
	for _, field := range []string{"session.id", "key.id", "agent.id", "map_id", "agent.name", "agent.version", "dry_run", "metadata.channel", "time.hour", "time.weekday"} {
		require.Equal(t, yes, judge(t, cond(field, "equals", `null`), bare), field)
		require.Equal(t, yes, judge(t, cond(field, "not_exists", ``), bare), field)
	}
	require.Equal(t, closed, judge(t, cond("time.hour", "less", `9`), bare))
}

// Of two fields that are compared, those who see one may know the other.
func TestComparisonsWithSecretsAreMasked(t *testing.T) {
	t.Parallel()
	call := refund(`{"pass":"hunter2","reason":"hunter2"}`)
	call.Masked = func() json.RawMessage { return json.RawMessage(`{"pass":"[masked]","reason":"hunter2"}`) }
	call.Context.Metadata = json.RawMessage(`{"note":"private"}`)
	v := governance.Compile(1, []governance.Policy{policy("p", block, with("args.reason", "equals", "args.pass"), with("args.pass", "equals", "args.reason"), cond("metadata.note", "equals", `"private"`))}).Evaluate(call)
	require.Equal(t, governance.Block, v.Decision)
	for _, m := range v.Matches[0].Conditions[:2] {
		require.JSONEq(t, `"[masked]"`, string(m.Actual))
		require.JSONEq(t, `"[masked]"`, string(m.Value))
	}
	require.NotContains(t, string(v.Matches[0].Conditions[2].Actual), "private")
	require.NotContains(t, v.Reason, "hunter2")
	require.Contains(t, v.Reason, "args.reason equals the field args.pass and ")

	plain := refund(`{"reason":"a","any":"a"}`)
	v = governance.Compile(1, []governance.Policy{policy("p", block, with("args.reason", "equals", "args.any"))}).Evaluate(plain)
	require.JSONEq(t, `"a"`, string(v.Matches[0].Conditions[0].Value))
	require.Equal(t, "args.any", v.Matches[0].Conditions[0].ValueField)
}

// Each value is compared with each, and the work for one decision bounds that.
func TestComparingManyValuesIsBounded(t *testing.T) {
	t.Parallel()
	many := `{"items":[` + strings.Repeat(`{"sku":"a"},`, 20_000) + `{"sku":"a"}]}`
	var list []governance.Policy
	for _, name := range []string{"a", "b", "c"} {
		list = append(list, policy(name, block, with("args.items.sku", "not_equals", "args.items.sku")))
	}
	v := governance.Compile(1, list).Evaluate(refund(many))
	require.Equal(t, governance.Block, v.Decision, "what takes too much work counts on the stricter side")
	require.Equal(t, "too much work to judge", v.Matches[0].Conditions[0].FailClosed)
}

func TestContradictionsOfLengths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b governance.Condition
		want bool
	}{
		{cond("args.a", "length_equals", `2`), cond("args.a", "length_equals", `3`), true},
		{cond("args.a", "length_equals", `2`), cond("args.a", "length_greater", `2`), true},
		{cond("args.a", "length_greater", `5`), cond("args.a", "length_less", `5`), true},
		{cond("args.a", "length_greater", `5`), cond("args.a", "length_less", `50`), false},
		{cond("args.a", "equals", `"abc"`), cond("args.a", "length_greater", `3`), true},
		{cond("args.a", "matches", `"^a"`), cond("args.a", "not_matches", `"^a"`), true},
		{cond("args.a", "matches", `"^a"`), cond("args.a", "not_matches", `"^b"`), false},
		{with("args.a", "equals", "args.b"), with("args.a", "not_equals", "args.b"), false},
	} {
		require.Equal(t, c.want, len(governance.Contradictions([]governance.Condition{c.a, c.b})) == 1, "%v", c)
		require.Equal(t, c.want, len(governance.Contradictions([]governance.Condition{c.b, c.a})) == 1, "%v", c)
	}
}
