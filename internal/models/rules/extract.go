package rules

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/models/model"
)

// shape is what of a JSON Schema the model goes by. What it cannot read, such as a reference, it leaves
// out.
type shape struct {
	property

	Properties map[string]*shape `json:"properties"`
	Required   []string          `json:"required"`
	Items      *shape            `json:"items"`
}

// extractor reads values of a schema out of data.
type extractor struct {
	*effort

	raw    any
	leaves []leaf
	// text is what is read of the data as a text, and scan what it has for arguments.
	text string
	scan *scan
}

// extractorOf returns one for data. from is its text.
func extractorOf(e *effort, raw json.RawMessage, from string) *extractor {
	text := beginning(from, mostText)
	return &extractor{effort: e, raw: decoded(raw), leaves: leavesOf(raw), text: text, scan: e.scanOf(text)}
}

// extract answers a step that reads a value of a schema. What the data does not say is left out.
func extract(e *effort, req model.Request) string {
	data, _ := dataOf(asked(req))
	var s shape
	_ = json.Unmarshal(req.OutputSchema, &s) // without one, any value is right
	input := dataIn(data, "input")
	value, ok := extractorOf(e, input, plainOf(input)).value("", &s)
	if !ok {
		return "null"
	}
	return encoded(value)
}

func encoded(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return "null" // it is made of texts, numbers and lists
	}
	return string(raw)
}

// value returns the value of a schema for a property; ok is false where the data has none.
func (x *extractor) value(name string, s *shape) (value any, ok bool) {
	switch {
	case s == nil || x.over: // an item of any form, or the bound
		return nil, false
	case s.is("object") || len(s.Properties) > 0:
		return x.object(s)
	case s.is("array"):
		return x.array(name, s)
	}
	if value, ok = x.known(name, s); !ok {
		value, ok = x.read(name, s)
	}
	return value, ok
}

// object reads the properties of a schema. It is none where the data has nothing of it. Ids, numbers,
// addresses, words of an enum and texts in quotes are read as arguments of tools are.
func (x *extractor) object(s *shape) (any, bool) {
	const describing = 20 // units for a property
	if !x.spend(describing * len(s.Properties)) {
		return nil, false
	}
	args, _ := s.candidate(model.Tool{Name: "extract"}).fill(x.effort, wish{text: x.text}, x.scan)
	filled, out := values(args), map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if p == nil {
			continue
		}
		value, ok := x.known(name, p)
		if !ok {
			value, ok = filled[name]
			if text, is := value.(string); is {
				value, _, _ = strings.Cut(text, ". ") // what is said after it
			}
		}
		if !ok {
			value, ok = x.value(name, p)
		}
		if !ok && p.is("null") && slices.Contains(s.Required, name) {
			value, ok = nil, true
		}
		if ok {
			out[name] = value
		}
	}
	return out, len(out) > 0
}

// known returns the value that the data has under the name: that of the name itself, otherwise one with
// the name of the member around it.
func (x *extractor) known(name string, s *shape) (any, bool) {
	if name == "" {
		return s.as(x.raw)
	}
	const reading = 3
	if !x.spend(reading * len(x.leaves)) {
		return nil, false
	}
	words := inWords(name)
	for _, called := range []func(leaf) string{leaf.name, leaf.long} {
		for _, l := range x.leaves {
			if called(l) == words {
				if value, fits := s.as(l.value); fits {
					return value, true
				}
			}
		}
	}
	return nil, false
}

// as returns a plain value as the schema wants it; ok is false where it cannot be that.
func (s *shape) as(value any) (any, bool) {
	if len(s.Enum) > 0 {
		for _, one := range s.Enum {
			if want := decoded(one); want == value || strings.EqualFold(leaf{value: want}.text(), leaf{value: value}.text()) && want != nil {
				return want, true
			}
		}
		return nil, false
	}
	text := strings.TrimSpace(leaf{value: value}.text())
	_, isNumber := value.(json.Number)
	_, isBool := value.(bool)
	switch {
	case value == nil || text == "" && !isNumber:
		return nil, false
	case s.Type == nil:
		return value, true
	case s.is("string"):
		return text, !isBool || !s.is("boolean")
	case s.is("integer"):
		n := json.Number(text)
		_, err := n.Int64()
		return n, err == nil
	case s.is("number"):
		n := json.Number(text)
		_, err := n.Float64()
		return n, err == nil && !isBool
	case s.is("boolean"):
		yes, err := strconv.ParseBool(text)
		return yes, err == nil && !isNumber
	}
	return nil, false
}

var (
	phone     = regexp.MustCompile(`\+[0-9][0-9 ()./-]{6,18}[0-9]`)
	link      = regexp.MustCompile(`https?://[^\s<>"']+[^\s<>"'.,;)]`)
	isoDate   = regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+(Z|[+-][0-9:]+)?)?\b`)
	anyNumber = regexp.MustCompile(`-?[0-9]+(?:[.][0-9]+)?`)
)

// read returns the value that the text says for a property: the first of its form, or the only number.
func (x *extractor) read(name string, s *shape) (any, bool) {
	const passes = 3 // what looks for a value goes through the text
	if x.text == "" || !x.spend(passes*len(x.text)) {
		return nil, false
	}
	var form *regexp.Regexp
	words := inWords(name)
	switch {
	case s.is("integer") || s.is("number"):
		rest := isoDate.ReplaceAllString(phone.ReplaceAllString(idLike.ReplaceAllString(x.text, " "), " "), " ")
		if found := anyNumber.FindAllString(rest, 2); len(found) == 1 {
			return s.as(json.Number(found[0]))
		}
		return nil, false
	case len(s.Enum) > 0 || s.Type != nil && !s.is("string"):
		return nil, false
	case strings.Contains(words, "phone"):
		form = phone
	case s.Format == "uri" || strings.HasSuffix(words, "url") || words == "link":
		form = link
	case s.Format == "date" || s.Format == "date-time" || strings.Contains(words, "date"):
		form = isoDate
	default:
		return nil, false
	}
	found := form.FindString(x.text)
	return found, found != ""
}

// array reads the list that the data has under the name.
func (x *extractor) array(name string, s *shape) (any, bool) {
	list, is := member(x.raw, name).([]any)
	if !is {
		return nil, false
	}
	out := []any{}
	for _, item := range list {
		raw := json.RawMessage(encoded(item))
		if !x.spend(len(raw)) {
			break
		}
		if value, ok := extractorOf(x.effort, raw, plainOf(raw)).value("", s.Items); ok {
			out = append(out, value)
		}
	}
	return out, true
}

// member returns the first member with the name, at any depth; the value itself for "". It is nil
// where there is none.
func member(value any, name string) any {
	if name == "" {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if inWords(key) == inWords(name) {
				return value[key]
			}
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if found := member(value[key], name); found != nil {
				return found
			}
		}
	case []any:
		for _, item := range value {
			if found := member(item, name); found != nil {
				return found
			}
		}
	}
	return nil
}
