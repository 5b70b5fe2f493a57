package rules

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/kernel/agentloop"
	"agentruntime/internal/kernel/wordrank"
)

// job is a goal with what there is to reach it. Which calls are made goes by the words of the goal
// alone, so no data can ask for another one. Arguments are filled from the goal, then from data, then
// from what calls have brought.
type job struct {
	goal  string
	data  []leaf
	tools []candidate
	made  []made
	// wanted are names of tools that criteria check the calls of.
	wanted []string
	// few: there are steps for nothing but what the goal asks for.
	few bool
	// said is what the words of the goal ask for. unread: there is more of the goal than is read.
	said    []part
	clauses int
	unread  bool

	*effort

	// of has the places of the tools by their names, and index their words.
	of    map[string]int
	index *wordrank.Index
	scans map[string]*scan
	fills map[fillKey]filled
}

type fillKey struct{ tool, text string }

type filled struct {
	args    []argument
	missing []string
}

// offer sets the tools that the job may call.
func (j *job) offer(tools []candidate) {
	j.tools, j.index, j.of = tools, indexOf(tools), map[string]int{}
	j.scans, j.fills = map[string]*scan{}, map[fillKey]filled{}
	for i, c := range tools {
		if _, twice := j.of[c.Name]; !twice {
			j.of[c.Name] = i
		}
	}
}

// scan returns what a text has for arguments.
func (j *job) scan(text string) *scan {
	s := j.scans[text]
	if s == nil {
		s = j.scanOf(text)
		j.scans[text] = s
	}
	return s
}

// fill returns the arguments of a tool that a text has, and the required ones that it lacks.
func (j *job) fill(c candidate, text string) ([]argument, []string) {
	key := fillKey{c.Name, text}
	f, known := j.fills[key]
	if !known {
		f.args, f.missing = c.fill(j.effort, wish{text: text}, j.scan(text))
		j.fills[key] = f
	}
	return slices.Clone(f.args), slices.Clone(f.missing)
}

// made is a call that was made.
type made struct {
	id, name string
	args     map[string]any
	status   string
	result   json.RawMessage
	failed   *failure
	// leaves are the plain values of the result. things are the items of a list, or the result itself.
	leaves []leaf
	isList bool
	things []thing
}

// thing is what a result is about.
type thing struct {
	id     any
	leaves []leaf
	// words are those of the leaves that are texts, by their places.
	words map[int][]string
}

func thingOf(raw json.RawMessage) thing {
	t := thing{id: member(decoded(raw), "id"), leaves: leavesOf(raw), words: map[int][]string{}}
	for i, l := range t.leaves {
		if value, is := l.value.(string); is && len(value) >= 3 {
			t.words[i] = keysOf(value)
		}
	}
	return t
}

// read sets what the result has.
func (m *made) read() {
	m.leaves = leavesOf(m.result)
	list, isList := listOf(m.result)
	if m.isList = isList; !isList {
		m.things = []thing{{id: member(decoded(m.result), "id"), leaves: m.leaves}}
		return
	}
	for _, item := range list {
		m.things = append(m.things, thingOf(item))
	}
}

