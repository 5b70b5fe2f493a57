package rules

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentruntime/internal/kernel/agentloop"
)

// move is what comes next for a job: one of its fields is set.
type move struct {
	call *call
	// blocked is why nothing comes next. missing is the argument that the goal does not say, and needed
	// what only it is needed for: a customer is told that, and not how verbs are found.
	blocked, missing, needed string
	done                     bool
	// left says in words what is to be done, the next first.
	left []string
}

// call is a call to be made, and why.
type call struct {
	tool candidate
	args []argument
	why  string
}

// mostChained is how many reads lead to one argument.
const mostChained = 3

// next returns what comes next.
func (j *job) next() move {
	parts := j.parts()
	if len(parts) == 0 {
		return move{blocked: "no verb has the words of the goal"}
	}
	var m move
	for i := range parts {
		p := &parts[i]
		step := j.part(p)
		if step.done {
			continue
		}
		if m.call == nil && m.blocked == "" {
			m.call, m.blocked, m.missing, m.needed = step.call, step.blocked, step.missing, step.needed
		}
		m.left = append(m.left, inWords(p.tool.verb()))
	}
	switch {
	case len(m.left) > 0:
	case j.unread:
		m.blocked = fmt.Sprintf("the goal is longer than what is read of it: %d bytes, and %d clauses", mostGoal, mostClauses)
	default:
		m.done = true
	}
	return m
}

// part returns what comes next for a part of the goal.
func (j *job) part(p *part) move {
	if p.only != "" && p.tool.writes && !j.has(p.tool.Name) {
		if m, decided := j.condition(p); decided {
			return m
		}
	}
	sets, m := j.arguments(p)
	if sets == nil {
		if p.tool.writes && j.has(p.tool.Name) {
			return move{done: true} // what it was about has changed by it
		}
		return m
	}
	for _, args := range sets {
		if m := j.make(p, args); !m.done {
			return m
		}
	}
	return move{done: true}
}

// has reports whether a call of a tool has succeeded.
func (j *job) has(name string) bool {
	return slices.ContainsFunc(j.made, func(m made) bool { return m.name == name && m.succeeded() })
}

// make returns the call with the arguments, or what became of it.
func (j *job) make(p *part, args []argument) move {
	tries, said := 0, j.saidBy(p)
	j.spend(len(j.made))
	for i, m := range j.made {
		if m.name != p.tool.Name || !same(m.args, args, said) {
			continue
		}
		switch {
		case m.succeeded():
			if p.tool.writes || !j.changedAfter(i) || !slices.Contains(j.wanted, m.name) {
				return move{done: true}
			}
		case m.failed == nil:
			return move{blocked: p.tool.Name + " is " + inWords(m.status)}
		default:
			tries++
			if !m.failed.Retryable || tries > 1 {
				return move{blocked: p.tool.Name + " failed: " + m.failed.words()}
			}
		}
	}
	if read := j.readFirst(p.tool, args); read != nil {
		return move{call: read}
	}
	return move{call: &call{p.tool, args, "The goal asks for it: " + short(strings.TrimSpace(p.text)) + "."}}
}

// changedAfter reports whether a call that writes has succeeded after the one with the number, and is
// about the same thing: what that one has read may be old.
func (j *job) changedAfter(number int) bool {
	return slices.ContainsFunc(j.made[number+1:], func(m made) bool {
		c, known := j.tool(m.name)
		if !m.succeeded() || !known || !c.writes {
			return false
		}
		for name, id := range j.made[number].args {
			if isID(name) && m.args[name] == id {
				return true
			}
		}
		return len(j.made[number].args) == 0
	})
}

func (j *job) tool(name string) (candidate, bool) {
	i, known := j.of[name]
	if !known {
		return candidate{}, false
	}
	return j.tools[i], true
}

// saidBy returns the names of the arguments that a part of the goal says by itself. What is filled from
// results may be another value after the call.
func (j *job) saidBy(p *part) map[string]bool {
	said := map[string]bool{}
	args, _ := j.fill(p.tool, p.text)
	for _, a := range args {
		said[a.name] = true
	}
	if tells.MatchString(p.rest) {
		for _, name := range p.tool.order {
			said[name] = said[name] || slices.Contains(texts, inWords(name))
		}
	}
	return said
}

// same reports whether a call had the ids of the arguments and those that are said, and no others.
func same(had map[string]any, args []argument, said map[string]bool) bool {
	for _, a := range args {
		if (isID(a.name) || said[a.name]) && !reflect.DeepEqual(fmt.Sprint(had[a.name]), fmt.Sprint(a.value)) {
			return false
		}
	}
	return true
}

