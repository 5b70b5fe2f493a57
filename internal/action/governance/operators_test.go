package governance_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

// refundSchema is the schema of the verb that the tests call.
const refundSchema = `{"type":"object","properties":{
  "amount":{"type":"number"}, "reason":{"type":"string"}, "dry":{"type":"boolean"}, "any":{},
  "tags":{"type":"array","items":{"type":"string"}},
  "customer":{"type":"object","properties":{"address":{"type":"object","properties":{"country":{"type":"string"}}}}},
  "items":{"type":"array","items":{"type":"object","properties":{"amount":{"type":"number"},"sku":{"type":"string"}}}},
  "a.b":{"type":"string"},
  "pass":{"type":"string","format":"password"}
}}`

func refund(args string) governance.Call {
	return governance.Call{
		Verb: verb.Name{Provider: "stripe", Verb: "create_refund"}, Domain: "payments", Risk: verb.RiskLow, Operation: verb.Write,
		Args: json.RawMessage(args), Fields: governance.NewFields(json.RawMessage(refundSchema)),
		Masked: func() json.RawMessage { return json.RawMessage(args) },
	}
}

func policy(name string, action governance.Action, conditions ...governance.Condition) governance.Policy {
	return governance.Policy{
		ID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)), Version: 1, Name: name, Enabled: true, Mode: governance.Enforce,
		Action: action, Conditions: conditions, Approval: governance.DefaultApproval(),
	}
}

func cond(field string, op governance.Operator, value string) governance.Condition {
	return governance.Condition{Field: field, Operator: op, Value: json.RawMessage(value)}
}

// judged is the result of a condition for policies that block and for those that allow.
type judged struct {
	blocks, allows bool
	unsure         bool // because it cannot be judged
}

var (
	yes    = judged{blocks: true, allows: true}
	no     = judged{}
	some   = judged{blocks: true}               // some elements of an array, not each
	closed = judged{blocks: true, unsure: true} // it cannot be judged: the stricter side
)

func judge(t *testing.T, c governance.Condition, call governance.Call) judged {
	t.Helper()
	block := governance.Compile(1, []governance.Policy{policy("b", governance.ActionBlock, c)}).Evaluate(call)
	allow := governance.Compile(1, []governance.Policy{policy("a", governance.ActionAllow, c)}).Evaluate(call)
	require.NotContains(t, block.Reason, "cannot be read, so")
	got := judged{blocks: block.Decision == governance.Block, allows: len(allow.Matches) == 1}
	got.unsure = got.blocks && block.Matches[0].Conditions[0].FailClosed != ""
	conditions, err := governance.CompileConditions([]governance.Condition{c})
	require.NoError(t, err)
	require.Equal(t, got.allows, conditions.Met(call, governance.NewWork()), "a grant lets through what an allow does")
	return got
}