// failure is why a call has no result.
type failure struct {
	Code      string `json:"code"`
	Detail    string `json:"detail"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

func (f *failure) words() string {
	for _, text := range []string{f.Detail, f.Message, f.Code} {
		if text != "" {
			return strings.TrimRight(short(text), ". ")
		}
	}
	return "without a reason"
}

// succeeded reports whether a call has brought what it was made for.
func (m made) succeeded() bool {
	return m.failed == nil && slices.Contains([]string{"executed", "intercepted", "succeeded", "completed", "cached"}, m.status)
}

// part is what a goal asks for with one verb.
type part struct {
	// text says what to do, rest is all of its sentence from there on.
	text, rest string
	tool       candidate
	// only is the condition under which it is done; "" for none. unless: under which it is not.
	only   string
	unless bool
}

var (
	clauseEnd  = regexp.MustCompile(`(?i)\s*(?:;|,\s*(?:and\s+)?then\b|,\s*and\b|\band then\b|\bthen\b|\band\b|,\s|\bafter that\b)\s*`)
	conditions = regexp.MustCompile(`(?i)\b(only if|if|unless|as long as|provided that|in case)\b\s*`)
	otherwise  = regexp.MustCompile(`(?i)^\W*(otherwise|else|if not)\b[\s,]*`)
	forbids    = regexp.MustCompile(`(?i)\b(do not|don't|never|without|not to|must not|avoid)\b`)
	acting     = regexp.MustCompile(`(?i)\b(get|find|look|show|check|read|list|fetch|see|search|which|what|where|who|status|report|know|view|count|verify)\b`)
)

// synonyms are words that verbs are called by, besides their own.
//
//nolint:gochecknoglobals // an immutable table
var synonyms = []struct {
	said *regexp.Regexp
	adds string
}{
	{regexp.MustCompile(`(?i)\b(tell|notify|inform|e?mail|text|write to|let)\b`), "send message"},
	{regexp.MustCompile(`(?i)\bmoney back\b|\breimburs|\bgive back\b|\bgiven back\b`), "refund"},
	{regexp.MustCompile(`(?i)\b(look up|look at|see|check|read|view|where|status|verify|know)\b`), "get"},
	{regexp.MustCompile(`(?i)\b(open|raise|file)\b.*\b(ticket|case)\b`), "create ticket"},
	{regexp.MustCompile(`(?i)\b(note|comment|reply|answer)\b.*\bticket\b`), "comment ticket"},
	{regexp.MustCompile(`(?i)\b(mark|move|set|change|rename|correct)\b`), "update"},
	{regexp.MustCompile(`(?i)\b(remove|erase)\b`), "delete"},
	{regexp.MustCompile(`(?i)\b(resolve|settle)\b`), "close"},
	{regexp.MustCompile(`(?i)\b(register|sign up|add)\b`), "create"},
}

// take adds a text to the goal, as much of it as is read, and what its words ask for.
func (j *job) take(text string) {
	read := beginning(text, max(0, mostGoal-len(j.goal)))
	j.unread = j.unread || len(read) < len(text)
	j.goal += read
	for _, sentence := range agentloop.Sentences(read) {
		j.said = append(j.said, j.partsOf(sentence, last(j.said))...)
	}
}

// parts returns what the goal asks for, in its order, then what criteria look for.
func (j *job) parts() []part {
	list := slices.Clone(j.said)
	for _, name := range j.wanted {
		if !slices.ContainsFunc(list, func(p part) bool { return p.tool.Name == name }) {
			list = append(list, part{text: j.goal, rest: j.goal, tool: j.tools[j.of[name]]})
		}
	}
	if len(list) > mostClauses {
		j.unread, list = true, list[:mostClauses]
	}
	return list
}

func last(list []part) part {
	if len(list) == 0 {
		return part{}
	}
	return list[len(list)-1]
}

// hidden returns a sentence whose texts in quotes choose no verb.
func hidden(text string) string {
	return quoted.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) })
}

func (j *job) partsOf(sentence string, before part) (list []part) {
	only, unless, body := "", false, sentence
	mask := hidden(sentence)
	if cut := otherwise.FindString(mask); cut != "" {
		only, unless, body = before.only, !before.unless, sentence[len(cut):]
	} else if at := conditions.FindStringIndex(mask); at != nil {
		unless = strings.HasPrefix(strings.ToLower(mask[at[0]:]), "unless")
		only, body = sentence[at[1]:], sentence[:at[0]]
		if strings.TrimSpace(body) == "" { // the condition comes first
			only, body, _ = strings.Cut(sentence[at[1]:], ",")
		}
		only = strings.TrimRight(strings.TrimSpace(only), ".! ")
	}
	mask = hidden(body)
	from := 0
	for _, at := range append(clauseEnd.FindAllStringIndex(mask, -1), []int{len(mask), len(mask)}) {
		if j.clauses++; j.clauses > mostClauses {
			j.unread = true
			break
		}
		text := body[from:at[0]]
		tool, found := j.pick(mask[from:at[0]])
		switch {
		case found:
			list = append(list, part{text: text, rest: body[from:], tool: tool, only: only, unless: unless})
		case len(list) > 0:
			list[len(list)-1].text += ", " + text
		}
		from = at[1]
	}
	return list
}

