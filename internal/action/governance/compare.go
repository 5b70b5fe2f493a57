package governance

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// Comparing with another field of the call, and comparing lengths.

// readOther reads the field that the condition compares with.
func (c *condition) readOther() *problem {
	switch {
	case c.source.Operator.asksPresence():
		return &problem{"value_field", "unexpected", "must be absent: the operator compares nothing"}
	case c.source.Value != nil:
		return &problem{"value_field", "unexpected", "must be absent where there is a value"}
	case !c.op.fields:
		return &problem{"value_field", "unexpected", "must be absent: this operator compares with a value only"}
	}
	// The zone is that of the field. Another one for the other field could not be told apart.
	zone := c.source.Zone
	if c.source.ValueField != fieldHour && c.source.ValueField != fieldWeekday {
		zone = ""
	}
	other, p := readField(c.source.ValueField, zone)
	if p != nil {
		p.field = "value_field"
		return p
	}
	c.other = &other
	return nil
}

// against judges a condition that compares with another field. Where that field leads to several
// values, each value is compared with each.
func (c *condition) against(e *evaluation, strict bool) (ok bool, reason why) {
	ok = !strict
	c.other.each(e, func(v value, length int, missing why) bool {
		var o [1]operand
		if missing == whyJudged {
			o[0], missing = c.operandOf(v, length)
		}
		one := *c
		one.list, one.otherWhy = o[:], missing
		ok, reason = one.direct(e, strict)
		return ok != strict
	})
	if e.args.left < 0 && ok != strict {
		return strict, whyWork
	}
	return ok, reason
}

// operandOf returns a value of the other field as what is compared with.
func (c *condition) operandOf(v value, length int) (o operand, reason why) {
	if c.op.length {
		if length < 0 {
			return o, whyOtherType
		}
		v = value{kind: kindNumber, text: strconv.AppendInt(nil, int64(length), 10)}
	}
	o = operand{kind: v.kind, text: v.text}
	switch v.kind {
	case kindNull:
		return o, whyOtherLacks
	case kindArray, kindObject:
		return o, whyOtherType
	case kindNumber:
		var ok bool
		if o.number, ok = parseDecimal(v.text); !ok {
			return o, whyOtherType
		}
	default:
	}
	if v.kind&c.op.takes == 0 {
		return o, whyOtherType
	}
	return o, whyJudged
}

// each calls f for each value that the field leads to, with its length, -1 where it has none. The
// reason says why there is no value. It ends where f returns false.
func (f *field) each(e *evaluation, yield func(v value, length int, reason why) bool) {
	d := &e.args
	switch f.from {
	case ofCall:
		v := f.inContext(&e.call)
		yield(v, lengthOf(v, 0), whyJudged)
		return
	case ofArgs:
	default:
		d = f.document(e)
		d.left = e.args.left
		defer func() { e.args.left = d.left }()
	}
	if !d.load() {
		yield(value{}, -1, whyUnreadable)
		return
	}
	d.each(0, f.path, func(i uint32, found bool) bool {
		v, length, reason := value{}, -1, whyOtherLacks
		if found {
			v = d.value(i)
			length, reason = lengthOf(v, d.node(i).count), whyJudged
		}
		e.args.left = d.left
		more := yield(v, length, reason)
		d.left = e.args.left
		return more
	})
}

// lengthOf returns the length of a value with so many elements or members, -1 where it has none.
func lengthOf(v value, count uint32) int {
	switch v.kind {
	case kindString:
		return utf8.RuneCount(v.text)
	case kindArray, kindObject:
		return int(count)
	default:
		return -1
	}
}

// length judges the length of a value with so many elements or members.
func (c *condition) length(v value, count uint32) (finding, why) {
	n := lengthOf(v, count)
	switch {
	case v.kind == kindNull:
		return unsure, whyNull
	case n < 0:
		return unsure, whyNoLength
	}
	length, _ := parseDecimal(strconv.AppendInt(nil, int64(n), 10))
	return found(c.op.meets(length.compare(&c.list[0].number))), whyJudged
}

// checkLength returns what is wrong with a length to compare with.
func (c *condition) checkLength() *problem {
	text := c.list[0].text
	if len(text) > 9 || slices.ContainsFunc(text, func(b byte) bool { return b < '0' || b > '9' }) {
		return &problem{"value", "range", "must be a length: a whole number from 0 to 999999999"}
	}
	return nil
}
