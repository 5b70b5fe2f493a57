package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

type opa struct {
	ctx    context.Context //nolint:containedctx // of the whole run
	query  rego.PreparedEvalQuery
	inputs []ast.Value
}

// header decides by the set of actions that match, as strictest does.
const header = `package tenant

default decision := "allow"

decision := "block" if {
	"block" in actions
} else := "pending_approval" if {
	"require_approval" in actions
} else := "block" if {
	input.risk == "high"
}
`

func newOPA(ctx context.Context, s set) (*opa, error) {
	var b strings.Builder
	b.WriteString(header)
	for _, p := range s.policies {
		bodies := []policy{p}
		if p.either { // each rule of a set adds to it
			bodies = []policy{p, p}
			bodies[0].in, bodies[1].over = nil, 0
		}
		for _, one := range bodies {
			fmt.Fprintf(&b, "\nactions contains %q if {\n%s}\n", one.action, regoBody(one))
		}
	}
	query, err := rego.New(rego.Query("data.tenant.decision"), rego.Module("tenant.rego", b.String())).PrepareForEval(ctx)
	if err != nil {
		return nil, fmt.Errorf("opa: %w", err)
	}
	o := &opa{ctx: ctx, query: query}
	for _, c := range s.calls {
		var args any
		if err := json.Unmarshal(c.args(), &args); err != nil {
			return nil, fmt.Errorf("opa: %w", err)
		}
		v, err := ast.InterfaceToValue(map[string]any{"verb": c.verb(), "provider": c.provider, "risk": c.risk, "args": args})
		if err != nil {
			return nil, fmt.Errorf("opa: %w", err)
		}
		o.inputs = append(o.inputs, v)
	}
	return o, nil
}

func regoBody(p policy) string {
	var b strings.Builder
	switch {
	case p.verb != "":
		fmt.Fprintf(&b, "\tinput.verb == %q\n", p.verb)
	case p.provider != "":
		fmt.Fprintf(&b, "\tinput.provider == %q\n", p.provider)
		if p.risk != "" {
			fmt.Fprintf(&b, "\tinput.risk == %q\n", p.risk)
		}
		if p.except != "" {
			fmt.Fprintf(&b, "\tnot startswith(input.verb, %q)\n", p.provider+":"+p.except)
		}
	case p.risk != "":
		fmt.Fprintf(&b, "\tinput.risk == %q\n", p.risk)
	default:
		fmt.Fprintf(&b, "\tcontains(input.verb, %q)\n", ":"+p.part)
	}
	// object.get with a value that fits stands for the field that is missing.
	fits := func(value string) string { return value }
	if p.action == "allow" {
		fits = func(string) string { return "null" }
	}
	if p.over > 0 {
		fmt.Fprintf(&b, "\tamount := object.get(input.args, \"amount\", %s)\n\tis_number(amount)\n\tamount > %d\n", fits(fmt.Sprint(p.over+1)), p.over)
	}
	if p.beyond {
		fmt.Fprintf(&b, "\tamount := object.get(input.args, \"amount\", %s)\n\tlimit := object.get(input.args, \"limit\", %s)\n\tis_number(amount)\n\tis_number(limit)\n\tamount > limit\n",
			fits("1e9"), fits("-1e9"))
	}
	if p.outside != nil {
		fmt.Fprintf(&b, "\tcountry := object.get(input.args, [\"customer\", \"country\"], %s)\n\tis_string(country)\n\tnot country in {\"%s\"}\n", fits(`""`), strings.Join(p.outside, `", "`))
	}
	if p.unlike != "" {
		fmt.Fprintf(&b, "\tnote := object.get(input.args, \"note\", %s)\n\tis_string(note)\n\tnot regex.match(%q, note)\n", fits(`""`), "^"+p.unlike)
	}
	if p.in != nil {
		list, err := json.Marshal(p.in)
		if err != nil {
			panic(err) // strings
		}
		fmt.Fprintf(&b, "\tobject.get(input.args, [\"customer\", \"country\"], %s) in {%s}\n", fits(`"`+p.in[0]+`"`), strings.Trim(string(list), "[]"))
	}
	if p.prefix != "" {
		fmt.Fprintf(&b, "\tnote := object.get(input.args, \"note\", %s)\n\tis_string(note)\n\tstartswith(note, %q)\n", fits(`"`+p.prefix+`"`), p.prefix)
	}
	return b.String()
}

func (*opa) name() string { return "opa" }

func (o *opa) decide(i int) (string, error) {
	result, err := o.query.Eval(o.ctx, rego.EvalParsedInput(o.inputs[i]))
	if err != nil {
		return "", err
	}
	if len(result) != 1 {
		return "", errors.New("no decision")
	}
	decision, _ := result[0].Expressions[0].Value.(string)
	return decision, nil
}
