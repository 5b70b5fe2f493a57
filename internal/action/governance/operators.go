package governance

import (
	"bytes"
	"slices"
)

// Operator compares a field with a condition's value. What each does is in the table of operators.
type Operator string

// Operators. Those that code outside of their row asks for.
const (
	OpEquals         Operator = "equals"
	OpNotEquals      Operator = "not_equals"
	OpGreater        Operator = "greater"
	OpGreaterOrEqual Operator = "greater_or_equal"
	OpLess           Operator = "less"
	OpLessOrEqual    Operator = "less_or_equal"
	OpIn             Operator = "in"
	OpNotIn          Operator = "not_in"
	OpContains       Operator = "contains"
	OpNotContains    Operator = "not_contains"
	OpStartsWith     Operator = "starts_with"
	OpEndsWith       Operator = "ends_with"
	OpMatches        Operator = "matches" // RE2
	OpNotMatches     Operator = "not_matches"
	OpLengthEquals   Operator = "length_equals"
	OpLengthGreater  Operator = "length_greater"
	OpLengthLess     Operator = "length_less"
	OpExists         Operator = "exists"
	OpNotExists      Operator = "not_exists"
)

// operation is a row of the table: all that the judge, the checks and the warnings know of an operator.
type operation struct {
	name Operator
	// takes is what the value must be, 0 where there is none: then the operator asks whether the call has
	// the field. list: the value is an array of them.
	takes kind
	list  bool
	// fields: a field can be compared with another one. windows: a window can be compared.
	fields, windows bool
	// length: the length of the field is compared. parts: an array has the value as an element.
	length, parts bool
	// want is false for the operators with not_: the answer of test is turned round.
	want bool
	// alike: what is compared must have something in common. Two fields that the call lacks have not.
	alike bool
	// meets says whether a number meets the operator that is less (-1), equal (0) or greater (1); nil for
	// operators that compare no order. rises: a greater number meets it rather than a smaller one.
	meets func(order int) bool
	rises bool
	// test compares a value that is there, work says what that takes at most.
	test func(c *condition, v value) (finding, why)
	work func(c *condition, v value) int
	// excludes reports whether no value can meet both c and o, as far as c's operator shows; nil where it
	// never shows that.
	excludes func(c, o *condition) bool
}

var operators = []operation{ //nolint:gochecknoglobals // a table
	{name: OpEquals, takes: kindScalar | kindNull, fields: true, windows: true, want: true, alike: true, test: (*condition).oneOf, work: workOfOperands, excludes: (*condition).noneMeets},
	{name: OpNotEquals, takes: kindScalar | kindNull, fields: true, windows: true, test: (*condition).oneOf, work: workOfOperands},
	{name: OpGreater, takes: kindNumber, fields: true, windows: true, want: true, meets: greater, rises: true, test: (*condition).order, work: workOfOperands, excludes: (*condition).excludesBelow},
	{name: OpGreaterOrEqual, takes: kindNumber, fields: true, windows: true, want: true, meets: greaterOrEqual, rises: true, test: (*condition).order, work: workOfOperands, excludes: (*condition).excludesBelow},
	{name: OpLess, takes: kindNumber, fields: true, windows: true, want: true, meets: less, test: (*condition).order, work: workOfOperands},
	{name: OpLessOrEqual, takes: kindNumber, fields: true, windows: true, want: true, meets: lessOrEqual, test: (*condition).order, work: workOfOperands},
	{name: OpIn, takes: kindScalar | kindNull, list: true, want: true, test: (*condition).oneOf, work: workOfOperands, excludes: (*condition).noneMeets},
	{name: OpNotIn, takes: kindScalar | kindNull, list: true, test: (*condition).oneOf, work: workOfOperands},
	{name: OpContains, takes: kindScalar, fields: true, parts: true, want: true, alike: true, test: (*condition).contains, work: workOfValue, excludes: excludesLack},
	{name: OpNotContains, takes: kindScalar, fields: true, parts: true, test: (*condition).contains, work: workOfValue},
	{name: OpStartsWith, takes: kindString, fields: true, want: true, alike: true, test: like(begins), work: workOfOperands, excludes: excludesOther(bytes.HasPrefix)},
	{name: OpEndsWith, takes: kindString, fields: true, want: true, alike: true, test: like(ends), work: workOfOperands, excludes: excludesOther(bytes.HasSuffix)},
	{name: OpMatches, takes: kindString, want: true, test: like(matchesPattern), work: workOfPattern, excludes: excludesNoMatch},
	{name: OpNotMatches, takes: kindString, test: like(matchesPattern), work: workOfPattern},
	{name: OpLengthEquals, takes: kindNumber, fields: true, length: true, want: true, alike: true, meets: equal, test: lengthOfText, work: workOfValue, excludes: (*condition).excludesLength},
	{name: OpLengthGreater, takes: kindNumber, fields: true, length: true, want: true, meets: greater, rises: true, test: lengthOfText, work: workOfValue, excludes: (*condition).excludesLength},
	{name: OpLengthLess, takes: kindNumber, fields: true, length: true, want: true, meets: less, test: lengthOfText, work: workOfValue},
	{name: OpExists, want: true, work: workOfOperands, excludes: excludesMissing},
	{name: OpNotExists, work: workOfOperands, excludes: excludesThere},
}