func TestOperators(t *testing.T) {
	t.Parallel()
	const digits30 = "123456789012345678901234567890"
	for _, c := range []struct {
		field string
		op    governance.Operator
		value string
		args  string
		want  judged
	}{
		// Numbers are exact decimals.
		{"args.amount", "greater", "10", `{"amount":11}`, yes},
		{"args.amount", "greater", "10", `{"amount":10}`, no},
		{"args.amount", "greater", "10", `{"amount":10.00000000000000000000000001}`, yes},
		{"args.amount", "greater", digits30, `{"amount":` + digits30 + `.1}`, yes},
		{"args.amount", "greater", digits30, `{"amount":123456789012345678901234567889}`, no},
		{"args.amount", "equals", digits30, `{"amount":123456789012345678901234567891}`, no},
		{"args.amount", "equals", digits30, `{"amount":` + digits30 + `.0}`, yes},
		{"args.amount", "greater", "9007199254740992", `{"amount":9007199254740993}`, yes},
		{"args.amount", "equals", "0.3", `{"amount":0.30}`, yes},
		{"args.amount", "equals", "1", `{"amount":1.0}`, yes},
		{"args.amount", "equals", "1e2", `{"amount":100}`, yes},
		{"args.amount", "equals", "100", `{"amount":1E+2}`, yes},
		{"args.amount", "equals", "0", `{"amount":-0.0}`, yes},
		{"args.amount", "less", "0", `{"amount":-1}`, yes},
		{"args.amount", "less", "-5", `{"amount":-6}`, yes},
		{"args.amount", "less", "-5", `{"amount":-4}`, no},
		{"args.amount", "greater", "10", `{"amount":-11}`, no},
		{"args.amount", "greater", "1e399", `{"amount":1e400}`, yes},
		{"args.amount", "less", "1e-399", `{"amount":1e-400}`, yes},
		{"args.amount", "greater_or_equal", "10", `{"amount":10.0}`, yes},
		{"args.amount", "greater_or_equal", "10", `{"amount":9.99}`, no},
		{"args.amount", "less_or_equal", "10", `{"amount":10}`, yes},
		{"args.amount", "less_or_equal", "10", `{"amount":10.01}`, no},
		{"args.amount", "not_equals", "10", `{"amount":10.0}`, no},
		{"args.amount", "not_equals", "10", `{"amount":11}`, yes},

		// A whole name of a verb has one spelling. A part of one, and a regular expression, are no name.
		{"verb", "equals", `"STRIPE__Create_Refund"`, `{}`, yes},
		{"verb", "in", `["stripe__create_refund"]`, `{}`, yes},
		{"verb", "not_equals", `"Stripe:create_refund"`, `{}`, no},
		{"provider", "not_in", `["STRIPE"]`, `{}`, no},
		{"verb", "matches", `"^stripe:\\S*_refund$"`, `{}`, yes},
		{"verb", "matches", `"\\D\\W\\D"`, `{}`, yes},
		{"verb", "not_matches", `"^[^A-Z]+$"`, `{}`, no},
		{"verb", "contains", `"__"`, `{}`, no},
		{"verb", "ends_with", `"_refund"`, `{}`, yes},
		{"verb", "starts_with", `"stripe:create__"`, `{}`, no},

		// What is not a number cannot be judged.
		{"args.amount", "greater", "10", `{"amount":"5000"}`, closed},
		{"args.amount", "greater", "10", `{"amount":"NaN"}`, closed},
		{"args.amount", "greater", "10", `{"amount":null}`, closed},
		{"args.amount", "greater", "10", `{"amount":true}`, closed},
		{"args.amount", "greater", "10", `{"amount":[5000]}`, closed},
		{"args.amount", "greater", "10", `{"amount":{"value":5000}}`, closed},
		{"args.amount", "greater", "10", `{}`, closed},
		{"args.amount", "greater", "10", ``, closed},
		{"args.amount", "greater", "10", `null`, closed},
		{"args.amount", "greater", "10", `[{"amount":5}]`, no}, // each element is looked at; the schema check refuses the call
		{"args.amount", "greater", "10", `{"amount":NaN}`, closed},
		{"args.amount", "greater", "10", `{"amount":1e99999999999}`, closed},
		{"args.amount", "greater", "10", `{"amount":` + strings.Repeat("1", 65) + `}`, closed},
		{"args.amount", "less", "10", `{"Amount":5}`, some},
		{"args.amount", "not_equals", "10", `{"amount":"10"}`, closed},
		{"args.amount", "not_in", "[10]", `{"amount":"10"}`, closed},
		{"args.amount", "equals", `"5000"`, `{"amount":"5000"}`, closed}, // the schema says number

		// A field that the schema does not have is judged only if the call has it.
		{"args.total", "greater", "10", `{}`, no},
		{"args.total", "greater", "10", `{"total":11}`, yes},
		{"args.total", "greater", "10", `{"total":"11"}`, closed},
		{"args.total", "not_equals", "10", `{}`, no},
		{"args.total", "not_in", "[1]", `{}`, no},
		{"args.total", "not_contains", `"x"`, `{}`, no},

		// Strings are compared byte by byte.
		{"args.reason", "equals", `"fraud"`, `{"reason":"fraud"}`, yes},
		{"args.reason", "equals", `"fraud"`, `{"reason":"Fraud"}`, no},
		{"args.reason", "equals", `"fraud"`, `{"reason":"\u0066raud"}`, yes},
		{"args.reason", "equals", `"fraud"`, `{"re\u0061son":"fraud"}`, yes},
		{"args.reason", "equals", `"a\"b"`, `{"reason":"a\u0022b"}`, yes},
		{"args.reason", "equals", `"😀"`, `{"reason":"\ud83d\ude00"}`, yes},
		{"args.reason", "equals", `"fraud"`, `{"reason":"fr` + "\u0430" + `ud"}`, no}, // Cyrillic
		{"args.reason", "equals", `"a:b"`, `{"reason":"a` + "\uff1a" + `b"}`, no},
		{"args.reason", "not_equals", `"fraud"`, `{"reason":"Fraud"}`, yes},
		{"args.reason", "equals", `"1"`, `{"reason":1}`, closed},
		{"args.reason", "contains", `"drop"`, `{"reason":"a drop of"}`, yes},
		{"args.reason", "contains", `"drop"`, `{"reason":"a DROP of"}`, no},
		{"args.reason", "contains", `"drop"`, `{"reason":null}`, closed},
		{"args.reason", "contains", `"drop"`, `{"reason":["drop"]}`, closed},
		{"args.reason", "not_contains", `"drop"`, `{"reason":["drop table"]}`, closed},
		{"args.reason", "not_contains", `"drop"`, `{"reason":"fine"}`, yes},
		{"args.reason", "not_contains", `"drop"`, `{"reason":"a drop"}`, no},
		{"args.reason", "starts_with", `"re:"`, `{"reason":"re: x"}`, yes},
		{"args.reason", "starts_with", `"re:"`, `{"reason":"x re:"}`, no},
		{"args.reason", "ends_with", `".test"`, `{"reason":"a.test"}`, yes},
		{"args.reason", "ends_with", `".test"`, `{"reason":".testa"}`, no},
		{"args.reason", "starts_with", `"1"`, `{"reason":12}`, closed},
		{"args.reason", "matches", `"^[a-z]+$"`, `{"reason":"abc"}`, yes},
		{"args.reason", "matches", `"^[a-z]+$"`, `{"reason":"aBc"}`, no},
		{"args.reason", "matches", `"b"`, `{"reason":"abc"}`, yes},
		{"args.reason", "matches", `"(?i)B"`, `{"reason":"abc"}`, yes},
		{"args.reason", "matches", `"b"`, `{"reason":7}`, closed},
		{"args.reason", "matches", `"b"`, `{"reason":"` + strings.Repeat("a", 70000) + `"}`, closed},
		{"args.any", "equals", `true`, `{"any":true}`, yes},
		{"args.any", "equals", `true`, `{"any":"true"}`, closed},
		{"args.dry", "equals", `true`, `{"dry":false}`, no},
		{"args.dry", "not_equals", `true`, `{"dry":false}`, yes},

		// Lists.
		{"args.reason", "in", `["a","b"]`, `{"reason":"b"}`, yes},
		{"args.reason", "in", `["a","b"]`, `{"reason":"c"}`, no},
		{"args.reason", "in", `["a",null]`, `{"reason":null}`, closed}, // the schema says string
		{"args.any", "in", `["a",null]`, `{"any":null}`, yes},
		{"args.any", "in", `[null]`, `{"any":1}`, no},
		{"args.any", "in", `["a",1]`, `{"any":1.0}`, yes},
		{"args.any", "in", `["a",1]`, `{"any":true}`, closed},
		{"args.any", "not_in", `["a",1]`, `{"any":2}`, yes},
		{"args.any", "not_in", `["a",1]`, `{"any":"a"}`, no},
		{"args.any", "not_in", `["a",1]`, `{"any":["a"]}`, closed},
		{"args.tags", "contains", `"vip"`, `{"tags":["a","vip"]}`, yes},
		{"args.tags", "contains", `"vip"`, `{"tags":["a","VIP"]}`, no},
		{"args.tags", "contains", `"vip"`, `{"tags":[]}`, no},
		{"args.tags", "contains", `"vip"`, `{"tags":[1]}`, closed},
		{"args.tags", "contains", `"vip"`, `{"tags":["v\u0069p"]}`, yes},
		{"args.tags", "not_contains", `"vip"`, `{"tags":["a"]}`, yes},
		{"args.tags", "not_contains", `"vip"`, `{"tags":[["vip"]]}`, closed},
		{"args.any", "contains", `1`, `{"any":[2,1.0]}`, yes},
		{"args.any", "contains", `1`, `{"any":"1"}`, closed},
		{"args.tags", "equals", `"vip"`, `{"tags":["vip"]}`, closed},

		// null.
		{"args.any", "equals", `null`, `{"any":null}`, yes},
		{"args.any", "equals", `null`, `{"any":"x"}`, no},
		{"args.any", "not_equals", `null`, `{"any":0}`, yes},
		{"args.any", "equals", `"x"`, `{"any":null}`, closed},
		{"args.any", "equals", `null`, `{}`, closed},

		// exists and not_exists mean what they say, known to the schema or not.
		{"args.amount", "exists", ``, `{"amount":"x"}`, yes},
		{"args.amount", "exists", `"ignored"`, `{"amount":null}`, yes},
		{"args.amount", "exists", ``, `{}`, no},
		{"args.amount", "not_exists", ``, `{}`, yes},
		{"args.amount", "not_exists", ``, `{"amount":null}`, no},
		{"args.total", "not_exists", ``, `{}`, yes},
		{"args.amount", "exists", ``, `{"amount`, closed},

		// Paths.
		{"args.customer.address.country", "equals", `"KP"`, `{"customer":{"address":{"country":"KP"}}}`, yes},
		{"args.customer.address.country", "equals", `"KP"`, `{"customer":{"address":{}}}`, closed},
		{"args.customer.address.country", "equals", `"KP"`, `{"customer":"KP"}`, closed},
		{"args.customer.address.zip", "equals", `"1"`, `{"customer":{}}`, no},
		{"args.items.0.amount", "greater", `10`, `{"items":[{"amount":11},{"amount":1}]}`, yes},
		{"args.items.1.amount", "greater", `10`, `{"items":[{"amount":11},{"amount":1}]}`, no},
		{"args.items.2.amount", "greater", `10`, `{"items":[{"amount":11},{"amount":1}]}`, closed},
		{`args.a\.b`, "equals", `"x"`, `{"a.b":"x"}`, yes},
		{`args.a\.b`, "equals", `"x"`, `{"a":{"b":"x"}}`, closed},
		{`args.a.b`, "equals", `"x"`, `{"a.b":"x"}`, no},
		{`args.c\\d`, "equals", `"x"`, `{"c\\d":"x"}`, yes},
		{"args.0", "equals", `"x"`, `{"0":"x"}`, yes},

		// An array where a name is expected: any element for block, each for allow.
		{"args.items.amount", "greater", `10`, `{"items":[{"amount":1},{"amount":11}]}`, some},
		{"args.items.amount", "greater", `10`, `{"items":[{"amount":12},{"amount":11}]}`, yes},
		{"args.items.amount", "greater", `10`, `{"items":[{"amount":1},{"amount":2}]}`, no},
		{"args.items.amount", "greater", `10`, `{"items":[{"amount":1},{"amount":"2"}]}`, closed},
		{"args.items.amount", "greater", `10`, `{"items":[{"amount":1},{}]}`, closed},
		{"args.items.amount", "greater", `10`, `{"items":[{"amount":1},5]}`, closed},
		{"args.items.amount", "greater", `10`, `{"items":[]}`, closed},
		{"args.items.amount", "greater", `10`, `{"items":[[{"amount":11}]]}`, yes},
		{"args.items.colour", "equals", `"red"`, `{"items":[]}`, no},
		{"args.items.colour", "equals", `"red"`, `{"items":[{"colour":"red"},{}]}`, some},
		{"args.items.sku", "exists", ``, `{"items":[{"sku":"a"},{}]}`, some},
		{"args.items.sku", "not_exists", ``, `{"items":[{"sku":"a"},{}]}`, some},
		{"args.items.sku", "exists", ``, `{"items":[]}`, no},
		{"args.items.sku", "not_exists", ``, `{"items":[]}`, yes},
	} {
		require.Equal(t, c.want, judge(t, cond(c.field, c.op, c.value), refund(c.args)), "%v", c)
	}
}
