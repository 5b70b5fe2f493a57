package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
	m := &module{out: &b}
	for _, p := range s.policies {
		bodies := [][]condition{p.where}
		if len(p.where) == 1 && p.where[0].any != nil { // each rule of a set adds to it
			bodies = nil
			for _, c := range p.where[0].any {
				bodies = append(bodies, []condition{c})
			}
		}
		for _, conditions := range bodies {
			m.rule(fmt.Sprintf("actions contains %q", p.action), regoScope(p), conditions, p.action != "allow")
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
		v, err := ast.InterfaceToValue(map[string]any{"verb": c.verb(), "provider": c.provider, "risk": c.risk, "args": args, "now": c.at.UnixNano()})
		if err != nil {
			return nil, fmt.Errorf("opa: %w", err)
		}
		o.inputs = append(o.inputs, v)
	}
	return o, nil
}

func regoScope(p policy) string {
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
	return b.String()
}

// module writes rules. A group within another becomes a rule of its own, which is how Rego says it.
type module struct {
	out   *strings.Builder
	names int
}

// name returns one that nothing else has.
func (m *module) name(of string) string {
	m.names++
	return fmt.Sprintf("%s_%d", of, m.names)
}

// rule writes a rule, after those that it asks.
func (m *module) rule(head, scope string, conditions []condition, strict bool) {
	body := scope
	for _, c := range conditions {
		body += m.condition(c, strict)
	}
	fmt.Fprintf(m.out, "\n%s if {\n%s}\n", head, body)
}

// condition returns the lines of a condition. Where strict, a test is true too where the call lacks
// its field.
func (m *module) condition(c condition, strict bool) string {
	switch {
	case c.all != nil:
		var lines string
		for _, one := range c.all {
			lines += m.condition(one, strict)
		}
		return lines
	case c.any != nil:
		group := m.name("group")
		for _, one := range c.any {
			m.rule(group, "", []condition{one}, strict)
		}
		return "\t" + group + "\n"
	case c.not == nil:
		return m.test(c, strict, false)
	case c.not.any == nil && c.not.all == nil && c.not.not == nil:
		return m.test(*c.not, strict, true)
	}
	group := m.name("group")
	m.rule(group, "", []condition{*c.not}, !strict)
	return "\tnot " + group + "\n"
}

// test returns the lines of one test, or of its opposite. object.get with a value that fits stands
// for the field that is missing.
func (m *module) test(c condition, strict, opposite bool) string {
	get := func(path, fits, misfits, is string) (name, lines string) {
		missing := "null"
		switch {
		case strict && opposite:
			missing = misfits
		case strict:
			missing = fits
		}
		name = m.name("x")
		return name, fmt.Sprintf("\t%s := object.get(input.args, %s, %s)\n\t%s(%s)\n", name, path, missing, is, name)
	}
	say := func(test string) string {
		if opposite {
			return "\tnot " + test + "\n"
		}
		return "\t" + test + "\n"
	}
	switch {
	case c.over > 0:
		amount, lines := get(`"amount"`, strconv.FormatInt(c.over+1, 10), "0", "is_number")
		return lines + say(fmt.Sprintf("%s > %d", amount, c.over))
	case c.beyond:
		amount, lines := get(`"amount"`, "1e9", "-1e9", "is_number")
		limit, more := get(`"limit"`, "-1e9", "1e9", "is_number")
		return lines + more + say(amount+" > "+limit)
	case c.in != nil:
		list := fmt.Sprintf("{\"%s\"}", strings.Join(c.in, `", "`))
		country, lines := get(`["customer", "country"]`, strconv.Quote(c.in[0]), `""`, "is_string")
		return lines + say(country+" in "+list)
	case c.prefix != "":
		note, lines := get(`"note"`, strconv.Quote(c.prefix), `""`, "is_string")
		return lines + say(fmt.Sprintf("startswith(%s, %q)", note, c.prefix))
	case c.unlike != "": // itself an opposite
		opposite = !opposite
		note, lines := get(`"note"`, strconv.Quote(c.unlike), `""`, "is_string")
		return lines + say(fmt.Sprintf("regex.match(%q, %s)", "^"+c.unlike, note))
	case c.from > 0:
		return say(fmt.Sprintf("time.clock(input.now)[0] >= %d", c.from))
	default:
		items, lines := get(`"items"`, `["x"]`, "[]", "is_array")
		return lines + say(fmt.Sprintf("count(%s) > 0", items))
	}
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