// readFirst returns the read of what a write is about, where there is a tool for it, and nothing of it
// was read yet.
func (j *job) readFirst(c candidate, args []argument) *call {
	if !c.writes || j.few {
		return nil
	}
	for _, a := range args {
		stem := c.stemOf(a.name)
		if stem == "" || j.seen(fmt.Sprint(a.value)) || !j.spend(len(j.tools)) {
			continue
		}
		for _, t := range j.tools {
			if !t.writes && !t.many() && t.noun() == stem && len(t.required) == 1 && t.stemOf(t.required[0]) == stem {
				return &call{t, []argument{{t.required[0], a.value}}, "It reads the " + stem + " before " + inWords(c.verb()) + "."}
			}
		}
	}
	return nil
}

// seen reports whether a result has the id, or its read has failed.
func (j *job) seen(id string) bool {
	return slices.ContainsFunc(j.made, func(m made) bool {
		if m.failed != nil {
			return slices.ContainsFunc([]any{m.args["id"]}, func(v any) bool { return v == id }) || strings.Contains(encoded(m.args), id)
		}
		j.spend(len(m.leaves))
		return slices.ContainsFunc(m.leaves, func(l leaf) bool { return l.text() == id && l.name() == "id" })
	})
}

// condition returns what comes next for a part with a condition: nothing where it is not met. decided
// is false where it is met, so the part is done.
func (j *job) condition(p *part) (m move, decided bool) {
	leaves := slices.Clone(j.data)
	sets, next := j.arguments(p)
	if sets == nil {
		return next, true
	}
	if read := j.readFirst(p.tool, sets[0]); read != nil {
		return move{call: read}, true
	}
	for _, made := range j.made {
		if made.succeeded() {
			leaves = append(leaves, made.leaves...)
		}
	}
	yes, _, sure := judged(j.effort, p.only, leaves, j.statuses())
	switch {
	case !sure:
		return move{blocked: "builtin:rules cannot tell whether this is so: " + short(p.only), missing: "whether " + short(p.only)}, true
	case yes == p.unless:
		return move{done: true}, true
	}
	return move{}, false
}

// statuses are the words of the enums of the tools.
func (j *job) statuses() (words []string) {
	words = []string{}
	for _, c := range j.tools {
		for _, p := range c.props {
			const reading = 10
			if !j.spend(1 + reading*len(p.Enum)) {
				return words
			}
			for _, raw := range p.Enum {
				if word, is := decoded(raw).(string); is {
					words = append(words, word)
				}
			}
		}
	}
	return words
}

var (
	all       = regexp.MustCompile(`(?i)\b(all|every|each|any)\b`)
	newest    = regexp.MustCompile(`(?i)\b(newest|latest|last|most recent)\b`)
	oldest    = regexp.MustCompile(`(?i)\b(oldest|first|earliest)\b`)
	aboutWhat = regexp.MustCompile(`(?i)\babout\s+([^.,;]+)`)
	tells     = regexp.MustCompile(`(?i)\b(?:that|saying|says?|with the (?:text|words|message|comment)|:)\s+(.+)$`)
)

// arguments returns the arguments of a part, once for each thing that it is for. Where some are
// missing, the move says what comes first: a read which brings them, or nothing.
func (j *job) arguments(p *part) (sets [][]argument, m move) {
	c := p.tool
	args, missing := j.fill(c, p.text)
	// Ids that the clause does not say may be elsewhere in the goal.
	for _, name := range slices.Clone(missing) {
		if value, ok := j.elsewhere(c, name, p); ok {
			args = append(args, argument{name, value})
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
		}
	}
	sets = j.each(c, args, p)
	for _, name := range missing {
		if c.stemOf(name) == "" {
			continue
		}
		found, next := j.fromCalls(c, name, p, 0)
		if found == nil {
			return nil, next
		}
		var more [][]argument
		for _, set := range sets {
			for _, value := range found[:min(len(found), mostSets-len(more))] {
				more = append(more, append(slices.Clip(set), argument{name, value}))
			}
		}
		sets = more
	}
	for _, name := range missing {
		if c.stemOf(name) != "" {
			continue
		}
		if read := j.readFirst(c, sets[0]); read != nil { // it may say more
			return nil, move{call: read}
		}
		return nil, move{blocked: "the goal does not say the " + inWords(name) + " for " + c.Name, missing: inWords(name), needed: inWords(c.verb())}
	}
	return sets, move{}
}

