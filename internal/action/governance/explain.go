package governance

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Limits of what an explanation repeats.
const (
	maxActual = 256 // bytes of a value, the call's or the policy's
	maxShown  = 100 // bytes of a policy's value within a reason
	maxWhy    = 5   // conditions within a reason
	// maxExplained is how many bytes of JSON the explained policies of one verdict take. An
	// evaluation answers at most 256 KiB, and its requirements take the rest.
	maxExplained       = 128 << 10
	maxRequirementText = 96 << 10
	// explainWork is how much work looking for the values may take.
	explainWork = 5_000_000
)

// explained is the policy that decides, as the reason tells of it. It is zero for none.
type explained struct {
	matched
	secret flags // by condition: its values are secret
}

// explainAll fills in v's matches: first the policy that decides, then the others, as far as
// there is room. It returns the first.
func (e *evaluation) explainAll(v *Verdict, decided *policy) (first explained) {
	e.args.left = explainWork
	all := e.matched.all()
	v.Matches = make([]Match, len(all))
	room := maxExplained
	for i := range all {
		m := &all[i]
		v.Matches[i] = Match{
			PolicyID: m.ID, PolicyName: m.Name, Version: m.Version, Mode: m.Mode, Action: m.Action,
			Conditions: []ConditionMatch{}, Decided: m.policy == decided,
		}
		if m.policy == decided {
			first = explained{matched: *m, secret: e.explain(&v.Matches[i], m, &room)}
		}
	}
	for i := range all {
		m := &all[i]
		if m.policy == decided {
			continue
		}
		if room -= matchSize + textSize(m.Name); room < 0 {
			if v.unexplained == nil {
				v.unexplained = make([]bool, len(all))
			}
			v.unexplained[i] = true
			continue
		}
		e.explain(&v.Matches[i], m, &room)
	}
	return first
}

// explain fills in m with how the policy matched, as far as there is room. It returns the
// conditions whose values are secret.
func (e *evaluation) explain(m *Match, p *matched, room *int) (secret flags) {
	x, shown := explanation{of: p, room: *room}, 0
	free := make(entries, p.entries)
	e.at, e.pass = p.policy, passJudge
	m.Conditions = free.take(len(p.conditions))
	for i := range p.conditions {
		one := &m.Conditions[i]
		x.clause(e, &p.conditions[i], p.tightens(), one, &free)
		if x.room < 0 {
			m.Conditions, m.ConditionsOmitted = m.Conditions[:i], p.count-shown
			break
		}
		one.Met = true // otherwise the policy would not have matched
		shown = x.count
	}
	*room = x.room
	return x.secret
}

// explanation is a policy that matched while it is explained.
type explanation struct {
	of     *matched
	secret flags // by condition
	room   int
	count  int // conditions so far
}

// entries is room for the entries of one policy. They are large, so they are made at once and written
// where they stay.
type entries []ConditionMatch

// take returns the next n entries.
func (free *entries) take(n int) []ConditionMatch {
	taken := (*free)[:n:n]
	*free = (*free)[n:]
	return taken
}

// clause explains a condition or a group in one. Where strict, doubt counts as true.
func (x *explanation) clause(e *evaluation, c *clause, strict bool, one *ConditionMatch, free *entries) {
	if c.join == joinNone {
		x.count++
		x.condition(e, c, strict, one)
		return
	}
	x.room -= groupTextSize
	parts, all, some := free.take(len(c.parts)), true, false
	for i := range parts {
		x.clause(e, &c.parts[i], strict != (c.join == joinNot), &parts[i], free)
		all, some = all && parts[i].Met, some || parts[i].Met
	}
	switch c.join {
	case joinNot:
		one.Not, one.Met = &parts[0], !all
	case joinAny:
		one.Any, one.Met = parts, some
	default:
		one.All, one.Met = parts, all
	}
}

// condition explains one condition. It is judged where that was not needed: not each condition of a
// group needs to be judged to judge the group.
func (x *explanation) condition(e *evaluation, c *clause, strict bool, one *ConditionMatch) {
	one.Field, one.Operator, one.Value, one.Zone, one.Met = c.one.source.Field, c.one.source.Operator, c.one.shown, c.one.source.Zone, strict
	reason := x.of.whyUnsure(c.index)
	switch {
	case x.of.judged.has(c.index):
		one.Met = x.of.met.has(c.index)
	case reason == whyJudged:
		one.Met, reason = c.one.isMet(e, strict)
	}
	one.FailClosed = reason.text()
	var secret bool
	if c.one.window != nil {
		one.Window = c.one.source.Window
		x.room -= textSize(one.Window.By) + textSize(one.Window.Sum) + textSize(one.Window.Per) + one.Window.Matching.textSize()
		one.Actual, secret = e.actualOfWindow(c.one, strict)
	} else {
		one.Actual, secret = e.actual(&c.one.field, c.one.secret)
	}
	if c.one.other != nil {
		var too bool
		one.ValueField = c.one.source.ValueField
		if one.Value, too = e.actual(c.one.other, c.one.secret); !json.Valid(one.Value) {
			one.Value = nil
		}
		if secret || too {
			// Those who see one of two equal values know the other.
			secret, one.Actual = true, maskedValue
		}
	}
	if secret {
		x.secret.add(c.index)
	}
	switch {
	case one.Value == nil: // exists has none
		one.Value = null
	case secret:
		one.Value = maskedValue
	}
	x.room -= conditionTextSize + textSize(one.Field) + textSize(one.ValueField) + textSize(one.Zone) + textSize(one.Value) + textSize(one.Actual)
}

