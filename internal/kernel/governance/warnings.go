package governance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Covers reports whether the policy's matchers mean the call, whatever its conditions
// say. Name, domain, risk and operation of the call are all that is looked at.
func (p Policy) Covers(c Call) bool {
	if len(p.Matchers) == 0 {
		return true
	}
	name := []byte(c.Verb.String())
	return slices.ContainsFunc(p.Matchers, func(m Matcher) bool { return NormalizeMatcher(m).matches(&c, name) })
}

// Misfit says why a condition on an argument can hardly be meant for calls of this
// schema: the schema does not have the field, or gives it another type than the
// condition's value has. "" where nothing is odd, or nothing is known.
func (f *Fields) Misfit(source Condition) string {
	source.Operator = lower(source.Operator)
	c, problem := compileCondition(source)
	if problem != nil || !c.args || f == nil {
		return ""
	}
	known, types := f.find(c.path)
	if !known {
		return "the verb's schema does not have it"
	}
	if len(c.list) == 0 {
		return ""
	}
	contains := source.Operator == OpContains || source.Operator == OpNotContains
	for _, o := range c.list {
		if o.kind == kindNull || o.kind&types != 0 || (contains && types&kindArray != 0) {
			return ""
		}
	}
	return "the verb's schema gives it another type"
}

// Contradictions names the pairs of conditions that no one value satisfies, so that a
// policy with them matches nothing, or only what cannot be judged. Conditions that
// cannot be read are left out. No value is in the result.
func Contradictions(conditions []Condition) []string {
	list := make([]*condition, len(conditions))
	for i, source := range conditions {
		source.Operator = lower(source.Operator)
		list[i], _ = compileCondition(source)
	}
	var found []string
	for i, a := range list {
		for j := i + 1; j < len(list); j++ {
			b := list[j]
			if a == nil || b == nil || !sameField(a, b) {
				continue
			}
			if !a.excludes(b) && !b.excludes(a) {
				continue
			}
			found = append(found, fmt.Sprintf("conditions %d and %d can never hold together: %s %s and %s", i, j,
				a.source.Field, strings.ReplaceAll(string(a.source.Operator), "_", " "), strings.ReplaceAll(string(b.source.Operator), "_", " ")))
		}
	}
	return found
}

func sameField(a, b *condition) bool {
	return a.args == b.args && slices.Equal(a.path, b.path) && (a.args || a.source.Field == b.source.Field)
}

// excludes reports whether no value can satisfy both, as far as a's operator tells.
func (c *condition) excludes(o *condition) bool {
	mine, other := c.source.Operator, o.source.Operator
	switch mine {
	case OpExists:
		return other == OpNotExists || (!c.args && o.onlyNull())
	case OpNotExists:
		// Of an argument that is missing an other condition may count as held.
		return !c.args && (other == OpEquals || other == OpIn) && !o.takesNull()
	case OpEquals, OpIn:
		return c.noneHolds(o)
	case OpGreater, OpGreaterOrEqual:
		if other != OpLess && other != OpLessOrEqual {
			return false
		}
		r := c.list[0].number.compare(&o.list[0].number)
		return r > 0 || (r == 0 && (mine == OpGreater || other == OpLess))
	case OpContains:
		same, _ := c.list[0].equal(value{kind: o.kind(), text: o.text()})
		return other == OpNotContains && same
	case OpStartsWith:
		return (other == OpStartsWith && !bytes.HasPrefix(c.text(), o.text()) && !bytes.HasPrefix(o.text(), c.text())) || c.holdsWhatLacks(o)
	case OpEndsWith:
		return (other == OpEndsWith && !bytes.HasSuffix(c.text(), o.text()) && !bytes.HasSuffix(o.text(), c.text())) || c.holdsWhatLacks(o)
	default: // as o's operator tells
		return false
	}
}

// kind and text are those of the first value; there is none for exists and not_exists.
func (c *condition) kind() kind {
	if len(c.list) == 0 {
		return kindNull
	}
	return c.list[0].kind
}

func (c *condition) text() []byte {
	if len(c.list) == 0 {
		return nil
	}
	return c.list[0].text
}

// holdsWhatLacks: a string that begins or ends with the one contains what is in it.
func (c *condition) holdsWhatLacks(o *condition) bool {
	return o.source.Operator == OpNotContains && o.kind() == kindString && bytes.Contains(c.text(), o.text())
}

func (c *condition) takesNull() bool {
	return slices.ContainsFunc(c.list, func(o operand) bool { return o.kind == kindNull })
}

// onlyNull: null is the one value that satisfies it.
func (c *condition) onlyNull() bool {
	return (c.source.Operator == OpEquals || c.source.Operator == OpIn) &&
		!slices.ContainsFunc(c.list, func(o operand) bool { return o.kind != kindNull })
}

// noneHolds reports whether none of the values that c names satisfies o.
func (c *condition) noneHolds(o *condition) bool {
	if o.source.Operator == OpExists || o.source.Operator == OpNotExists {
		return false
	}
	for _, v := range c.list {
		if f, _ := o.test(value{kind: v.kind, text: v.text}); f == held {
			return false
		}
	}
	return true
}
