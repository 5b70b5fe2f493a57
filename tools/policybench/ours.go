package main

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
)

type ours struct {
	set   *governance.Set
	calls []governance.Call
}

func newOurs(s set) *ours {
	var list []governance.Policy
	for i, p := range s.policies {
		one := governance.Policy{
			ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)), Version: 1, Name: fmt.Sprintf("policy %d", i), Enabled: true,
			Mode: governance.Enforce, Action: governance.Action(p.action), Approval: governance.DefaultApproval(),
		}
		switch {
		case p.verb != "":
			one.Matchers = []governance.Matcher{{Type: governance.MatchVerb, Value: p.verb}}
		case p.provider != "":
			one.Matchers = []governance.Matcher{{Provider: p.provider, Risk: p.risk}}
			if p.except != "" {
				one.Match.Except = []governance.Matcher{{Verb: p.provider + ":" + p.except + "*"}}
			}
		case p.risk != "":
			one.Matchers = []governance.Matcher{{Type: governance.MatchRisk, Value: p.risk}}
		default:
			one.Matchers = []governance.Matcher{{Type: governance.MatchVerb, Value: "*:" + p.part + "*"}}
		}
		one.Conditions = groups(p.where)
		list = append(list, one)
	}
	o := &ours{set: governance.Compile(1, list)}
	fields := governance.NewFields(json.RawMessage(schema))
	for _, c := range s.calls {
		args := c.args()
		o.calls = append(o.calls, governance.Call{
			Verb: verb.Name{Provider: c.provider, Verb: c.name}, Risk: verb.Risk(c.risk), Operation: verb.Write, Args: args,
			Fields: fields, Masked: func() json.RawMessage { return args }, Context: governance.Context{Now: c.at},
		})
	}
	return o
}

func groups(list []condition) []governance.Condition {
	var out []governance.Condition
	for _, c := range list {
		out = append(out, group(c))
	}
	return out
}

func group(c condition) governance.Condition {
	switch {
	case c.any != nil:
		return governance.Condition{Any: groups(c.any)}
	case c.all != nil:
		return governance.Condition{All: groups(c.all)}
	case c.not != nil:
		one := group(*c.not)
		return governance.Condition{Not: &one}
	case c.over > 0:
		return test("args.amount", governance.OpGreater, c.over)
	case c.beyond:
		return governance.Condition{Field: "args.amount", Operator: governance.OpGreater, ValueField: "args.limit"}
	case c.in != nil:
		return test("args.customer.country", governance.OpIn, c.in)
	case c.prefix != "":
		return test("args.note", governance.OpStartsWith, c.prefix)
	case c.unlike != "":
		return test("args.note", governance.OpNotMatches, "^"+c.unlike)
	case c.from > 0:
		return test("time.hour", governance.OpGreaterOrEqual, c.from)
	default:
		return test("args.items", governance.OpLengthGreater, 0)
	}
}

func test(field string, op governance.Operator, value any) governance.Condition {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings and numbers
	}
	return governance.Condition{Field: field, Operator: op, Value: text}
}

func (*ours) name() string { return "ours" }

func (o *ours) decide(i int) (string, error) { return string(o.set.Decide(o.calls[i]).Decision), nil }

// withReasons is ours with what runs get: the reason of the decision, and each policy that matched
// with its conditions and masked values.
type withReasons struct{ *ours }

func (withReasons) name() string { return "ours, with reasons" }

func (o withReasons) decide(i int) (string, error) {
	return string(o.set.Evaluate(o.calls[i]).Decision), nil
}
