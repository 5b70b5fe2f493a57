package governance

import "bytes"

// finding is the result of judging a condition.
type finding uint8

const (
	unmet finding = iota
	met
	unsure // it cannot be judged
)

// why says why a condition could not be judged; whyJudged where it was.
type why uint8

const (
	whyJudged why = iota
	whyLacks
	whyUnreadable
	whySchema
	whyNull
	whyNotSingle
	whyNotNumber
	whyNotString
	whyNotBool
	whyNotText
	whyElements
	whyTooLong
	whyWork
	whyNoLength
	whyOtherLacks
	whyOtherType
	whyFilling
	whyNoAmount
	whyNoWindow
	whyNotRun
	whyAnswerLacks
	whyLookupLacks
	whyLookupTooMany
	whyLookupNoVerb
	whyLookupNoRead
	whyLookupArgs
	whyLookupConnect
	whyLookupStopped
	whyLookupQuarantined
	whyLookupRefused
	whyLookupTimeout
	whyLookupFailed
	whyLookupTooLarge
)

// text is why in words, for ConditionMatch.FailClosed. It contains no value.
func (w why) text() string {
	return [...]string{
		whyJudged:     "",
		whyLacks:      "the call lacks it",
		whyUnreadable: "the arguments cannot be read",
		whySchema:     "not of the type that the verb's schema gives it",
		whyNull:       "it is null",
		whyNotSingle:  "not a single value",
		whyNotNumber:  "not a number",
		whyNotString:  "not a string",
		whyNotBool:    "not true or false",
		whyNotText:    "neither a string nor an array",
		whyElements:   "an array with elements of another type",
		whyTooLong:    "too long to match",
		whyWork:       "too much work to judge",
		whyNoLength:   "neither a string nor an array nor an object",
		whyOtherLacks: "the call lacks what it is compared with",
		whyOtherType:  "what it is compared with is of another type",
		whyFilling:    "the window is being filled",
		whyNoAmount:   "an earlier call in the window has no amount",
		whyNoWindow:   "the call lacks what the window counts by",

		whyNotRun:            "lookup: not_run",
		whyAnswerLacks:       "lookup: the answer lacks it",
		whyLookupLacks:       "lookup: the call lacks a value that it needs",
		whyLookupTooMany:     "lookup: the call needs too many",
		whyLookupNoVerb:      "lookup: its verb is not in the catalog",
		whyLookupNoRead:      "lookup: its verb is not a read of low or medium risk",
		whyLookupArgs:        "lookup: its arguments do not fit the schema of its verb",
		whyLookupConnect:     "lookup: its provider is not connected",
		whyLookupStopped:     "lookup: a kill switch covers its verb, or the circuit of its provider is open",
		whyLookupQuarantined: "lookup: its verb is quarantined",
		whyLookupRefused:     "lookup: its provider refused it",
		whyLookupTimeout:     "lookup: no answer in time",
		whyLookupFailed:      "lookup: it failed",
		whyLookupTooLarge:    "lookup: its answer is too large",
	}[w]
}

// value is what a condition looks at: a value of the arguments, or a context field.
type value struct {
	kind kind
	text []byte // a string's meaning, otherwise the JSON
}

// maxWork is how much work one evaluation may take, in steps of a regular expression of about
// 20 ns: half a second at most. A pattern of 50 instructions over a text of 10 KB takes half
// a million. A condition beyond it cannot be judged.
const maxWork = 20_000_000

// evaluation is one call while it is judged.
type evaluation struct {
	call   Call
	args   document // its work is that of the whole evaluation
	record document // of the customer
	// metadata, agent and sources are nil until they are asked for.
	metadata, agent, sources *document
	// masked are the arguments as they may be shown, once maskedRead: nil where they are args.
	masked     *document
	maskedRead bool
	matched    matches
	found      findings // of the policy that is being judged
	judged     int      // policies
	// explains: the findings of the policies that match are kept, to be explained.
	explains bool
	// gathers: the windows of policies are noted in gathered, and nothing is judged.
	gathers  bool
	gathered Windows

	at       *policy // that is being judged
	pass     pass
	answers  map[*read]*asked
	needs    []LookupCall
	waits    *asked // the first look-up that was reached without an answer, and its place in the policy
	waitsFor int
}

