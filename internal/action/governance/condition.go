package governance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentruntime/internal/base/near"
	"agentruntime/internal/base/pattern"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
)

// Limits of a condition's value.
const (
	maxValue    = 4 << 10  // bytes
	maxList     = 100      // elements of in and not_in
	maxProgram  = 2000     // instructions of a regular expression
	maxPrograms = 5000     // instructions of all of a policy's, or a grant's
	maxMatchLen = 64 << 10 // bytes of a text for matches; a longer one cannot be judged
)

// operand is a condition's value, or one of its list.
type operand struct {
	kind   kind
	text   []byte // a string's meaning, a boolean's text
	number decimal
}

// condition is a Condition that is ready to be judged.
type condition struct {
	field

	source Condition
	op     *operation // the row of its operator
	list   []operand  // one, except for in and not_in
	re     *pattern.Pattern
	secret bool // the field's name says that its values are secret
	// shown is the value as explanations repeat it, nil for none, and brief as a reason does. Both
	// are for values that are not secret.
	shown json.RawMessage
	brief []byte
	// other is the field to compare with, nil where there is a value. While it is judged, list has
	// a value of that field, or otherWhy says why there is none.
	other    *field
	otherWhy why
	window   *window // nil where there is a field
	// looksUp: it needs the answer of a look-up.
	looksUp bool
}

// problem says what is wrong with a condition: the field, the rule it breaks, and a message.
type problem struct{ field, rule, message string }

func (p *problem) Error() string { return p.field + " " + p.message }

// compileCondition reads a condition. The condition is nil where anything is wrong. Problems never
// repeat a value.
func compileCondition(source Condition) (*condition, []*problem) {
	if source.Operator.asksPresence() {
		source.Value = nil // it is ignored, so it carries nothing
	}
	c := &condition{source: source}
	var known bool
	c.op, known = source.Operator.row()
	if source.Window != nil {
		if wrong := c.readWindow(); len(wrong) > 0 {
			return nil, wrong
		}
		c.secret = c.looksSecret() || c.window.sum != nil && c.window.sum.namedLikeASecret()
		c.readShown()
		return c, nil
	}
	var p *problem
	if c.field, p = readField(source.Field, source.Zone); p != nil {
		return nil, []*problem{p}
	}
	switch {
	case source.ValueField != "":
		p = c.readOther()
	case !known:
		p = &problem{"operator", "enum", "is not an operator; these are: " + strings.Join(operatorNames(), ", ") + near.Sentence(string(source.Operator), operatorNames())}
	case c.op.takes != 0:
		p = c.readValue()
	}
	if p != nil {
		return nil, []*problem{p}
	}
	c.secret = (c.from != ofCall || c.other != nil) && c.looksSecret()
	c.looksUp = c.from == ofLookup || c.other != nil && c.other.from == ofLookup
	c.readShown()
	return c, nil
}

// readValue reads the value as the operator needs it.
func (c *condition) readValue() *problem {
	want, list := c.op.takes, c.op.list
	switch {
	case len(c.source.Value) == 0:
		return &problem{"value", "required", "is missing; " + needs(want, list)}
	case len(c.source.Value) > maxValue:
		return &problem{"value", "maxLength", fmt.Sprintf("is longer than %d bytes", maxValue)}
	case strictjson.Check(c.source.Value, strictjson.Options{Free: []string{""}}) != nil:
		return &problem{"value", "json", "is not acceptable JSON"}
	}
	if p := c.readOperands(want, list); p != nil {
		return p
	}
	switch {
	case c.op.name == OpMatches || c.op.name == OpNotMatches:
		return c.compileRegexp()
	case c.op.length:
		return c.checkLength()
	}
	if c.source.Window == nil && (want == kindScalar|kindNull || want == kindNumber) {
		return c.checkOperands(c.list)
	}
	return nil
}

// readShown makes what is told of the value.
func (c *condition) readShown() {
	value := c.source.Value
	if !json.Valid(value) { // exists has none
		return
	}
	if c.shown = value; len(value) > maxActual {
		c.shown = tooLarge()
	}
	c.brief = brief(value)
}

// readOperands splits the value, which is checked JSON.
func (c *condition) readOperands(want kind, list bool) *problem {
	d := document{data: bytes.Clone(c.source.Value)}
	if !d.load() {
		return &problem{"value", "json", "is not acceptable JSON"}
	}
	from, end := uint32(0), uint32(1)
	if list {
		switch n := d.node(0).count; {
		case d.node(0).kind != kindArray:
			return &problem{"value", "type", needs(want, list)}
		case n == 0:
			return &problem{"value", "minItems", "has no elements"}
		case n > maxList:
			return &problem{"value", "maxItems", fmt.Sprintf("has more than %d elements", maxList)}
		}
		from, end = 1, d.node(0).next
	}
	for i := from; i < end; i = d.node(i).next {
		o := operand{kind: d.node(i).kind, text: d.raw(i)}
		if o.kind&want == 0 {
			return &problem{"value", "type", needs(want, list)}
		}
		switch o.kind {
		case kindNumber:
			var ok bool
			if o.number, ok = parseDecimal(d.raw(i)); !ok {
				return &problem{"value", "number", "has a number that is too long or too large"}
			}
		case kindString:
			if o.text = d.text(i); c.namesVerb() {
				o.text = []byte(verb.Canonical(string(o.text)))
			}
		default: // the text is the value
		}
		c.list = append(c.list, o)
		if !list {
			break
		}
	}
	return nil
}

// namesVerb reports whether the values are whole names of verbs or of providers, which have one spelling.
// A part of a name, or a regular expression, is no name.
func (c *condition) namesVerb() bool {
	return slices.Contains([]string{fieldVerb, fieldProvider}, c.source.Field) && c.op.takes&kindNull != 0
}

// needs says what an operator's value must be.
func needs(want kind, list bool) string {
	one := "a string, a number, true or false"
	switch want {
	case kindNumber:
		one = "a number"
	case kindString:
		one = "a string"
	case kindScalar | kindNull:
		one += " or null"
	default:
	}
	if list {
		return "must be an array of which every element is " + one
	}
	return "must be " + one
}

func (c *condition) compileRegexp() *problem {
	re, err := pattern.Compile(string(c.list[0].text), maxProgram)
	if err != nil {
		return &problem{"value", "regexp", err.Error()}
	}
	c.re = re
	return nil
}

// Instructions returns how many instructions the regular expressions of the conditions have
// together: what compiling and keeping them costs. It skips those that cannot be read.
func Instructions(list []Condition) int {
	r := &clauseReader{anyLookup: true}
	r.whole("", normalizeConditions(list))
	return r.instructions
}

// looksSecret reports whether the value would be masked in arguments at this path.
func (c *condition) looksSecret() bool {
	if c.namedLikeASecret() || c.other != nil && c.other.namedLikeASecret() {
		return true
	}
	for _, o := range c.list {
		if redact.ContainsCard(string(o.text)) {
			return true
		}
	}
	return false
}

func (f *field) namedLikeASecret() bool {
	return slices.ContainsFunc(f.path, func(s segment) bool { return redact.LooksSecret(s.name) })
}
