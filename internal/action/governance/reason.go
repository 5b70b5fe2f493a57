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
	if decided.policy == nil {
		return e.refusedByRegistry(enforced[0])
	}
	var room [maxReasonRoom]byte
	b := strconv.AppendQuote(append(room[:0], "policy "...), decided.Name)
	switch {
	case decided.broken:
		return string(append(b, " cannot be read, so it blocks every call that it may be about: correct or disable it"...))
	case d == Block:
		b = append(b, " blocks this call"...)
	case d == PendingApproval:
		b = append(b, " requires approval for this call"...)
	case decided.Action == ActionNotify:
		b = append(b, " allows this call and sends a notice of it"...)
	default:
		b = append(b, " allows this call"...)
	}
	b = e.tellSources(decided.because(b), decided.policy)
	if n := same(enforced) - 1; n > 0 {
		b = strconv.AppendInt(append(b, "; other policies that do so: "...), int64(n), 10)
	}
	switch d {
	case Block:
		b = append(b, e.afterBlock(enforced, decided.depends)...)
	case PendingApproval:
		b = append(b, ". It is held until it is approved"...)
		if same(enforced) > 1 {
			b = append(b, " under each of these policies"...)
		}
	case Allow:
	}
	return string(b)
}

// maxSources is how many sources of a taint a reason names.
const maxSources = 5

// tellSources writes what has tainted the session, where the policy asks about that.
func (e *evaluation) tellSources(b []byte, p *policy) []byte {
	sources := e.call.Context.TaintSources
	if !p.asksTaint() || len(sources) == 0 {
		return b
	}
	b = append(append(b, ". The session has read "...), strings.Join(sources[:min(maxSources, len(sources))], ", ")...)
	if more := len(sources) - maxSources; more > 0 {
		b = append(strconv.AppendInt(append(b, " and "...), int64(more), 10), " more sources"...)
	}
	if address := e.call.Context.UnnamedAddress; address != "" {
		b = append(append(b, ". The call reaches "...), strings.ToValidUTF8(address[:min(len(address), maxAddress)], "")...)
		b = append(b, ", which neither the tenant nor the customer has named"...)
	}
	return b
}

// asksTaint reports whether a condition is about what an agent has read.
func (p *policy) asksTaint() bool {
	asks := func(f *field) bool { return f.name == FieldTainted || f.from == ofSources }
	for c := range conditions(p.conditions) {
		if c.about(asks) {
			return true
		}
	}
	return false
}

// guards reports whether the policy holds or blocks calls by what an agent has read.
func (p *policy) guards() bool {
	return p.Mode == Enforce && (p.Action == ActionRequireApproval || p.Action == ActionBlock) && p.asksTaint()
}

// maxAddress is how many bytes of an address a reason shows.
const maxAddress = 200

// maxReasonRoom is how long a reason may be to be written without memory besides its own.
const maxReasonRoom = 512

// afterBlock says whether the same call would be blocked again. depends: that is so only while a
// look-up is not made.
func (e *evaluation) afterBlock(enforced []*policy, depends bool) string {
	if depends {
		return ". A run makes the look-up and may decide otherwise"
	}
	var on []string
	for _, p := range enforced {
		if p.Action != ActionBlock {
			break // the strictest come first
		}
		changes, missing := p.changes(e)
		switch {
		case len(changes) == 0 && missing != "":
			return ". Send " + missing + ": the same call would be blocked again"
		case len(changes) == 0:
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

// changes returns what the conditions ask about that is not of the call. missing is what the call must
// send so that a window can count it, "" for nothing: no other call changes what that window says.
func (p *policy) changes(e *evaluation) (list []string, missing string) {
	for c := range conditions(p.conditions) {
		var on string
		switch {
		case c.window != nil && e.lacks(c.window):
			missing = sentAs(c.window.by.name)
			continue
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
	return list, missing
}

// lacks reports whether the call lacks what the window counts by.
func (e *evaluation) lacks(w *window) bool {
	u := e.call.Windows.use(w.id)
	return u != nil && u.reason == whyNoWindow
}

// sentAs is how callers send what a window counts by.
func sentAs(by string) string {
	switch by {
	case fieldSessionID:
		return "session_id"
	case fieldKeyID:
		return "it with an API key"
	case fieldCustomerID, fieldAgentID:
		return "metadata." + by
	default:
		return by
	}
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
func (p *explained) because(b []byte) []byte {
	told := 0
	for i := range p.conditions {
		if i == 0 {
			b = append(b, ": "...)
		} else {
			b = append(b, " and "...)
		}
		if told == maxWhy {
			return append(strconv.AppendInt(b, int64(p.count-told), 10), " more conditions"...)
		}
		b = p.tell(b, &told, &p.conditions[i], p.tightens())
	}
	return b
}

// tell writes a condition or a group, as far as told, which counts the conditions, allows. Where
// strict, doubt counts as true.
func (p *explained) tell(b []byte, told *int, c *clause, strict bool) []byte {
	and := " and "
	switch c.join {
	case joinNone:
		*told++
		return p.tellOne(b, c, strict)
	case joinNot:
		b = append(b, "not "...)
		strict = !strict
	case joinAny:
		and = " or "
	case joinAll:
	}
	b = append(b, '(')
	for i := range c.parts {
		if i > 0 {
			b = append(b, and...)
		}
		if *told == maxWhy {
			b = append(b, "…"...)
			break
		}
		b = p.tell(b, told, &c.parts[i], strict)
	}
	return append(b, ')')
}

// tellOne writes one condition.
func (p *explained) tellOne(b []byte, c *clause, strict bool) []byte {
	if c.one.window != nil {
		b = append(b, c.one.source.Window.about()...)
	}
	b = append(append(b, c.one.source.Field...), ' ')
	for _, letter := range []byte(c.one.source.Operator) {
		if letter == '_' {
			letter = ' '
		}
		b = append(b, letter)
	}
	if c.one.other != nil {
		b = append(append(b, " the field "...), c.one.source.ValueField...)
	}
	switch {
	case c.one.list == nil:
	case p.secret.has(c.index):
		b = append(b, " a secret value"...)
	case c.one.brief == nil:
		b = append(b, " a value"...)
	default:
		b = append(append(b, ' '), c.one.brief...)
	}
	if reason := p.whyUnsure(c.index); reason != whyJudged {
		b = strconv.AppendBool(append(b, " (counts as "...), strict)
		b = append(b, ": "...)
		if reason == whyNoWindow {
			b = append(append(b, "the call lacks "...), c.one.source.Window.By...)
		} else {
			b = append(b, reason.text()...)
		}
		b = append(b, ')')
	}
	return b
}

// brief returns a policy's value as a reason repeats it, nil for one that cannot be read. It shares
// the memory of the value where it can.
func brief(value json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return nil
	}
	text := b.Bytes()
	switch {
	case len(text) > maxShown:
		cut := maxShown
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		return append(bytes.Clone(text[:cut]), "…"...)
	case bytes.Equal(text, value):
		return value
	}
	return text
}
