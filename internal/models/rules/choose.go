package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/wordrank"
	"agentruntime/internal/models/model"
)

// candidate is a tool with what its schema says.
type candidate struct {
	model.Tool

	writes   bool
	required []string
	order    []string
	props    map[string]property
	// words are those of the verb, and ids are the arguments that are ids.
	words string
	ids   []string
	// texts counts the required arguments that any text may be.
	texts int
}

type property struct {
	Type        any               `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
}

func (p property) is(kind string) bool {
	if list, many := p.Type.([]any); many {
		return slices.Contains(list, any(kind))
	}
	return p.Type == kind
}

// verbOf returns the name of a tool without its provider: shop:get_order and shop__get_order are
// get_order.
func verbOf(name string) string {
	for _, mark := range []string{":", "__"} {
		if _, verb, cut := strings.Cut(name, mark); cut {
			return verb
		}
	}
	return name
}

func candidateOf(t model.Tool) candidate {
	var s shape
	_ = json.Unmarshal(t.Schema, &s) // what is no schema has no arguments
	return s.candidate(t)
}

// candidate returns the tool whose arguments are the properties of the schema.
func (s *shape) candidate(t model.Tool) candidate {
	c := candidate{Tool: t, words: inWords(verbOf(t.Name)), writes: t.Operation != "read", required: s.Required, order: slices.Clone(s.Required), props: map[string]property{}}
	for name, p := range s.Properties {
		if p != nil {
			c.props[name] = p.property
		}
	}
	isRequired := map[string]bool{}
	for _, name := range s.Required {
		isRequired[name] = true
		if p := c.props[name]; len(p.Enum) == 0 && !p.isNumber() && !p.is("boolean") {
			c.texts++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.props)) {
		if !isRequired[name] {
			c.order = append(c.order, name)
		}
	}
	for _, name := range c.order {
		if isID(name) {
			c.ids = append(c.ids, name)
		}
	}
	return c
}

// inWords returns a name as words: create_refund and createRefund are create refund.
func inWords(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case r == '_' || r == '-' || r == ':' || r == '.':
			b.WriteByte(' ')
			continue
		case unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(name[i-1])):
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// The weights of a choice. Words decide first: a tool without a word of the message is none.
const (
	ranked     = 12
	perFilled  = 2.0
	perMissing = 1.5
	forWrite   = 1.0
	unlikely   = 6.0 // a write that is not asked for, or a list where one thing is
)

var manyOf = regexp.MustCompile(`(?i)\b(list|all|every|which)\b`)

// ofMany reports whether a tool reads many things where the text asks for one. A customer who asks for
// their order must not get those of others.
func (c candidate) ofMany(text string) bool {
	verb, _, _ := strings.Cut(c.words, " ")
	return (verb == "list" || verb == "search") && !manyOf.MatchString(text)
}

var question = regexp.MustCompile(`(?i)^\W*(where|what|which|who|when|how|is|are|has|have|did|does|show|list|find|get|look|check|status|tell me)\b|\?\s*$`)

// request is the begin of a question that asks for something to be done.
var request = regexp.MustCompile(`(?i)^\W*(please\W+)?(can|could|would|will) (you|i|we)\b`)

// escalate is the tool that hands over to a person. It is called where the customer asks for one, and
// never because of a word that its description has too.
const escalate = "escalate"

// handOver returns the call of escalate where the wish is for a person and there is the tool.
func handOver(tools []model.Tool, w wish) (model.ToolCall, bool) {
	if !agentloop.WantsPerson(w.text) || !slices.ContainsFunc(tools, func(t model.Tool) bool { return t.Name == escalate }) {
		return model.ToolCall{}, false
	}
	return model.ToolCall{ID: "call_escalate", Name: escalate, Args: json.RawMessage(`{"reason":"The customer asks for a person."}`)}, true
}

// choose returns the tool that the wish is for with its arguments, and which required ones are missing;
// nil where none fits.
func choose(e *effort, tools []model.Tool, w wish) (*candidate, []argument, []string) {
	list := make([]candidate, len(tools))
	for i, tool := range tools {
		list[i] = candidateOf(tool)
	}
	text, s := meant(e, list, w.text), e.scanOf(w.text)
	asks := question.MatchString(strings.TrimSpace(w.text)) && !request.MatchString(w.text)
	var best *candidate
	var args []argument
	var missing []string
	top := 0.0
	docs := make([]wordrank.Doc, len(list))
	for i, c := range list {
		docs[i] = wordrank.Doc{Name: c.words, Text: c.Description}
	}
	for _, hit := range wordrank.New(docs).Rank(text, ranked) {
		c := list[hit.Doc]
		if own(c.Name) {
			continue
		}
		filled, lacks := c.fill(e, w, s)
		score := hit.Score + perFilled*float64(len(filled)) - perMissing*float64(len(lacks))
		if c.ofMany(w.text) || c.writes && (asks || !c.named(text)) {
			score -= unlikely
		} else if c.writes {
			score += forWrite
		}
		if best == nil || score > top {
			best, args, missing, top = &c, filled, lacks, score
		}
	}
	if best != nil && best.writes && !best.named(text) {
		return nil, nil, nil
	}
	return best, args, missing
}

// creators are first words of names of verbs that make what their last word says. "Refund ord_1001" is
// for create_refund.
var creators = regexp.MustCompile(`^(create|add|make|open|send|post|start|new|issue|place)\b`)

// named reports whether the text says what the tool does: its first word, or what it makes.
func (c candidate) named(text string) bool {
	text = strings.ToLower(text)
	verb, _, _ := strings.Cut(c.words, " ")
	made := c.words[strings.LastIndex(c.words, " ")+1:]
	return strings.Contains(text, verb) || creators.MatchString(verb) && strings.Contains(text, made)
}

// argument is one argument of a call.
type argument struct {
	name  string
	value any
}

func values(args []argument) map[string]any {
	out := make(map[string]any, len(args))
	for _, a := range args {
		out[a.name] = a.value
	}
	return out
}

// with says the arguments in words.
func with(args []argument) string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = fmt.Sprintf("%s %v", inWords(a.name), a.value)
	}
	if len(list) == 0 {
		return ""
	}
	return " with " + strings.Join(list, ", ")
}

var (
	idLike = regexp.MustCompile(`\b[A-Za-z]{2,12}[_-][A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|#[0-9]+`)
	email  = regexp.MustCompile(`[^\s@<>"',;]+@[^\s@<>"',;]+\.[A-Za-z]{2,}`)
	number = regexp.MustCompile(`([$€£]\s*)?(-?[0-9]+(?:[.,][0-9]{1,2})?)\s*(dollars?|usd|euros?|eur|pounds?|gbp|cents?|[$€£])?`)
	quoted = regexp.MustCompile(`"([^"]+)"|“([^”]+)”`)
)

// mayBeID matches an answer to the question for an id that may be one: it has a digit, or is a word. A
// sentence is none.
var mayBeID = regexp.MustCompile(`[0-9]|^[!-~]+$`)

// fill returns the arguments that the wish has, and the required ones that it lacks. s is of its text.
func (c candidate) fill(e *effort, w wish, s *scan) (args []argument, missing []string) {
	const looking = 4 // units for an argument, and for each KiB of the text
	if !e.spend(looking * len(c.order) * (1 + len(s.text)>>10)) {
		return nil, c.required
	}
	f := filling{scan: s, wish: w, effort: e, ids: slices.Clone(s.ids), quotes: slices.Clone(s.quotes)}
	rest := s.rest
	bare := map[string]string{}
	for _, name := range c.ids {
		if id, left, found := c.bareID(e, name, rest, s.lower); found {
			bare[name], rest = id, left
		}
	}
	if slices.ContainsFunc(c.order, func(name string) bool { return c.props[name].isNumber() }) && e.spend(len(rest)) {
		f.numbers = number.FindAllStringSubmatch(rest, mostIDs)
	}
	for i, name := range c.order {
		p := c.props[name]
		required := i < len(c.required)
		value, ok := c.value(&f, name, p, required)
		if id := bare[name]; !ok && id != "" {
			value, ok = id, true
		}
		if ok {
			args = append(args, argument{name, value})
		} else if required {
			missing = append(missing, name)
		}
	}
	return args, missing
}

// filling is what arguments are filled from.
type filling struct {
	*scan
	*effort

	wish wish
	// ids, numbers and quotes are those that no argument has taken yet.
	ids             []string
	numbers, quotes [][]string
}

func (p property) isNumber() bool { return p.is("integer") || p.is("number") }

func (c candidate) value(f *filling, name string, p property, required bool) (any, bool) {
	words := inWords(name)
	told := strings.TrimSpace(f.wish.told[words])
	switch {
	case len(p.Enum) > 0:
		return enum(f.effort, p.Enum, f.lower)
	case p.isNumber():
		return c.number(f, name, p, required)
	case p.is("boolean") || p.is("array") || p.is("object"):
		return nil, false
	case p.Format == "email" || strings.Contains(name, "email"):
		f.spend(len(f.text))
		found := email.FindString(f.text)
		return found, found != ""
	}
	if f.spend(len(f.ids) * (1 + len(c.ids))) {
		if i := slices.IndexFunc(f.ids, func(id string) bool { return c.isFor(name, id) }); i >= 0 {
			id := f.ids[i]
			f.ids = slices.Delete(f.ids, i, i+1)
			return p.asID(id), true
		}
	}
	if strings.Contains(f.lower, words) {
		if at := f.matches(`(?i)\b`+regexp.QuoteMeta(words)+`\s*(?:is|:|=)\s*([^\n,;]+)`, f.text); at != nil {
			return strings.Trim(strings.TrimSpace(f.text[at[2]:at[3]]), `"`), true
		}
	}
	switch {
	case told != "" && (!isID(name) || mayBeID.MatchString(told)):
		if isID(name) {
			told = p.asID(told)
		}
		return told, true
	case required && !isID(name) && len(f.quotes) > 0:
		text := f.quotes[0][1] + f.quotes[0][2]
		f.quotes = f.quotes[1:]
		return text, true
	}
	return nil, false
}

func isID(name string) bool { return name == "id" || strings.HasSuffix(inWords(name), " id") }

// isFor reports whether an id is for an argument. The letters at the begin of an id say what it is of:
// ord_1001 is for order_id. An id whose letters are for no argument fills the only required text.
func (c candidate) isFor(name, id string) bool {
	letters := lettersOf(id)
	letters = letters[:min(len(letters), 3)]
	begins := func(words []string) bool {
		return len(letters) >= 2 && slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, letters) })
	}
	if isID(name) && begins(c.things(name)) {
		return true
	}
	others := slices.ContainsFunc(c.ids, func(other string) bool { return other != name && begins(c.things(other)) })
	return !others && c.texts == 1 && slices.Contains(c.required, name)
}

