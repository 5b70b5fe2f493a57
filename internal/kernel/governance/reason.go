package governance

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// reason tells the caller which policy decided, why, and what to do next. It repeats the
// policy's values where they are not secret, and none of the call's.
func (e *evaluation) reason(enforced []*policy, decided *explained, d Decision) string {
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
	decided.because(&b)
	if n := same(enforced) - 1; n > 0 {
		b.WriteString("; other policies that do so: ")
		b.WriteString(strconv.Itoa(n))
	}
	switch d {
	case Block:
		b.WriteString(afterBlock(enforced, decided.depends))
	case PendingApproval:
		b.WriteString(". It is held until it is approved")
		if same(enforced) > 1 {
			b.WriteString(" under each of these policies")
		}
	case Allow:
	}
	return b.String()
}

// afterBlock says whether the same call would be blocked again. depends: that is so only while a
// look-up is not made.
func afterBlock(enforced []*policy, depends bool) string {
	if depends {
		return ". A run makes the look-up and may decide otherwise"
	}
	var on []string
	for _, p := range enforced {
		if p.Action != ActionBlock {
			break // the strictest come first
		}
		changes := p.changes()
		if len(changes) == 0 {
			return ". Change the call or the policy: the same call would be blocked again"
		}
		for _, c := range changes {
			if !slices.Contains(on, c) {
				on = append(on, c)
			}
		}
	}
	return ". The same call may pass later: it depends on " + strings.Join(on, " and on ")
}

// changes returns what the conditions ask about that is not of the call.
func (p *policy) changes() (list []string) {
	for c := range conditions(p.conditions) {
		var on string
		switch {
		case c.window != nil:
			on = "other calls"
		case c.about(func(f *field) bool { return f.from == ofLookup }):
			on = "what is looked up"
		case c.about(func(f *field) bool { return f.from == ofCustomer }):
			on = "the record of the customer"
		case c.about(func(f *field) bool { return f.zone != nil }):
			on = "the time"
		default:
			continue
		}
		if !slices.Contains(list, on) {
			list = append(list, on)
		}
	}
	return list
}

// about reports whether a field of the condition is one of these.
func (c *condition) about(is func(*field) bool) bool {
	return is(&c.field) || c.other != nil && is(c.other)
}

// tooManyApprovals returns the reason where more policies than MaxRequirements ask for an
// approval of their own.
func tooManyApprovals(n int) string {
	return strconv.Itoa(n) + " policies require approval for this call, and a call can wait for at most " +
		strconv.Itoa(MaxRequirements) + ": it is blocked. Say the same in fewer policies"
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
func (p *explained) because(b *strings.Builder) {
	t := telling{Builder: b, of: p}
	for i := range p.conditions {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString(" and ")
		}
		if t.told == maxWhy {
			b.WriteString(strconv.Itoa(p.count - t.told))
			b.WriteString(" more conditions")
			return
		}
		t.clause(&p.conditions[i], p.tightens())
	}
}

// telling writes the first conditions of a policy.
type telling struct {
	*strings.Builder

	of   *explained
	told int // conditions
}

// clause writes a condition or a group. Where strict, doubt counts as true.
func (t *telling) clause(c *clause, strict bool) {
	and := " and "
	switch c.join {
	case joinNone:
		t.condition(c, strict)
		return
	case joinNot:
		t.WriteString("not ")
		strict = !strict
	case joinAny:
		and = " or "
	case joinAll:
	}
	t.WriteByte('(')
	for i := range c.parts {
		if i > 0 {
			t.WriteString(and)
		}
		if t.told == maxWhy {
			t.WriteString("…")
			break
		}
		t.clause(&c.parts[i], strict)
	}
	t.WriteByte(')')
}

func (t *telling) condition(c *clause, strict bool) {
	t.told++
	if c.one.window != nil {
		t.WriteString(c.one.source.Window.about())
	}
	t.WriteString(c.one.source.Field)
	t.WriteByte(' ')
	t.WriteString(strings.ReplaceAll(string(c.one.source.Operator), "_", " "))
	if c.one.other != nil {
		t.WriteString(" the field ")
		t.WriteString(c.one.source.ValueField)
	}
	if c.one.list != nil {
		t.WriteByte(' ')
		t.WriteString(shown(c.one.source.Value, t.of.secret[c.index]))
	}
	if reason := t.of.unsure[c.index]; reason != whyJudged {
		t.WriteString(" (counts as ")
		t.WriteString(strconv.FormatBool(strict))
		t.WriteString(": ")
		t.WriteString(reason.text())
		t.WriteByte(')')
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
