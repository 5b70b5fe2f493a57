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
		e.requests = append(e.requests, cedar.Request{
			Principal: cedar.NewEntityUID("Tenant", "t"), Action: cedar.NewEntityUID("Action", cedar.String(c.verb())),
			Resource: cedar.NewEntityUID("Provider", cedar.String(c.provider)),
			Context: cedar.NewRecord(cedar.RecordMap{
				"verb": cedar.String(c.verb()), "risk": cedar.String(c.risk), "args": cedar.NewRecord(args),
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
	// A condition holds too where the call lacks its field, unless the policy allows.
	var asked []string
	ask := func(has, test string) {
		if p.action == "allow" {
			asked = append(asked, fmt.Sprintf("(%s && %s)", has, test))
			return
		}
		asked = append(asked, fmt.Sprintf("(!(%s) || %s)", has, test))
	}
	if p.over > 0 {
		ask("context.args has amount", fmt.Sprintf("context.args.amount > %d", p.over))
	}
	if p.in != nil {
		ask("context.args has customer && context.args.customer has country",
			fmt.Sprintf("[\"%s\"].contains(context.args.customer.country)", strings.Join(p.in, `", "`)))
	}
	if p.beyond {
		ask("context.args has amount && context.args has limit", "context.args.amount > context.args.limit")
	}
	if p.outside != nil {
		ask("context.args has customer && context.args.customer has country",
			fmt.Sprintf("!([\"%s\"].contains(context.args.customer.country))", strings.Join(p.outside, `", "`)))
	}
	if p.unlike != "" {
		ask("context.args has note", fmt.Sprintf("!(context.args.note like %q)", p.unlike+"*"))
	}
	if p.prefix != "" {
		ask("context.args has note", fmt.Sprintf("context.args.note like %q", p.prefix+"*"))
	}
	if p.either {
		asked = []string{"(" + strings.Join(asked, " || ") + ")"}
	}
	when = append(when, asked...)
	return fmt.Sprintf("permit (principal, %s, %s) when { %s };", action, resource, strings.Join(when, " && "))
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