// each repeats arguments for each id of a clause that is for the same argument: ord_1 and ord_2.
func (j *job) each(c candidate, args []argument, p *part) [][]argument {
	sets := [][]argument{args}
	for i, a := range args {
		if c.stemOf(a.name) == "" {
			continue
		}
		for _, id := range j.scan(p.text).ids {
			id = c.props[a.name].asID(id)
			if len(sets) < mostSets && j.spend(1+len(c.ids)) && c.isFor(a.name, id) && lettersOf(id) == lettersOf(fmt.Sprint(a.value)) && id != a.value {
				more := slices.Clone(args)
				more[i].value = id
				sets = append(sets, more)
			}
		}
		break
	}
	return sets
}

// elsewhere returns the value of an argument that the clause does not say: from the rest of the goal,
// from data, from a text that the goal gives, or for an enum from what is known.
func (j *job) elsewhere(c candidate, name string, p *part) (any, bool) {
	property := c.props[name]
	if c.stemOf(name) != "" {
		for _, id := range j.scan(j.goal).ids {
			if j.spend(1+len(c.ids)) && c.isFor(name, id) && lettersOf(id) != "" && strings.HasPrefix(c.stemOf(name), lettersOf(id)[:min(3, len(lettersOf(id)))]) {
				return property.asID(id), true
			}
		}
		if args, _ := j.fill(c, j.goal); slices.ContainsFunc(args, func(a argument) bool { return a.name == name }) {
			return values(args)[name], true
		}
	}
	s := shape{property: property}
	for _, value := range find(j.effort, name, j.data) {
		if value, fits := s.as(value); fits {
			return value, true
		}
	}
	switch {
	case c.stemOf(name) != "":
		return j.idInData(c, name)
	case len(property.Enum) > 0:
		return j.enumOfFacts(property)
	case property.is("string"):
		return j.written(name, p)
	}
	args, _ := j.fill(c, j.texts())
	value, ok := values(args)[name]
	return value, ok
}

// texts are the texts of the data.
func (j *job) texts() string {
	var lines []string
	for _, l := range j.data {
		lines = append(lines, l.name()+": "+l.text())
	}
	return strings.Join(lines, "\n")
}

// idInData returns the id of the argument within texts of the data, where there is only one.
func (j *job) idInData(c candidate, name string) (any, bool) {
	var found []string
	for _, l := range j.data {
		text := l.text()
		if !j.spend(1 + len(text)) {
			return nil, false
		}
		for _, id := range idLike.FindAllString(text, mostIDs) {
			if j.spend(1+len(c.ids)) && c.isFor(name, id) && !slices.Contains(found, id) {
				if found = append(found, id); len(found) > 1 {
					return nil, false
				}
			}
		}
	}
	if len(found) == 0 {
		return nil, false
	}
	return found[0], true
}

// enumOfFacts returns the value of an enum that is the name of something known: the channel email,
// where there is an email address.
func (j *job) enumOfFacts(p property) (any, bool) {
	leaves := slices.Clone(j.data)
	for _, m := range j.made {
		leaves = append(leaves, m.leaves...)
	}
	for _, raw := range p.Enum {
		word, is := decoded(raw).(string)
		if is && j.spend(len(leaves)) && slices.ContainsFunc(leaves, func(l leaf) bool { return l.name() == inWords(word) && l.text() != "" }) {
			return word, true
		}
	}
	return nil, false
}

// capital returns a text that begins with a capital letter, in any script.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if first == utf8.RuneError {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// texts are names of arguments that have a text for people.
//
//nolint:gochecknoglobals // an immutable table
var texts = []string{"body", "text", "message", "comment", "content", "description", "note"}

// written returns a text that the goal gives: after "that" or "saying", otherwise what the calls that
// write have done.
func (j *job) written(name string, p *part) (any, bool) {
	switch words := inWords(name); {
	case slices.Contains(texts, words):
		if found := tells.FindStringSubmatch(p.rest); found != nil {
			text := strings.TrimSpace(found[1])
			return capital(text), true
		}
		return j.report()
	case words == "subject" || words == "title":
		if about := first(aboutWhat, p.rest); about != "" {
			return capital(about), true
		}
		if list := agentloop.Sentences(p.rest); len(list) > 0 {
			return short(list[0]), true
		}
	}
	return nil, false
}

// report says what the calls that write have done; ok is false where there is none.
func (j *job) report() (text any, ok bool) {
	var said []string
	for _, m := range j.made {
		if c, known := j.tool(m.name); known && c.writes && m.succeeded() {
			said = append(said, found(book()[english], inWords(c.verb()), m.result))
		}
	}
	return strings.Join(said, " "), len(said) > 0
}
