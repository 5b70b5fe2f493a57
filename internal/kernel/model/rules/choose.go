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

	"agentruntime/internal/kernel/agentloop"
	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/wordrank"
)

// candidate is a tool with what its schema says.
type candidate struct {
	model.Tool

	writes   bool
	required []string
	order    []string
	props    map[string]property
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

func (c candidate) verb() string { return verbOf(c.Name) }

// readers are first words of names of verbs that change nothing.
var readers = regexp.MustCompile(`^(get|list|find|search|read|show|count|describe|check|fetch|retrieve|lookup|view|query)\b`)

func candidateOf(t model.Tool) candidate {
	c := candidate{Tool: t, writes: !readers.MatchString(inWords(verbOf(t.Name)))}
	var schema struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if json.Unmarshal(t.Schema, &schema) == nil {
		c.props, c.required = schema.Properties, schema.Required
	}
	c.order = slices.Clone(c.required)
	for _, name := range slices.Sorted(maps.Keys(c.props)) {
		if !slices.Contains(c.order, name) {
			c.order = append(c.order, name)
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
	ranked       = 12
	perFilled    = 2.0
	perMissing   = 1.5
	againstWrite = 6.0
	forWrite     = 1.0
	againstList  = 6.0
	forList      = 4.0
)

var manyOf = regexp.MustCompile(`(?i)\b(list|all|every|which)\b`)

// ofMany returns what the score of a tool that reads many gets: less where the text is about one, more
// where it asks for many of them. A customer who asks for their order must not get those of others.
func (c candidate) ofMany(text string) float64 {
	words := strings.Fields(inWords(c.verb()))
	if len(words) == 0 || words[0] != "list" && words[0] != "search" {
		return 0
	}
	asked, said := manyOf.MatchString(text), strings.Contains(strings.ToLower(text), words[len(words)-1])
	switch {
	case asked && said:
		return forList
	case asked || said:
		return 0
	}
	return -againstList
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
// nil where none fits. p are the sentences in the language of the customer.
func choose(p phrases, tools []model.Tool, w wish) (*candidate, []argument, []string) {
	docs := make([]wordrank.Doc, len(tools))
	for i, tool := range tools {
		docs[i] = wordrank.Doc{Name: inWords(verbOf(tool.Name)), Text: tool.Description}
	}
	text := meant(tools, p.inEnglish(w.text))
	asks := question.MatchString(strings.TrimSpace(w.text)) && !request.MatchString(w.text)
	var best *candidate
	var args []argument
	var missing []string
	top := 0.0
	for _, hit := range wordrank.New(docs).Rank(text, ranked) {
		if own(tools[hit.Doc].Name) {
			continue
		}
		c := candidateOf(tools[hit.Doc])
		filled, lacks := c.fill(w)
		score := hit.Score + perFilled*float64(len(filled)) - perMissing*float64(len(lacks))
		score += c.ofMany(w.text)
		switch {
		case c.writes && (asks || !c.named(text)):
			score -= againstWrite
		case c.writes:
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
	text, verb := strings.ToLower(text), inWords(c.verb())
	words := strings.Fields(verb)
	if len(words) == 0 {
		return false
	}
	return strings.Contains(text, words[0]) || creators.MatchString(verb) && strings.Contains(text, words[len(words)-1])
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
func with(p phrases, args []argument) string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = fmt.Sprintf("%s %v", inWords(a.name), a.value)
	}
	if len(list) == 0 {
		return ""
	}
	return p.of["with"] + strings.Join(list, ", ")
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

// fill returns the arguments that the wish has, and the required ones that it lacks.
func (c candidate) fill(w wish) (args []argument, missing []string) {
	text := w.text
	ids := idLike.FindAllString(text, -1)
	quotes := quoted.FindAllStringSubmatch(text, -1)
	rest := email.ReplaceAllString(idLike.ReplaceAllString(text, " "), " ")
	bare := map[string]string{}
	for _, name := range c.order {
		if id, left, found := c.bareID(name, c.props[name], rest); found && isID(name) {
			bare[name], rest = id, left
		}
	}
	numbers := number.FindAllStringSubmatch(rest, -1)
	for _, name := range c.order {
		p := c.props[name]
		required := slices.Contains(c.required, name)
		value, ok := c.value(name, p, w, &ids, &numbers, &quotes, required)
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

func (c candidate) value(name string, p property, w wish, ids *[]string, numbers, quotes *[][]string, required bool) (any, bool) {
	told := strings.TrimSpace(w.told[inWords(name)])
	switch {
	case len(p.Enum) > 0:
		return enum(name, p.Enum, w.text)
	case p.is("integer") || p.is("number"):
		return c.number(name, p, numbers, required)
	case p.is("boolean") || p.is("array") || p.is("object"):
		return nil, false
	case p.Format == "email" || strings.Contains(name, "email"):
		found := email.FindString(w.text)
		return found, found != ""
	}
	if i := slices.IndexFunc(*ids, func(id string) bool { return c.isFor(name, id) }); i >= 0 {
		id := (*ids)[i]
		*ids = slices.Delete(*ids, i, i+1)
		return p.asID(id), true
	}
	if named := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(inWords(name)) + `\s*(?:is|:|=)\s*([^\n,;]+)`).FindStringSubmatch(w.text); named != nil {
		return strings.Trim(strings.TrimSpace(named[1]), `"`), true
	}
	switch {
	case told != "" && (!isID(name) || mayBeID.MatchString(told)):
		if isID(name) {
			told = p.asID(told)
		}
		return told, true
	case required && !isID(name) && len(*quotes) > 0:
		text := (*quotes)[0][1] + (*quotes)[0][2]
		*quotes = (*quotes)[1:]
		return text, true
	}
	return nil, false
}

func isID(name string) bool { return name == "id" || strings.HasSuffix(inWords(name), " id") }

// isFor reports whether an id is for an argument. The letters at the begin of an id say what it is of:
// ord_1001 is for order_id. An id whose letters say nothing fills the only required text.
func (c candidate) isFor(name, id string) bool {
	letters := strings.ToLower(id[:max(0, strings.IndexFunc(id, func(r rune) bool { return !unicode.IsLetter(r) }))])
	stem := strings.TrimSuffix(inWords(name), " id")
	if isID(name) && len(letters) >= 2 {
		of := stem
		if name == "id" {
			of = inWords(c.verb())
		}
		if slices.ContainsFunc(strings.Fields(of), func(word string) bool { return strings.HasPrefix(word, letters[:min(len(letters), 3)]) }) {
			return true
		}
		if slices.ContainsFunc(c.order, func(other string) bool {
			return other != name && isID(other) && strings.HasPrefix(other, letters[:min(len(letters), 3)])
		}) {
			return false
		}
	}
	texts := 0
	for _, other := range c.required {
		if p := c.props[other]; len(p.Enum) == 0 && !p.is("integer") && !p.is("number") && !p.is("boolean") {
			texts++
		}
	}
	if texts != 1 || !slices.Contains(c.required, name) {
		return false
	}
	// ref_1 is no order.
	return letters == "" || !isID(name) || !knownStem(letters)
}

// knownStem reports whether letters are the begin of a common thing, which then is another one.
func knownStem(letters string) bool {
	return slices.ContainsFunc([]string{"order", "customer", "refund", "ticket", "message", "invoice", "payment", "product", "user", "subscription"},
		func(thing string) bool { return strings.HasPrefix(thing, letters) })
}

var money = regexp.MustCompile(`(?i)amount|price|total|cost|sum|value`)

// number returns the number for an argument: money for an amount, in the smallest unit where the schema
// says so; otherwise the only number, for a required one.
func (c candidate) number(name string, p property, numbers *[][]string, required bool) (any, bool) {
	for i, found := range *numbers {
		isMoney := found[1] != "" || found[3] != ""
		if !money.MatchString(name) && (isMoney || !required) {
			continue
		}
		value, ok := new(big.Rat).SetString(strings.ReplaceAll(found[2], ",", "."))
		if !ok {
			continue
		}
		small := regexp.MustCompile(`(?i)cent|minor unit|smallest|hundredth`).MatchString(p.Description)
		if isMoney && small && !strings.HasPrefix(found[3], "cent") {
			value.Mul(value, big.NewRat(100, 1))
		}
		if p.is("integer") && !value.IsInt() {
			continue
		}
		*numbers = slices.Delete(*numbers, i, i+1)
		text := value.FloatString(2)
		if value.IsInt() {
			text = value.Num().String()
		}
		return json.Number(text), true
	}
	return nil, false
}

// enum returns the value whose word the text has. A currency can be named by its sign.
func enum(name string, list []json.RawMessage, text string) (any, bool) {
	text = strings.ToLower(text)
	for sign, code := range map[string]string{"dollar": "usd", "$": "usd", "euro": "eur", "€": "eur", "pound": "gbp", "£": "gbp"} {
		if strings.Contains(name, "currency") && strings.Contains(text, sign) {
			text += " " + code
		}
	}
	for _, raw := range list {
		var value string
		if json.Unmarshal(raw, &value) != nil || value == "" {
			continue
		}
		if regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(inWords(value)) + `\b`).MatchString(text) {
			return value, true
		}
	}
	return nil, false
}
