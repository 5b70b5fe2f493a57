package mapdef

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
)

// A shape says what JSON a place of a definition may have. The one table of shapes in
// format.go is what Read checks against, and what the JSON Schema of the format is made of.
type shape struct {
	kind      kind
	most      int    // longest text, most items, or largest number; 0: not bounded here
	least     int    // fewest items, or smallest number
	pattern   string // of a text, RE2 and ECMA 262
	hint      string // what the text must be, in words
	enum      []string
	otherwise string // the default, as JSON; "" for none
	fields    []field
	of        *shape
}

type kind uint8

const (
	textShape kind = iota
	templateShape
	conditionShape
	durationShape
	wholeShape
	numberShape
	flagShape
	valueShape
	schemaShape
	objectShape
	listShape
	namesShape // an object whose names the author chooses, with values
	stepsShape
)

// field is one member of an object.
type field struct {
	name     string
	about    string // for the reference and the JSON Schema
	required bool
	shape    shape
}

// must returns the field as one that a definition cannot leave out.
func (f field) must() field {
	f.required, f.shape.otherwise = true, ""
	return f
}

// defaulting returns the field with the value that counts where it is left out.
func (f field) defaulting(otherwise string) field {
	f.shape.otherwise = otherwise
	return f
}

func text(name string, most int, about string) field {
	return field{name: name, about: about, shape: shape{kind: textShape, most: most}}
}

func fitting(name string, most int, pattern, hint, about string) field {
	return field{name: name, about: about, shape: shape{kind: textShape, most: most, pattern: pattern, hint: hint}}
}

func choice(name, about string, enum ...string) field {
	return field{name: name, about: about, shape: shape{kind: textShape, enum: enum, otherwise: strconv.Quote(enum[0])}}
}

func template(name, about string) field {
	return field{name: name, about: about, shape: shape{kind: templateShape, most: maxTemplate}}
}

func condition(name, about string) field {
	return field{name: name, about: about, shape: shape{kind: conditionShape}}
}

func duration(name, about string) field {
	return field{name: name, about: about, shape: shape{kind: durationShape}}
}

func whole(name string, most int, about string) field {
	return field{name: name, about: about, shape: shape{kind: wholeShape, least: 1, most: most}}
}

func number(name string, least, most int, about string) field {
	return field{name: name, about: about, shape: shape{kind: numberShape, least: least, most: most}}
}

func flag(name, about string) field {
	return field{name: name, about: about, shape: shape{kind: flagShape, otherwise: "false"}}
}

func value(name, about string) field {
	return field{name: name, about: about, shape: shape{kind: valueShape}}
}

func schema(name, about string) field {
	return field{name: name, about: about, shape: shape{kind: schemaShape}}
}

func steps(name, about string) field {
	return field{name: name, about: about, shape: shape{kind: stepsShape}}
}

func object(name, about string, fields ...field) field {
	return field{name: name, about: about, shape: shape{kind: objectShape, fields: fields}}
}

func list(name string, least, most int, about string, of shape) field {
	return field{name: name, about: about, shape: shape{kind: listShape, least: least, most: most, of: &of}}
}

func names(name string, least int, about string) field {
	return field{name: name, about: about, shape: shape{kind: namesShape, least: least, most: maxNames, pattern: namePattern, hint: nameHint}}
}

// faults collects what is wrong with a definition.
type faults struct{ list []Fault }

// maxFaults is how many faults are told. Each of 30,000 unknown members is one.
const maxFaults = 1_000

func (f *faults) add(path, rule, message string) {
	switch n := len(f.list); {
	case n < maxFaults:
		f.list = append(f.list, Fault{path, rule, message})
	case n == maxFaults:
		f.list = append(f.list, Fault{"", "too_many", "there are more faults than the 1,000 that are listed"})
	}
}

func (f *faults) addf(path, rule, format string, args ...any) {
	f.add(path, rule, fmt.Sprintf(format, args...))
}

// under returns the path of a member.
func under(path, name string) string { return path + "/" + fault.PointerToken(clip(name)) }

func at(path string, i int) string { return path + "/" + strconv.Itoa(i) }

// maxRepeated is how many bytes of a name a message or a path repeats.
const maxRepeated = 80

func clip(name string) string {
	if len(name) <= maxRepeated {
		return name
	}
	return strings.ToValidUTF8(name[:maxRepeated], "") + "…"
}

// Rules that a Fault names. Others are the keywords of JSON Schema.
const (
	ruleRequired = "required"
	ruleUnknown  = "unknown_field"
	ruleType     = "type"
	rulePattern  = "pattern"
	ruleEnum     = "enum"
)

// check finds what does not fit the shape. Lists of steps are left to the reader.
func (s shape) check(n exactjson.Node, path string, f *faults) {
	if want := s.wrongType(n); want != "" {
		f.add(path, ruleType, "must be "+want)
		return
	}
	switch s.kind {
	case textShape, templateShape, conditionShape:
		s.checkText(n.Text, path, f)
	case durationShape:
		if _, err := ParseDuration(n.Text); err != nil {
			f.add(path, "duration", err.Error())
		}
	case wholeShape, numberShape:
		s.checkNumber(n.Text, path, f)
	case objectShape:
		checkFields(n, path, s.fields, f)
	case listShape:
		s.checkCount(len(n.Items), "items", path, f)
		for i, item := range n.Items {
			s.of.check(item, at(path, i), f)
		}
	case namesShape:
		s.checkCount(len(n.Members), "members", path, f)
		for _, m := range n.Members {
			if !matches(s.pattern, m.Name) {
				f.add(under(path, m.Name), rulePattern, "the name "+s.hint)
			}
		}
	case flagShape, valueShape, schemaShape, stepsShape: // their type says all
	}
}