// none is the row of a text that is no operator: no value is good for it.
var none operation //nolint:gochecknoglobals // a constant

// row returns the row of the operator; none, and false, for a text that is no operator.
func (o Operator) row() (*operation, bool) {
	i := slices.IndexFunc(operators, func(row operation) bool { return row.name == o })
	if i < 0 {
		return &none, false
	}
	return &operators[i], true
}

// asksPresence reports whether the operator asks whether the call has the field. It has no value.
func (o Operator) asksPresence() bool {
	row, known := o.row()
	return known && row.takes == 0
}

// operatorNames lists all operators.
func operatorNames() []string {
	names := make([]string, len(operators))
	for i, row := range operators {
		names[i] = string(row.name)
	}
	return names
}

func less(order int) bool           { return order < 0 }
func lessOrEqual(order int) bool    { return order <= 0 }
func equal(order int) bool          { return order == 0 }
func greaterOrEqual(order int) bool { return order >= 0 }
func greater(order int) bool        { return order > 0 }

// What comparing takes, in steps of a regular expression.
const (
	compareWork  = 4  // one value, besides its length
	bytesPerStep = 16 // of a text that is searched or compared
)

// workOfOperands is at most as much as the operands are long.
func workOfOperands(c *condition, _ value) (work int) {
	for i := range c.list {
		work += len(c.list[i].text) / bytesPerStep
	}
	return work
}

func workOfValue(_ *condition, v value) int { return len(v.text) / bytesPerStep }

func workOfPattern(c *condition, v value) int {
	if v.kind != kindString || len(v.text) > maxMatchLen {
		return 0
	}
	return c.re.Cost(len(v.text))
}

// like returns the test of operators that compare texts.
func like(test func(c *condition, text []byte) (bool, why)) func(*condition, value) (finding, why) {
	return func(c *condition, v value) (finding, why) {
		if v.kind != kindString {
			return unsure, mismatch(c.list, v)
		}
		ok, reason := test(c, v.text)
		if reason != whyJudged {
			return unsure, reason
		}
		return found(ok == c.op.want), whyJudged
	}
}

func begins(c *condition, text []byte) (bool, why) {
	return bytes.HasPrefix(text, c.list[0].text), whyJudged
}

func ends(c *condition, text []byte) (bool, why) {
	return bytes.HasSuffix(text, c.list[0].text), whyJudged
}

func matchesPattern(c *condition, text []byte) (bool, why) {
	if len(text) > maxMatchLen {
		return false, whyTooLong
	}
	return c.re.Match(text), whyJudged
}

func lengthOfText(c *condition, v value) (finding, why) { return c.length(v, 0) }

// excludesLack: what contains the value does not lack it.
func excludesLack(c, o *condition) bool {
	same, _ := c.list[0].equal(value{kind: o.kind(), text: o.text()})
	return o.op.name == OpNotContains && same
}

// excludesOther: a text that begins with one text begins with no other one that is no beginning of the first,
// and likewise for its end.
func excludesOther(has func(text, part []byte) bool) func(c, o *condition) bool {
	return func(c, o *condition) bool {
		return o.op == c.op && !has(c.text(), o.text()) && !has(o.text(), c.text()) || c.contradictsLack(o)
	}
}

func excludesNoMatch(c, o *condition) bool {
	return o.op.name == OpNotMatches && bytes.Equal(c.text(), o.text())
}

func excludesMissing(c, o *condition) bool {
	return o.op.name == OpNotExists || c.ofContext() && o.onlyNull()
}

// excludesThere: where an argument is missing, the other condition may count as true.
func excludesThere(c, o *condition) bool {
	return c.ofContext() && (o.op.name == OpEquals || o.op.name == OpIn) && !o.takesNull()
}

// excludesBelow is excludes for a lower bound.
func (c *condition) excludesBelow(o *condition) bool {
	if o.op.name != OpLess && o.op.name != OpLessOrEqual {
		return false
	}
	r := c.list[0].number.compare(&o.list[0].number)
	return r > 0 || (r == 0 && (c.op.name == OpGreater || o.op.name == OpLess))
}