// isMet reports whether the condition counts as true for the call. The field may lead to
// several values. On the strict side, that of a policy that tightens, one value is enough for
// which the condition is true, or which cannot be judged. On the other side the condition must
// be true for every value. reason says why it counts so although it could not be judged.
func (c *condition) isMet(e *evaluation, strict bool) (ok bool, reason why) {
	if c.looksUp {
		if a := c.unanswered(e); a != nil {
			return e.without(c, a, strict)
		}
	}
	switch {
	case c.window != nil:
		return c.inWindow(e, strict)
	case c.other != nil:
		return c.against(e, strict)
	}
	return c.direct(e, strict)
}

// direct is isMet for a condition that has what it compares with.
func (c *condition) direct(e *evaluation, strict bool) (ok bool, reason why) {
	switch c.from {
	case ofArgs:
	case ofCall:
		s := side{strict: strict}
		s.add(c.contextual(e, c.inContext(&e.call)))
		return s.ok, s.reason
	case ofLookup:
		return c.ofAnswer(e, strict)
	default:
		return c.ofRecord(e, strict)
	}
	if !e.args.load() {
		return strict, whyUnreadable
	}
	known, types := e.call.Fields.find(c.path, &e.args.left)
	s := side{strict: strict, ok: !strict}
	e.args.each(0, c.path, func(i uint32, found bool) bool {
		return s.add(c.at(&e.args, i, found, known, types))
	})
	return s.within(&e.args)
}

// side is what the values that a field leads to come to, on one side.
type side struct {
	strict, ok bool
	reason     why
}

// add counts one value and reports whether the next one can change the result.
func (s *side) add(f finding, reason why) bool {
	switch {
	case !s.strict:
		s.ok, s.reason = f == met, reason
		return s.ok
	case f == met:
		s.ok, s.reason = true, whyJudged
		return false
	case f == unsure && !s.ok:
		s.ok, s.reason = true, reason
	}
	return true
}

// within returns the result, unless the work for it is spent.
func (s *side) within(d *document) (ok bool, reason why) {
	if d.left < 0 && (!s.ok || !s.strict) {
		return s.strict, whyWork
	}
	return s.ok, s.reason
}

// ofRecord is direct for a field of a document that is not the arguments, such as the customer's
// record. A field that the document lacks is null, and so are those of a call without it.
func (c *condition) ofRecord(e *evaluation, strict bool) (ok bool, reason why) {
	d := c.document(e)
	d.left = e.args.left
	defer func() { e.args.left = d.left }()
	if !d.load() {
		return strict, whyUnreadable
	}
	s := side{strict: strict, ok: !strict}
	d.each(0, c.path, func(i uint32, found bool) bool {
		if found && d.value(i).kind != kindNull {
			return s.add(c.at(d, i, true, false, kindAny))
		}
		return s.add(c.contextual(e, nullValue()))
	})
	return s.within(d)
}

// contextual judges a value that is not of the arguments, null where there is none. That can be
// compared with null and with lists, and with nothing else.
func (c *condition) contextual(e *evaluation, v value) (finding, why) {
	absent := v.kind == kindNull
	switch {
	case c.op.takes == 0:
		return found(absent != c.op.want), whyJudged
	case absent && c.other != nil:
		return unsure, whyNull // two that are missing are not the same
	case absent && c.op.takes&kindNull != 0:
		return found(c.takesNull() == c.op.want), whyJudged
	}
	return c.test(&e.args, v)
}

func found(ok bool) finding {
	if ok {
		return met
	}
	return unmet
}