// What a match and a condition take as JSON besides their texts, in bytes.
const (
	matchSize         = 256
	conditionTextSize = 180
	groupTextSize     = 32
	matcherTextSize   = 40
	fieldTextSize     = 24
	approverSize      = 32
)

func matchersTextSize(list []Matcher) (n int) {
	for _, m := range list {
		n += matcherTextSize + textSize(m.Value)
		for _, f := range m.fields() {
			n += fieldTextSize + textSize(f.value)
		}
	}
	return n
}

// textSize returns the most bytes that a text takes within JSON.
func textSize[T ~string | ~[]byte](text T) int {
	n := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c >= utf8.RuneSelf, c == '"', c == '\\', c == '<', c == '>', c == '&':
			n += len(`\u0000`)
		default:
			n++
		}
	}
	return n
}

func tooLarge() json.RawMessage {
	return json.RawMessage(`"(larger than ` + strconv.Itoa(maxActual) + ` bytes)"`)
}

// Shown returns the matches that are explained: those that are stored and answered.
func (v *Verdict) Shown() []Match {
	list := make([]Match, 0, len(v.Matches))
	for i, m := range v.Matches {
		if v.unexplained == nil || !v.unexplained[i] {
			list = append(list, m)
		}
	}
	return list
}

// ShownRequirements returns the first requirements, as far as an evaluation answers them,
// and how many it leaves out.
func (v *Verdict) ShownRequirements() (list []Requirement, omitted int) {
	room := maxRequirementText
	for i, r := range v.Requirements {
		room -= matchSize + textSize(r.PolicyName)
		for _, a := range r.Rule.Approvers {
			room -= approverSize + textSize(a.Value)
		}
		if room < 0 {
			return v.Requirements[:i], len(v.Requirements) - i
		}
	}
	return v.Requirements, 0
}

// Omitted returns how many matches Shown leaves out.
func (v *Verdict) Omitted() (n int) {
	for _, omitted := range v.unexplained {
		if omitted {
			n++
		}
	}
	return n
}

//nolint:gochecknoglobals // immutable
var (
	null        = json.RawMessage("null")
	maskedValue = json.RawMessage(`"[masked]"`)

	ofCustomerValue = json.RawMessage(`"(not shown: it is of the customer's record)"`)
	ofMetadataValue = json.RawMessage(`"(not shown: it is of the call's metadata)"`)
	ofLookupValue   = json.RawMessage(`"(not shown: it is of a look-up)"`)
)

// actual returns the call's value of a field, as it may be shown, and whether it is secret. Then
// what it is compared with is secret too.
func (e *evaluation) actual(c *field, named bool) (json.RawMessage, bool) {
	switch c.from {
	case ofArgs:
	case ofCustomer:
		// Matches are kept in audit records, which nobody can erase.
		return ofCustomerValue, named
	case ofMetadata:
		return ofMetadataValue, named
	case ofLookup:
		return ofLookupValue, named
	case ofAgent, ofSources:
		d := c.document(e)
		if d.left = e.args.left; d.load() {
			if found := d.collect(c.path); found != nil && len(found) <= maxActual {
				return found, false
			}
		}
		return null, false
	default:
		return e.contextValue(c), false
	}
	secret := named || e.call.Fields.secret(c.path, &e.args.left)
	masked, ok := e.loadMasked()
	if !ok || !e.args.load() {
		return null, secret
	}
	given := e.args.collect(c.path)
	shown := given
	if e.masked != nil {
		shown = e.masked.collect(c.path)
	}
	if shown == nil && masked.left >= 0 {
		return null, secret || given != nil
	}
	secret = secret || !bytes.Equal(shown, given)
	switch {
	case e.args.left < 0 || masked.left < 0:
		return json.RawMessage(`"(not shown: too much work)"`), true
	case len(shown) > maxActual:
		return tooLarge(), secret
	}
	return shown, secret
}

// loadMasked returns the masked arguments, and reports whether they can be read. Where nothing of
// the arguments is masked, they are the arguments.
func (e *evaluation) loadMasked() (d *document, ok bool) {
	if !e.maskedRead {
		e.maskedRead = true
		if e.call.Masked == nil {
			e.masked = &document{read: true, broken: true}
		} else if text := e.call.Masked(); !bytes.Equal(text, e.call.Args) {
			e.masked = &document{data: text, left: explainWork}
		}
	}
	if e.masked == nil {
		return &e.args, e.args.load()
	}
	return e.masked, e.masked.load()
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

func (e *evaluation) contextValue(f *field) json.RawMessage {
	v := f.inContext(&e.call)
	text := json.RawMessage(v.text)
	if v.kind == kindString {
		var err error
		if text, err = json.Marshal(string(v.text)); err != nil {
			return null
		}
	}
	if len(text) > maxActual {
		return tooLarge()
	}
	return text
}
