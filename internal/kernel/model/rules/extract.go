package rules

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/kernel/agentloop"
	"agentruntime/internal/kernel/language"
	"agentruntime/internal/kernel/model"
)

// shape is what of a JSON Schema the model goes by.
type shape struct {
	property

	Const      json.RawMessage            `json:"const"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`
	AnyOf      []json.RawMessage          `json:"anyOf"` //nolint:tagliatelle // JSON Schema has named it
	OneOf      []json.RawMessage          `json:"oneOf"` //nolint:tagliatelle // as above
	Ref        string                     `json:"$ref"`
}

// mostDepth is how deep values nest that are read.
const mostDepth = 12

// extractor reads values of a schema out of data.
type extractor struct {
	*effort

	// root is the schema, in which references lead.
	root   any
	raw    any
	leaves []leaf
	// text is what is read of the data as a text, and scan what it has for arguments; nil until it is
	// looked for.
	text string
	scan *scan
}

// extract answers a step that reads a value of a schema. What the data does not say is left out.
func extract(e *effort, req model.Request) string {
	data, _ := dataOf(asked(req))
	return extracted(e, req.OutputSchema, dataIn(data, "input"))
}

func extracted(e *effort, schema, input json.RawMessage) string {
	x := &extractor{effort: e, root: decoded(schema), raw: decoded(input), leaves: leavesOf(input), text: beginning(plainOf(input), mostText)}
	value, ok := x.value("", schema, true, 0)
	if !ok {
		value = nil
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

func (x *extractor) shape(raw json.RawMessage) (s shape) {
	for range mostDepth {
		s = shape{}
		const reading = 10
		if !x.spend(reading + len(raw)/bytesRead) {
			return s
		}
		if json.Unmarshal(raw, &s) != nil || s.Ref == "" {
			return s
		}
		at := x.root
		for part := range strings.SplitSeq(strings.TrimPrefix(s.Ref, "#/"), "/") {
			object, _ := at.(map[string]any)
			at = object[part]
		}
		raw = json.RawMessage(encoded(at))
	}
	return shape{}
}

// bytesRead is how many bytes of JSON are read for a unit.
const bytesRead = 4

// value returns the value of a schema for a property; ok is false where the data has none.
func (x *extractor) value(name string, schema json.RawMessage, required bool, depth int) (value any, ok bool) {
	const reading = 20 // units for a value
	if depth > mostDepth || !x.spend(reading) {
		return nil, false
	}
	s := x.shape(schema)
	if s.Const != nil {
		return decoded(s.Const), true
	}
	for _, one := range slices.Concat(s.AnyOf, s.OneOf) {
		if value, ok = x.value(name, one, false, depth+1); ok {
			return value, true
		}
	}
	switch {
	case s.is("object") || len(s.Properties) > 0:
		return x.object(s, depth)
	case s.is("array"):
		return x.array(name, s, depth)
	}
	if value, ok = x.known(name, s); !ok {
		value, ok = x.read(name, s, required)
	}
	if !ok && required && s.is("null") {
		return nil, true
	}
	return value, ok
}

// object reads the properties of a schema. It is none where the data has nothing of it.
func (x *extractor) object(s shape, depth int) (any, bool) {
	filled := x.filled(s)
	out, isRequired := map[string]any{}, map[string]bool{}
	for _, name := range s.Required {
		isRequired[name] = true
	}
	order := slices.Concat(s.Required, slices.Sorted(maps.Keys(s.Properties)))
	for _, name := range order {
		raw, described := s.Properties[name]
		if _, done := out[name]; done || !described || x.over {
			continue
		}
		required := isRequired[name]
		p := x.shape(raw)
		value, ok := x.known(name, p)
		if !ok {
			value, ok = filled[name]
		}
		if !ok {
			value, ok = x.value(name, raw, required, depth+1)
		}
		if ok {
			out[name] = value
		}
	}
	return out, len(out) > 0
}

// filled returns the properties that are read as arguments of tools are: ids, numbers, addresses, words
// of an enum, texts in quotes.
func (x *extractor) filled(s shape) map[string]any {
	schema := json.RawMessage(encoded(map[string]any{"properties": s.Properties, "required": s.Required}))
	const describing = 50 // units for a property
	if !x.spend(len(schema)/bytesRead + describing*len(s.Properties)) {
		return nil
	}
	if x.scan == nil {
		x.scan = x.scanOf(x.text)
	}
	args, _ := candidateOf(model.Tool{Name: "extract", Schema: schema}).fill(x.effort, wish{text: x.text}, x.scan)
	out := values(args)
	for name, value := range out {
		if text, is := value.(string); is {
			out[name], _, _ = strings.Cut(text, ". ") // what is said after the value
		}
	}
	return out
}

// known returns the value that the data has under the name.
func (x *extractor) known(name string, s shape) (any, bool) {
	if name == "" {
		return s.as(x.raw)
	}
	for _, value := range find(x.effort, name, x.leaves) {
		if value, fits := s.as(value); fits {
			return value, true
		}
	}
	return nil, false
}

// as returns a plain value as the schema wants it; ok is false where it cannot be that.
func (s shape) as(value any) (any, bool) {
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
	link      = regexp.MustCompile(`https?://[^\s<>"']+`)
	isoDate   = regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+(Z|[+-][0-9:]+)?)?\b`)
	because   = regexp.MustCompile(`(?i)\b(?:because(?: of)?|since|due to)\s+([^.!?\n]+)`)
	iAmCalled = regexp.MustCompile(`(?:(?i:my name is|i am|i'm|this is|name is|regards,?|sincerely,?|cheers,?|thanks,?))\s+(\p{Lu}[\p{L}'-]+(?: \p{Lu}[\p{L}'-]+){0,2})`)
)

// read returns the value that the text says for a property.
func (x *extractor) read(name string, s shape, required bool) (any, bool) {
	words := inWords(name)
	// What looks for a value goes through the text.
	const passes = 2
	looks := func() bool { return x.spend(passes * len(x.text)) }
	switch {
	case len(s.Enum) > 0:
		return x.oneOf(s)
	case s.is("boolean"):
		if !looks() {
			return nil, false
		}
		return x.says(words, required)
	case s.is("integer") || s.is("number"):
		if !looks() {
			return nil, false
		}
		return x.number(words, s)
	case s.Type != nil && !s.is("string"):
		return nil, false
	}
	for _, rule := range []struct {
		is    bool
		found func(text string) string
	}{
		{s.Format == "email" || strings.Contains(words, "email"), email.FindString},
		{strings.Contains(words, "phone") || strings.Contains(words, "mobile"), phone.FindString},
		{s.Format == "uri" || strings.HasSuffix(words, "url") || words == "link", func(text string) string { return strings.TrimRight(link.FindString(text), ".,;)") }},
		{s.Format == "date" || s.Format == "date-time" || strings.Contains(words, "date"), isoDate.FindString},
		{isID(name), idLike.FindString},
		{words == "language", languageOf},
		{words == "reason" || words == "cause", func(text string) string { return first(because, text) }},
		{words == "name" || words == "customer" || strings.HasSuffix(words, " name"), func(text string) string { return first(iAmCalled, text) }},
		{words == "subject" || words == "title" || words == "summary" || words == "topic", firstSentence},
		{slices.Contains([]string{"", "text", "body", "message", "description", "content", "question", "request", "issue", "problem", "comment"}, words), strings.TrimSpace},
	} {
		if rule.is && looks() {
			found := rule.found(x.text)
			return found, found != ""
		}
	}
	return nil, false
}

func first(of *regexp.Regexp, text string) string {
	if found := of.FindStringSubmatch(text); found != nil {
		return strings.TrimSpace(found[1])
	}
	return ""
}

func languageOf(text string) string {
	l, _ := language.Of(text)
	return l.Code
}

func firstSentence(text string) string {
	if list := agentloop.Sentences(text); len(list) > 0 {
		return short(list[0])
	}
	return ""
}

// oneOf returns the value of an enum that the text says, or that its words suggest.
func (x *extractor) oneOf(s shape) (any, bool) {
	var labels []string
	for _, raw := range s.Enum {
		label, is := decoded(raw).(string)
		if !is {
			return nil, false
		}
		labels = append(labels, label)
	}
	label, score := bestLabel(x.effort, labels, x.text)
	return label, score > 0
}

var negation = regexp.MustCompile(`(?i)\b(no|not|never|without|isn't|wasn't|don't|doesn't|didn't|no longer)\b`)

// says reports whether the text says what a property is called. Where it does not, a property that is
// required is false.
func (x *extractor) says(words string, required bool) (any, bool) {
	stem := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(words, "is "), "has "), "wants ")
	for _, sentence := range agentloop.Sentences(x.text) {
		at := strings.Index(strings.ToLower(sentence), stem)
		if at < 0 {
			continue
		}
		const near = 20 // bytes before, about three words
		return !negation.MatchString(sentence[max(0, at-near):at]), true
	}
	return false, required
}

const digitsOf = `(-?[0-9]+(?:[.][0-9]+)?)`

var anyNumber = regexp.MustCompile(digitsOf)

// number returns the number that stands beside the name of a property, otherwise the only one of the
// text.
func (x *extractor) number(words string, s shape) (any, bool) {
	if words != "" {
		stem := regexp.QuoteMeta(singular(words))
		for _, pattern := range []string{`(?i)\b` + stem + `\w*\s*(?:is|of|:|=)?\s*` + digitsOf, `(?i)` + digitsOf + `\s*` + stem} {
			if at := x.matches(pattern, x.text); at != nil {
				return s.as(json.Number(x.text[at[2]:at[3]]))
			}
		}
	}
	rest := isoDate.ReplaceAllString(phone.ReplaceAllString(idLike.ReplaceAllString(x.text, " "), " "), " ")
	if found := anyNumber.FindAllString(rest, 2); len(found) == 1 {
		return s.as(json.Number(found[0]))
	}
	return nil, false
}

// array reads a list: that which the data has under the name, otherwise all ids or addresses of the
// text.
func (x *extractor) array(name string, s shape, depth int) (any, bool) {
	if list, is := member(x.raw, name).([]any); is {
		out := []any{}
		for _, item := range list {
			if x.over {
				break
			}
			raw := json.RawMessage(encoded(item))
			x.spend(len(raw) / bytesRead)
			one := &extractor{effort: x.effort, root: x.root, raw: item, leaves: leavesOf(raw), text: beginning(plainOf(raw), mostText)}
			if value, ok := one.value("", s.Items, true, depth+1); ok {
				out = append(out, value)
			}
		}
		return out, true
	}
	if item := x.shape(s.Items); !item.is("string") {
		return nil, false
	}
	var found []string
	switch words := inWords(name); {
	case strings.Contains(words, "email"):
		found = email.FindAllString(x.text, -1)
	case strings.HasSuffix(words, "url") || strings.HasSuffix(words, "urls") || strings.HasSuffix(words, "links"):
		found = link.FindAllString(x.text, -1)
	case words == "" || strings.HasSuffix(words, "id") || strings.HasSuffix(words, "ids"):
		found = idLike.FindAllString(x.text, -1)
	}
	out := []any{}
	for _, one := range found {
		if !slices.Contains(out, any(one)) {
			out = append(out, one)
		}
	}
	return out, len(out) > 0
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