// at judges one place in the arguments.
func (c *condition) at(d *document, i uint32, there, known bool, types kind) (finding, why) {
	switch {
	case c.op.takes == 0:
		return found(there == c.op.want), whyJudged
	case !there && known:
		return unsure, whyLacks
	case !there:
		return unmet, whyJudged
	}
	v := d.value(i)
	switch {
	case c.otherWhy != whyJudged:
		return unsure, c.otherWhy
	case known && v.kind&types == 0:
		return unsure, whySchema
	case v.kind == kindArray && c.op.parts:
		return c.element(d, i)
	case c.op.length && v.kind&(kindArray|kindObject) != 0:
		return c.length(v, d.node(i).count)
	}
	return c.test(d, v)
}

// test compares a value that is there. The work is taken off d's.
func (c *condition) test(d *document, v value) (finding, why) {
	if c.otherWhy != whyJudged {
		return unsure, c.otherWhy
	}
	work := compareWork*max(1, len(c.list)) + c.op.work(c, v)
	if work > d.left {
		return unsure, whyWork
	}
	d.spend(work)
	return c.op.test(c, v)
}

// equal reports whether value and operand are equal. ok is false where they are of
// different types, or the value is a number that cannot be read.
func (o *operand) equal(v value) (same, ok bool) {
	if o.kind == kindNull {
		return v.kind == kindNull, true
	}
	if v.kind != o.kind {
		return false, false
	}
	if v.kind != kindNumber {
		return bytes.Equal(v.text, o.text), true
	}
	d, ok := parseDecimal(v.text)
	return ok && d.compare(&o.number) == 0, ok
}

// oneOf judges whether v is in the list, as the operator wants it.
func (c *condition) oneOf(v value) (finding, why) {
	comparable, onlyNull := false, true
	for i := range c.list {
		o := &c.list[i]
		same, ok := o.equal(v)
		if same {
			return found(c.op.want), whyJudged
		}
		if o.kind != kindNull {
			comparable, onlyNull = comparable || ok, false
		}
	}
	if comparable || onlyNull {
		return found(!c.op.want), whyJudged
	}
	return unsure, mismatch(c.list, v)
}

// mismatch says why v cannot be compared.
func mismatch(list []operand, v value) why {
	switch v.kind {
	case kindNull:
		return whyNull
	case kindArray, kindObject:
		return whyNotSingle
	default:
	}
	for _, o := range list {
		switch o.kind {
		case kindNumber:
			return whyNotNumber
		case kindString:
			return whyNotString
		case kindBool:
			return whyNotBool
		default:
		}
	}
	return whyNotSingle
}

// contains judges whether a string has a part, as the operator wants it.
func (c *condition) contains(v value) (finding, why) {
	switch {
	case v.kind == kindString && c.list[0].kind != kindString:
		return unsure, mismatch(c.list, v)
	case v.kind == kindString:
		return found(bytes.Contains(v.text, c.list[0].text) == c.op.want), whyJudged
	case v.kind == kindNull:
		return unsure, whyNull
	}
	return unsure, whyNotText
}

// element judges whether array i has an element, as the operator wants it.
func (c *condition) element(d *document, i uint32) (finding, why) {
	all := true
	for at := i + 1; at < d.node(i).next; at = d.node(at).next {
		if !d.spend(compareWork + len(c.list[0].text)/bytesPerStep) {
			return unsure, whyWork
		}
		same, ok := c.list[0].equal(d.value(at))
		if same {
			return found(c.op.want), whyJudged
		}
		all = all && ok
	}
	if !all {
		return unsure, whyElements
	}
	return found(!c.op.want), whyJudged
}

func (c *condition) order(v value) (finding, why) {
	if v.kind != kindNumber {
		return unsure, mismatch(c.list, v)
	}
	d, ok := parseDecimal(v.text)
	if !ok {
		return unsure, whyNotNumber
	}
	return found(c.op.meets(d.compare(&c.list[0].number))), whyJudged
}