var smallUnit = regexp.MustCompile(`(?i)cent|minor unit|smallest|hundredth`)

var money = regexp.MustCompile(`(?i)amount|price|total|cost|sum|value`)

// number returns the number for an argument: money for an amount, in the smallest unit where the schema
// says so; otherwise the only number, for a required one.
func (c candidate) number(f *filling, name string, p property, required bool) (any, bool) {
	for i, found := range f.numbers {
		const reading = 10
		if !f.spend(reading + len(found[2])) {
			return nil, false
		}
		isMoney := found[1] != "" || found[3] != ""
		if !money.MatchString(name) && (isMoney || !required) {
			continue
		}
		value, ok := new(big.Rat).SetString(strings.ReplaceAll(found[2], ",", "."))
		if !ok {
			continue
		}
		small := smallUnit.MatchString(p.Description)
		if isMoney && small && !strings.HasPrefix(found[3], "cent") {
			value.Mul(value, big.NewRat(100, 1))
		}
		if p.is("integer") && !value.IsInt() {
			continue
		}
		f.numbers = slices.Delete(f.numbers, i, i+1)
		text := value.FloatString(2)
		if value.IsInt() {
			text = value.Num().String()
		}
		return json.Number(text), true
	}
	return nil, false
}

// enum returns the value whose word the text has, which is in small letters.
func enum(e *effort, list []json.RawMessage, text string) (any, bool) {
	for _, raw := range list {
		var value string
		const reading = 5
		if !e.spend(reading+len(text)>>10) || json.Unmarshal(raw, &value) != nil || value == "" {
			continue
		}
		if words := inWords(value); strings.Contains(text, words) && e.matches(`(?i)\b`+regexp.QuoteMeta(words)+`\b`, text) != nil {
			return value, true
		}
	}
	return nil, false
}