// wrongType returns what the value must be, "" where it is.
func (s shape) wrongType(n exactjson.Node) string {
	switch s.kind {
	case textShape, templateShape, conditionShape, durationShape:
		return unless(n.Kind == exactjson.TextNode, "a text")
	case wholeShape:
		_, err := strconv.ParseInt(n.Text, 10, 64)
		return unless(n.Kind == exactjson.NumberNode && err == nil, "a whole number")
	case numberShape:
		return unless(n.Kind == exactjson.NumberNode, "a number")
	case flagShape:
		return unless(n.Kind == exactjson.TrueNode || n.Kind == exactjson.FalseNode, "true or false")
	case objectShape, namesShape:
		return unless(n.Kind == exactjson.ObjectNode, "an object")
	case schemaShape:
		return unless(n.Kind == exactjson.ObjectNode || n.Kind == exactjson.TrueNode || n.Kind == exactjson.FalseNode, "a JSON Schema")
	case listShape, stepsShape:
		return unless(n.Kind == exactjson.ArrayNode, "an array")
	default:
		return ""
	}
}

func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

func (s shape) checkText(t, path string, f *faults) {
	length := utf8.RuneCountInString(t)
	switch {
	case len(s.enum) > 0 && !slices.Contains(s.enum, t):
		f.add(path, ruleEnum, "must be one of "+strings.Join(s.enum, ", ")+asked(near.Ask(t, s.enum)))
	case s.pattern != "" && !matches(s.pattern, canonical(s.pattern, t)):
		f.add(path, rulePattern, s.hint)
	case s.most > 0 && length > s.most:
		f.addf(path, "maxLength", "must have at most %d characters", s.most)
	case t == "" && len(s.enum) == 0 && s.pattern == "":
		f.add(path, "minLength", "must not be empty")
	}
}

func (s shape) checkNumber(t, path string, f *faults) {
	n, err := strconv.ParseFloat(t, 64)
	switch {
	case err != nil || n < float64(s.least):
		f.addf(path, "minimum", "must be at least %d", s.least)
	case s.most > 0 && n > float64(s.most):
		f.addf(path, "maximum", "must be at most %d", s.most)
	}
}

func (s shape) checkCount(n int, what, path string, f *faults) {
	switch {
	case n < s.least && s.least == 1:
		f.add(path, "minItems", "must not be empty")
	case n < s.least:
		f.addf(path, "minItems", "must have at least %d %s", s.least, what)
	case s.most > 0 && n > s.most:
		f.addf(path, "maxItems", "must have at most %d %s", s.most, what)
	}
}

// checkFields checks the members of an object against its fields.
func checkFields(n exactjson.Node, path string, fields []field, f *faults) {
	for _, m := range n.Members {
		i := slices.IndexFunc(fields, func(fd field) bool { return fd.name == m.Name })
		if i < 0 {
			f.add(under(path, m.Name), ruleUnknown, unknownMessage(m.Name, fields))
			continue
		}
		fields[i].shape.check(m.Value, under(path, m.Name), f)
	}
	for _, fd := range fields {
		if _, ok := n.Get(fd.name); fd.required && !ok {
			f.add(under(path, fd.name), ruleRequired, "is required: "+fd.about)
		}
	}
}

func unknownMessage(name string, fields []field) string {
	known := make([]string, len(fields))
	for i, fd := range fields {
		known[i] = fd.name
		if strings.EqualFold(fd.name, name) {
			return "unknown field; names are case-sensitive, write " + fd.name
		}
	}
	if meant := near.Name(name, known); meant != "" {
		return "unknown field; did you mean " + meant + "? Known fields are " + strings.Join(known, ", ")
	}
	return "unknown field; known fields are " + strings.Join(known, ", ")
}

// asked returns a question as the end of a message.
func asked(question string) string {
	if question == "" {
		return ""
	}
	return "; " + question
}

// canonical returns the canonical spelling where the pattern is that of verbs, and other texts as they
// are.
func canonical(pattern, text string) string {
	if pattern == verbPattern || pattern == toolPattern {
		return verb.Canonical(text)
	}
	return text
}

// matches reports whether a text has a pattern of the format. The patterns are ours.
func matches(pattern, text string) bool {
	for _, p := range patterns {
		if p.String() == pattern {
			return p.MatchString(text)
		}
	}
	return false
}

//nolint:gochecknoglobals // immutable: the patterns of the format, compiled once
var patterns = []*regexp.Regexp{
	regexp.MustCompile(namePattern), regexp.MustCompile(verbPattern), regexp.MustCompile(codePattern),
	regexp.MustCompile(codeOrAnyPattern), regexp.MustCompile(customPattern), regexp.MustCompile(eventPattern),
	regexp.MustCompile(idPattern), regexp.MustCompile(uuidPattern), regexp.MustCompile(toolPattern),
	regexp.MustCompile(criterionPattern),
}
