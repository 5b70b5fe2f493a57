package governance

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of what an explanation repeats.
const (
	maxActual = 256 // bytes of a call's value
	maxShown  = 100 // bytes of a policy's value within a reason
	maxWhy    = 5   // conditions within a reason
)

// explain fills in m with how the policy matched. It returns for each condition whether
// its values are secret.
func (e *evaluation) explain(m *Match, p *policy) (secret []bool) {
	*m = Match{
		PolicyID: p.ID, PolicyName: p.Name, Version: p.Version, Mode: p.Mode, Action: p.Action,
		Conditions: make([]ConditionMatch, len(p.conditions)),
	}
	secret = make([]bool, len(p.conditions))
	for i, c := range p.conditions {
		_, why := c.isMet(e, p.tightens())
		one := ConditionMatch{Field: c.source.Field, Operator: c.source.Operator, Value: c.source.Value, FailClosed: why}
		one.Actual, secret[i] = e.actual(c)
		switch {
		case !json.Valid(one.Value): // the value of exists is never read
			one.Value = null
		case secret[i]:
			one.Value = json.RawMessage(`"[masked]"`)
		}
		m.Conditions[i] = one
	}
	return secret
}

//nolint:gochecknoglobals // immutable
var null = json.RawMessage("null")

// actual returns the call's value for a condition, as it may be shown, and whether it is
// secret. Then the value in the policy is secret too.
func (e *evaluation) actual(c *condition) (json.RawMessage, bool) {
	if !c.args {
		return e.contextValue(c.source.Field), false
	}
	secret := c.secret || e.call.Fields.secret(c.path)
	if !e.loadMasked() || !e.args.load() {
		return null, secret
	}
	shown, given := e.masked.collect(c.path), e.args.collect(c.path)
	if shown == nil {
		return null, secret || given != nil
	}
	secret = secret || !bytes.Equal(shown, given)
	if len(shown) > maxActual {
		return json.RawMessage(`"(larger than ` + strconv.Itoa(maxActual) + ` bytes)"`), secret
	}
	return shown, secret
}

// loadMasked gets the masked arguments, once, and reports whether they can be read.
func (e *evaluation) loadMasked() bool {
	if e.masked == nil {
		e.masked = &document{read: true, broken: true}
		if e.call.Masked != nil {
			e.masked = &document{data: e.call.Masked()}
		}
	}
	return e.masked.load()
}

// collect returns a copy of the values that the path leads to. Where the path leads into
// the elements of arrays it is an array of the values found. It is nil for none.
func (d *document) collect(path []segment) json.RawMessage {
	var list json.RawMessage
	places, all := 0, 0
	d.each(0, path, func(i uint32, found bool) bool {
		all++
		if found {
			if places++; places > 1 {
				list = append(list, ',')
			}
			list = append(list, d.raw(i)...)
		}
		return len(list) <= maxActual
	})
	if all > 1 && places > 0 {
		return append(append(json.RawMessage{'['}, list...), ']')
	}
	return list
}

func (e *evaluation) contextValue(field string) json.RawMessage {
	about := &e.call.Context
	var v any
	switch field {
	case fieldAgentID:
		v = about.AgentID
	case fieldCustomerID:
		v = about.CustomerID
	default:
		v = about.Tainted
	}
	text, err := json.Marshal(v)
	if err != nil {
		return null
	}
	if len(text) > maxActual {
		return json.RawMessage(`"(larger than ` + strconv.Itoa(maxActual) + ` bytes)"`)
	}
	return text
}

// reason tells the caller which policy decided, why, and what to do next. It repeats the
// policy's values where they are not secret, and none of the call's.
func (e *evaluation) reason(enforced []*policy, decided *policy, d Decision, secret []bool) string {
	if decided == nil {
		return e.refusedByRegistry(enforced[0])
	}
	var b strings.Builder
	b.WriteString("policy ")
	b.WriteString(strconv.Quote(decided.Name))
	switch {
	case decided.broken:
		b.WriteString(" cannot be read, so it blocks every call that it may be about: correct or disable it")
		return b.String()
	case d == Block:
		b.WriteString(" blocks this call")
	case d == PendingApproval:
		b.WriteString(" requires approval for this call")
	case decided.Action == ActionNotify:
		b.WriteString(" allows this call and sends a notice of it")
	default:
		b.WriteString(" allows this call")
	}
	e.because(&b, decided, secret)
	if n := same(enforced) - 1; n > 0 {
		b.WriteString("; other policies that do so: ")
		b.WriteString(strconv.Itoa(n))
	}
	switch d {
	case Block:
		b.WriteString(". Change the call or the policy: the same call would be blocked again")
	case PendingApproval:
		b.WriteString(". It is held until it is approved")
		if same(enforced) > 1 {
			b.WriteString(" under each of these policies")
		}
	case Allow:
	}
	return b.String()
}

// same returns how many policies have the action that decides.
func same(enforced []*policy) int {
	n := 0
	for _, p := range enforced {
		if p.Action == enforced[0].Action {
			n++
		}
	}
	return n
}

// refusedByRegistry returns the reason where the policies that match are not enough to let
// the call run.
func (e *evaluation) refusedByRegistry(first *policy) string {
	name, says := e.call.Verb.String(), "policy "+strconv.Quote(first.Name)
	if first.Action == ActionRequireApproval { // only an unknown level refuses it
		return name + " has an unknown risk level: blocked, though " + says + " would ask for approval"
	}
	if d, _ := decide(e.call.Risk, ActionRequireApproval); d == Block {
		return name + " has an unknown risk level: blocked, though " + says + " would allow it"
	}
	return name + " is high risk and no approval gate configured: " + says +
		" alone does not open it; a high-risk verb is blocked until a policy requires approval for it"
}

// because writes the conditions of a policy. Where one could not be judged it writes why it
// counts as true.
func (e *evaluation) because(b *strings.Builder, p *policy, secret []bool) {
	for i, c := range p.conditions {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString(" and ")
		}
		if i == maxWhy {
			b.WriteString(strconv.Itoa(len(p.conditions) - i))
			b.WriteString(" more conditions")
			return
		}
		b.WriteString(c.source.Field)
		b.WriteByte(' ')
		b.WriteString(strings.ReplaceAll(string(c.source.Operator), "_", " "))
		if c.list != nil {
			b.WriteByte(' ')
			b.WriteString(shown(c.source.Value, secret[i]))
		}
		if _, why := c.isMet(e, p.tightens()); why != "" {
			b.WriteString(" (counts as true: ")
			b.WriteString(why)
			b.WriteByte(')')
		}
	}
}

// shown returns a policy's value as a reason repeats it.
func shown(value json.RawMessage, secret bool) string {
	if secret {
		return "a secret value"
	}
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return "a value"
	}
	text := b.String()
	if len(text) <= maxShown {
		return text
	}
	cut := maxShown
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
