package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"
)

type cedarEngine struct {
	policies *cedar.PolicySet
	actions  map[cedar.PolicyID]string
	requests []cedar.Request
	entities cedar.EntityMap
	risks    []string
}

// newCedar writes each policy as one that permits: of those the answer names all that
// match, and the strictest is chosen from their actions.
func newCedar(s set) (*cedarEngine, error) {
	e := &cedarEngine{policies: cedar.NewPolicySet(), actions: map[cedar.PolicyID]string{}, entities: cedar.EntityMap{}}
	for i, p := range s.policies {
		var one cedar.Policy
		if err := one.UnmarshalCedar([]byte(cedarText(p))); err != nil {
			return nil, fmt.Errorf("cedar: %w in %s", err, cedarText(p))
		}
		id := cedar.PolicyID(fmt.Sprintf("policy%d", i))
		e.policies.Add(id, &one)
		e.actions[id] = p.action
	}
	for _, c := range s.calls {
		args := cedar.RecordMap{}
		if c.amount != nil {
			args["amount"] = cedar.Long(*c.amount)
		}
		if c.limit != nil {
			args["limit"] = cedar.Long(*c.limit)
		}
		if c.country != nil {
			args["customer"] = cedar.NewRecord(cedar.RecordMap{"country": cedar.String(*c.country)})
		}
		if c.note != nil {
			args["note"] = cedar.String(*c.note)
		}
		if c.items != nil {
			var items []cedar.Value
			for _, item := range *c.items {
				items = append(items, cedar.String(item))
			}
			args["items"] = cedar.NewSet(items...)
		}
		e.requests = append(e.requests, cedar.Request{
			Principal: cedar.NewEntityUID("Tenant", "t"), Action: cedar.NewEntityUID("Action", cedar.String(c.verb())),
			Resource: cedar.NewEntityUID("Provider", cedar.String(c.provider)),
			Context: cedar.NewRecord(cedar.RecordMap{
				"verb": cedar.String(c.verb()), "risk": cedar.String(c.risk), "args": cedar.NewRecord(args), "now": cedar.NewDatetime(c.at),
			}),
		})
		e.risks = append(e.risks, c.risk)
	}
	return e, nil
}

func cedarText(p policy) string {
	action, resource := "action", "resource"
	var when []string
	switch {
	case p.verb != "":
		action = fmt.Sprintf("action == Action::%q", p.verb)
	case p.provider != "":
		resource = fmt.Sprintf("resource == Provider::%q", p.provider)
		if p.risk != "" {
			when = append(when, fmt.Sprintf("context.risk == %q", p.risk))
		}
		if p.except != "" {
			when = append(when, fmt.Sprintf("!(context.verb like %q)", p.provider+":"+p.except+"*"))
		}
	case p.risk != "":
		when = append(when, fmt.Sprintf("context.risk == %q", p.risk))
	default:
		when = append(when, fmt.Sprintf("context.verb like %q", "*:"+p.part+"*"))
	}
	for _, c := range p.where {
		when = append(when, cedarCondition(c, p.action != "allow"))
	}
	return fmt.Sprintf("permit (principal, %s, %s) when { %s };", action, resource, strings.Join(when, " && "))
}

// cedarCondition writes a condition. Where strict, a test is true too where the call lacks its field.
func cedarCondition(c condition, strict bool) string {
	join := func(list []condition, and string) string {
		var parts []string
		for _, one := range list {
			parts = append(parts, cedarCondition(one, strict))
		}
		return "(" + strings.Join(parts, and) + ")"
	}
	test := func(has, test string) string {
		if strict {
			return fmt.Sprintf("(!(%s) || %s)", has, test)
		}
		return fmt.Sprintf("(%s && %s)", has, test)
	}
	switch {
	case c.any != nil:
		return join(c.any, " || ")
	case c.all != nil:
		return join(c.all, " && ")
	case c.not != nil:
		return "!" + cedarCondition(*c.not, !strict)
	case c.over > 0:
		return test("context.args has amount", fmt.Sprintf("context.args.amount > %d", c.over))
	case c.beyond:
		return test("context.args has amount && context.args has limit", "context.args.amount > context.args.limit")
	case c.in != nil:
		return test("context.args has customer && context.args.customer has country",
			fmt.Sprintf("[\"%s\"].contains(context.args.customer.country)", strings.Join(c.in, `", "`)))
	case c.prefix != "":
		return test("context.args has note", fmt.Sprintf("context.args.note like %q", c.prefix+"*"))
	case c.unlike != "":
		return test("context.args has note", fmt.Sprintf("!(context.args.note like %q)", c.unlike+"*"))
	case c.from > 0:
		return fmt.Sprintf("(context.now.toTime() >= duration(\"%dh\"))", c.from)
	default:
		return test("context.args has items", "!(context.args.items.isEmpty())")
	}
}

func (*cedarEngine) name() string { return "cedar" }

func (e *cedarEngine) decide(i int) (string, error) {
	_, why := cedar.Authorize(e.policies, e.entities, e.requests[i])
	if len(why.Errors) > 0 {
		return "", errors.New(why.Errors[0].Message)
	}
	return strictest(e.risks[i], func(action string) bool {
		for _, r := range why.Reasons {
			if e.actions[r.PolicyID] == action {
				return true
			}
		}
		return false
	}), nil
}