// meaning returns a clause with the words of verbs that it means.
func meaning(clause string) string {
	words := []string{clause}
	for _, s := range synonyms {
		if s.said.MatchString(clause) {
			words = append(words, s.adds)
		}
	}
	return strings.Join(words, " ")
}

// pick returns the tool that a clause asks for by its words.
func (j *job) pick(clause string) (candidate, bool) {
	if !j.spend(len(j.tools)) {
		return candidate{}, false
	}
	said := meaning(clause)
	text, keys := meant(j.effort, j.tools, said), keysOf(said)
	asks := question.MatchString(strings.TrimSpace(clause)) && !request.MatchString(clause)
	best, top := -1, 0.0
	for _, hit := range j.index.Rank(text, ranked) {
		c := j.tools[hit.Doc]
		if c.writes && (asks || forbids.MatchString(clause) || !c.asksFor(said, keys)) || !c.writes && !acting.MatchString(clause) {
			continue
		}
		filled, _ := j.fill(c, clause)
		score := hit.Score + perFilled*float64(len(filled)) + c.ofMany(clause)
		if c.writes {
			score += forWrite
		}
		if c.saysVerb(keys) {
			score += forVerb
		}
		if best < 0 || score > top {
			best, top = hit.Doc, score
		}
	}
	if best < 0 {
		return candidate{}, false
	}
	return j.tools[best], true
}

// forVerb is what a tool gets whose name begins with a word of the clause.
const forVerb = 4.0

func (c candidate) saysVerb(keys []string) bool {
	verb, _, _ := strings.Cut(c.words, " ")
	return phrase(keys, keysOf(verb))
}

var (
	// wants comes before what is to be made: refund the order, I want a refund.
	wants = regexp.MustCompile(`(?i)^\W*(?:(?:please|also|then|now|to|we|you|i|must|should|can|could|have to|want|need|give|issue|make|a|an|the|full|customer|them)\W+)*$`)
	// isMade comes before it where it is said as done: the order is refunded.
	isMade = regexp.MustCompile(`(?i)\b(is|are|was|were|be|been|gets?|got)\W+(fully |partly )?$`)
)

// asksFor reports whether a clause asks for what a tool that writes does: it has the first word of the
// verb, or does what the verb makes. So "refund the order" asks for create_refund, and an order in a
// clause asks for no create_order.
func (c candidate) asksFor(clause string, keys []string) bool {
	if c.saysVerb(keys) {
		return true
	}
	at := strings.Index(strings.ToLower(clause), c.noun())
	if !creators.MatchString(c.words) || at < 0 || c.noun() == "" {
		return false
	}
	return wants.MatchString(clause[:at]) || isMade.MatchString(clause[:at])
}

// noun is what a tool is about: order for get_order and list_orders.
func (c candidate) noun() string { return c.about }

// many reports whether a tool reads a list.
func (c candidate) many() bool {
	verb, of, _ := strings.Cut(c.words, " ")
	return !c.writes && (verb == "list" || verb == "search" || verb == "find" && singular(of) != of)
}

// stemOf returns what an argument is the id of: order for order_id; "" where it is no id. The argument
// id is of what the tool is about.
func (c candidate) stemOf(name string) string {
	switch words := inWords(name); {
	case words == "id":
		return c.noun()
	case strings.HasSuffix(words, " id"):
		return strings.TrimSuffix(words, " id")
	}
	return ""
}

// stemOfID returns what a name is the id of: order for order_id; "" for any other name.
func stemOfID(name string) string {
	stem, is := strings.CutSuffix(inWords(name), " id")
	if !is {
		return ""
	}
	return stem
}
