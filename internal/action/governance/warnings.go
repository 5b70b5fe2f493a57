package governance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	exact "github.com/shopspring/decimal"

	"agentruntime/internal/base/fault"
)

// Misfit says why a condition on an argument does not fit calls of this schema: the schema
// lacks the field, or has another type for it than the condition's value. It returns ""
// where the condition fits, or where nothing is known. For a condition on a window see MisfitOfWindow.
func (f *Fields) Misfit(source Condition) string {
	source.Operator = lower(source.Operator)
	c, problems := compileCondition(source)
	if len(problems) > 0 || f == nil {
		return ""
	}
	left := maxWork
	if c.other != nil && c.other.from == ofArgs {
		if known, _ := f.find(c.other.path, &left); !known {
			return "the verb's schema does not have what it is compared with"
		}
	}
	if c.from != ofArgs {
		return ""
	}
	known, types := f.find(c.path, &left)
	switch {
	case !known:
		return "the verb's schema does not have it"
	case c.op.length && types&(kindString|kindArray|kindObject) == 0:
		return "the verb's schema gives it a type without a length"
	case len(c.list) == 0 || c.op.length:
		return ""
	}
	for _, o := range c.list {
		if o.kind == kindNull || o.kind&types != 0 || (c.op.parts && types&kindArray != 0) {
			return ""
		}
	}
	return "the verb's schema gives it another type"
}

// MisfitOfWindow says why the window of a condition fits no calls of this schema. The verbs that the
// policy matches need the argument by which it counts; those that it counts also need the one that
// it adds up. A call without them is in no window, or its window is in doubt.
func (f *Fields) MisfitOfWindow(source Condition, counted bool) string {
	source.Operator = lower(source.Operator)
	c, problems := compileCondition(source)
	if len(problems) > 0 || f == nil || c.window == nil {
		return ""
	}
	return c.window.misfit(f, counted)
}

// Sample returns the arguments of a look-up with null for each field that they take of the call, and
// the places of these as JSON Pointers.
func (l Lookup) Sample() (args json.RawMessage, taken []string) {
	parts, problem := readTemplate(l.Args)
	if problem != nil {
		return nil, nil
	}
	for _, p := range parts {
		if args = append(args, p.text...); p.field != nil {
			args = append(args, "null"...)
		}
	}
	var tree any
	if len(l.Args) == 0 || json.Unmarshal(l.Args, &tree) != nil {
		return args, nil
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, is := v["field"].(string); is && len(v) == 1 && at != "" {
				taken = append(taken, at)
				return
			}
			for name, one := range v {
				walk(at+"/"+fault.PointerToken(name), one)
			}
		case []any:
			for i, one := range v {
				walk(at+"/"+strconv.Itoa(i), one)
			}
		}
	}
	walk("", tree)
	return args, taken
}

// Contradictions names the pairs of conditions that no single value meets, of those that must
// all be met: the entries of the list and those of its groups of all. A policy with them matches
// nothing, or only calls that cannot be judged. It ignores conditions that cannot be read. The
// result contains no values.
func Contradictions(conditions []Condition) []string {
	var list []*condition
	var places []string
	for place, source := range Leaves(conditions) {
		if strings.Contains(place, memberAny) || strings.Contains(place, memberNot) {
			continue
		}
		source.Operator = lower(source.Operator)
		if c, problems := compileCondition(source); len(problems) == 0 {
			list, places = append(list, c), append(places, place)
		}
	}
	var found []string
	for i, a := range list {
		for j := i + 1; j < len(list); j++ {
			b := list[j]
			if !sameField(a, b) || !a.excludes(b) && !b.excludes(a) {
				continue
			}
			field := a.source.Field
			if a.window != nil {
				field = a.source.Window.about()
			}
			found = append(found, fmt.Sprintf("conditions %s and %s can never both be true: %s %s and %s", places[i], places[j],
				field, strings.ReplaceAll(string(a.source.Operator), "_", " "), strings.ReplaceAll(string(b.source.Operator), "_", " ")))
		}
	}
	return found
}

func sameField(a, b *condition) bool {
	return a.other == nil && b.other == nil && sameWindow(a, b) && a.from == b.from && slices.Equal(a.path, b.path) && a.zone == b.zone &&
		(a.from == ofArgs || a.name == b.name)
}

// sameWindow reports whether neither condition is on a window, or both are on one of the same length.
func sameWindow(a, b *condition) bool {
	if a.window == nil || b.window == nil {
		return a.window == b.window
	}
	return a.window.id == b.window.id && a.window.per == b.window.per
}

// CountsBelowZero reports whether the condition asks for fewer calls in a window than none.
func (c Condition) CountsBelowZero() bool {
	if c.Window == nil || !c.Window.Count {
		return false
	}
	n, err := exact.NewFromString(string(c.Value))
	switch op, _ := lower(c.Operator).row(); {
	case err != nil:
		return false
	case op.meets != nil:
		return !op.rises && !op.meets(-n.Sign()) // not even 0 meets it
	default:
		return op.name == OpEquals && n.Sign() < 0
	}
}

// excludes reports whether no value can meet both c and o, as far as c's operator shows.
func (c *condition) excludes(o *condition) bool {
	return c.op.excludes != nil && c.op.excludes(c, o)
}

// ofContext reports whether the field is null where the call lacks it.
func (f *field) ofContext() bool { return f.from != ofArgs && f.from != ofLookup }

// excludesLength is excludes for a condition on a length that is one number, or a lower bound.
func (c *condition) excludesLength(o *condition) bool {
	if !o.op.length {
		return false
	}
	r := c.list[0].number.compare(&o.list[0].number)
	switch {
	case c.op.name == OpLengthEquals && o.op.name == OpLengthEquals:
		return r != 0
	case c.op.name == OpLengthEquals && o.op.name == OpLengthGreater:
		return r <= 0
	}
	return r >= 0 && o.op.name == OpLengthLess
}

// kind returns the kind of the first value. exists and not_exists have no value.
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

// contradictsLack reports whether o forbids a part that c demands: a string that begins or
// ends with c's text contains every part of that text.
func (c *condition) contradictsLack(o *condition) bool {
	return o.op.name == OpNotContains && o.kind() == kindString && bytes.Contains(c.text(), o.text())
}

func (c *condition) takesNull() bool {
	return slices.ContainsFunc(c.list, func(o operand) bool { return o.kind == kindNull })
}

// onlyNull reports whether null is the one value that meets the condition.
func (c *condition) onlyNull() bool {
	return (c.op.name == OpEquals || c.op.name == OpIn) &&
		!slices.ContainsFunc(c.list, func(o operand) bool { return o.kind != kindNull })
}

// noneMeets reports whether none of the values that c names meets o.
func (c *condition) noneMeets(o *condition) bool {
	if o.op.takes == 0 {
		return false
	}
	for _, v := range c.list {
		if f, _ := o.test(&document{left: maxWork}, value{kind: v.kind, text: v.text}); f == met {
			return false
		}
	}
	return true
}
