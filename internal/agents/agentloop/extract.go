package agentloop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"agentruntime/internal/models/model"
)

// Bounds of what an extract keeps.
const (
	lineBytes  = 600 // of one message, and of one result
	argsBytes  = 200
	leafBytes  = 120
	mostLeaves = 30
	mostWalked = 400 // leaves of a result that are looked at
	mostItems  = 5   // of a list
)

// How the lines of an extract begin. Those of results are kept longest.
const (
	byCustomer = "Customer: "
	byAgent    = "Agent: "
	ofResult   = "Result of "
)

// Extract returns a summary without a model, at most 8 KiB: of the messages, the sentences with ids,
// amounts, names, dates, questions and promises, and of results their short values. previous is the
// summary of what was before, of whatever kind. Where it becomes too long, the oldest of what customer
// and agent have said is left out first, and the oldest results last.
func Extract(previous string, messages []model.Message) string {
	var lines []string
	add := func(line string) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for line := range strings.SplitSeq(previous, "\n") {
		add(line)
	}
	calls := map[string]model.ToolCall{}
	for _, m := range messages {
		for _, c := range m.Calls {
			calls[c.ID] = c
		}
		switch m.Role {
		case model.Result:
			c := calls[m.CallID]
			add(resultLine(c.Name+" "+ends(string(c.Args), argsBytes), m.Text))
		case model.Assistant:
			add(saidLine(byAgent, m.Text))
		default:
			if text, is := CustomerText(m); is {
				add(saidLine(byCustomer, text))
			} else if head, _, has := strings.Cut(m.Text, "<data"); has {
				add(resultLine("what the agent was told, "+strconv.Quote(ends(oneLine(head), argsBytes)), m.Text))
			}
		}
	}
	return fitted(lines)
}

// Newest returns the last whole lines of a summary within so many bytes.
func Newest(summary string, most int) string {
	for len(summary) > most {
		_, rest, more := strings.Cut(summary, "\n")
		if !more {
			return ends(summary, most)
		}
		summary = rest
	}
	return summary
}

// fitted returns the lines as one text within the bound.
func fitted(lines []string) string {
	size := 0
	for _, line := range lines {
		size += len(line) + 1
	}
	for _, talk := range []bool{true, false} {
		lines = slices.DeleteFunc(lines, func(line string) bool {
			is := strings.HasPrefix(line, byCustomer) || strings.HasPrefix(line, byAgent)
			if size <= mostSummary || is != talk {
				return false
			}
			size -= len(line) + 1
			return true
		})
	}
	return strings.Join(lines, "\n")
}

var (
	// A fact has a digit, an address, a quotation, a name within the sentence, or a day.
	fact    = regexp.MustCompile(`[0-9@"“„«]|[\p{Ll}0-9,] \p{Lu}\p{L}|(?i:\b(today|tomorrow|yesterday|(mon|tues|wednes|thurs|fri|satur|sun)day)\b)`)
	promise = regexp.MustCompile(`(?i)\b(will|shall|promise[sd]?|agree[sd]?|decided|confirm(ed)?|refused?|cannot|can't|could not|must|waits?|approv\w+)\b|'ll\b`)
)

// saidLine returns the sentences of a text that a summary keeps: the first one, and those with facts,
// questions and promises.
func saidLine(by, text string) string {
	var kept []string
	for i, s := range Sentences(text) {
		if i == 0 || strings.ContainsAny(s, "?？") || fact.MatchString(s) || promise.MatchString(s) {
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return by + ends(strings.Join(kept, " "), lineBytes)
}

// Sentences divides a text. A point within a number or an id ends none.
func Sentences(text string) (list []string) {
	runes := []rune(text)
	from := 0
	end := func(to int) {
		if s := oneLine(string(runes[from:to])); s != "" {
			list = append(list, s)
		}
		from = to
	}
	for i, r := range runes {
		last := i+1 == len(runes) || unicode.IsSpace(runes[i+1])
		if r == '\n' || strings.ContainsRune("。！？", r) || strings.ContainsRune(".!?", r) && last {
			end(i + 1)
		}
	}
	end(len(runes))
	return list
}

var element = regexp.MustCompile(`(?s)<data[^>]*>(.*)</data>\s*$`)

// resultLine returns what a summary keeps of a result.
func resultLine(of, text string) string {
	if inside := element.FindStringSubmatch(text); inside != nil {
		text = inside[1]
	}
	line := ofResult + strings.TrimSpace(of) + ": "
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return line + ends(oneLine(text), lineBytes)
	}
	var w walk
	w.leaves("", value)
	if len(w.list) > mostLeaves {
		slices.SortStableFunc(w.list, func(a, b leaf) int { return cmp.Compare(a.rank(), b.rank()) })
	}
	var parts []string
	size := 0
	for _, l := range w.list[:min(len(w.list), mostLeaves)] {
		if part := l.path + " " + l.text; size+len(part) <= 2*lineBytes {
			parts = append(parts, part)
			size += len(part)
		}
	}
	return line + strings.Join(parts, "; ")
}

// leaf is a plain value within a result.
type leaf struct{ path, text string }

var telling = regexp.MustCompile(`(?i)(^|[._])(id|status|number|code|state)$|_id$|amount|total|price|currency|balance|date|_at$|due|name|email|phone|reference|tracking`)

func (l leaf) rank() int {
	if telling.MatchString(l.path) {
		return 0
	}
	return 1
}

type walk struct{ list []leaf }

func (w *walk) leaves(path string, value any) {
	if len(w.list) >= mostWalked {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			at := name
			if path != "" && path != "result" && path != "error" {
				at = path + "." + name
			}
			w.leaves(at, value[name])
		}
	case []any:
		for i, item := range value[:min(len(value), mostItems)] {
			w.leaves(path+"."+strconv.Itoa(i), item)
		}
		if more := len(value) - mostItems; more > 0 {
			w.list = append(w.list, leaf{path, "and " + strconv.Itoa(more) + " more"})
		}
	case nil:
	default:
		text := ends(oneLine(plainText(value)), leafBytes)
		if text != "" {
			w.list = append(w.list, leaf{path, text})
		}
	}
}

func plainText(value any) string {
	if text, is := value.(string); is {
		return text
	}
	return fmt.Sprint(value) // a number or a boolean
}
