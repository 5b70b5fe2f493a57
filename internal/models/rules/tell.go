package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentruntime/internal/models/model"
)

// What an answer says of a result.
const (
	mostFacts  = 10
	mostItems  = 5
	mostOfItem = 3
	mostValue  = 120
)

var element = regexp.MustCompile(`(?s)^\s*<data[^>]*>(.*)</data>\s*$`)

var lateEnd = regexp.MustCompile(`(?s)^People have decided about the call (\S+),.*?(<data[^>]*>.*</data>)\s*$`)

// news says in words what came of a call that had waited for people; is is false for any other
// message.
func news(tools []model.Tool, m model.Message) (text string, is bool) {
	found := lateEnd.FindStringSubmatch(m.Text)
	if m.Role != model.User || found == nil {
		return "", false
	}
	return sentence(tools, found[1], found[2]), true
}

// tell says in words how the last calls have ended.
func tell(tools []model.Tool, messages []model.Message) string {
	names := map[string]string{}
	for _, m := range messages {
		for _, call := range m.Calls {
			names[call.ID] = call.Name
		}
	}
	var said []string
	for _, m := range slices.Backward(messages) {
		if m.Role == model.Result {
			said = append(said, sentence(tools, names[m.CallID], m.Text))
		} else if len(said) > 0 {
			break
		}
	}
	slices.Reverse(said)
	return strings.Join(said, " ")
}

// end is how a call has ended, as the service tells it.
type end struct {
	Status string          `json:"status"`
	Result json.RawMessage `json:"result"`
	Error  *failure        `json:"error"`
}

// failure is why a call has no result.
type failure struct {
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	Message string `json:"message"`
}

func (f *failure) words() string {
	if f == nil {
		return ""
	}
	return strings.TrimRight(short(cmp.Or(f.Detail, f.Message, f.Code)), ". ")
}

// succeeded reports whether a call has brought what it was made for.
func (e end) succeeded() bool {
	return e.Error == nil && slices.Contains([]string{"executed", "intercepted", "completed"}, e.Status)
}

// sentence says how one call of a tool has ended.
func sentence(tools []model.Tool, tool, text string) string {
	raw, name := text, inWords(verbOf(tool))
	if inside := element.FindStringSubmatch(text); inside != nil {
		raw = inside[1]
	}
	var e end
	_ = json.Unmarshal([]byte(raw), &e) // it is what the service says of a call
	switch {
	case e.Error != nil:
		return fmt.Sprintf("I could not %s: %s.", name, e.Error.words())
	case e.Status == "pending_approval":
		return "A person has to approve this first: " + name + "."
	case e.Result == nil && e.Status != "":
		return fmt.Sprintf("The call to %s ended as %s.", name, inWords(e.Status))
	case e.Result == nil:
		e.Result = json.RawMessage(raw)
	}
	reads := slices.ContainsFunc(tools, func(t model.Tool) bool { return t.Name == tool && t.Operation == "read" })
	return found(name, reads, e.Result)
}

// found says in words what a call has brought. Whether its verb reads is said by the catalog.
func found(name string, reads bool, raw json.RawMessage) string {
	_, of, _ := strings.Cut(name, " ")
	reads = reads && of != ""
	list, isList := listOf(raw)
	facts := factsOf(raw, mostFacts)
	switch {
	case reads && isList && len(list) == 0:
		return "I found no " + of + "."
	case reads && isList && len(list) == 1:
		return fmt.Sprintf("I found one of the %s: %s.", of, items(list))
	case reads && isList:
		return fmt.Sprintf("I found %d %s: %s.", len(list), of, items(list))
	case reads && facts != "":
		return fmt.Sprintf("This is the %s: %s.", of, facts)
	case facts != "":
		return "Done: " + name + ". " + capital(facts) + "."
	}
	return "Done: " + name + "."
}

// listOf returns the items of a result that is a list, or an object with one. An order has items, and is
// one thing all the same.
func listOf(raw json.RawMessage) (list []json.RawMessage, is bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil && object["id"] == nil {
		raw = json.RawMessage(cmp.Or(string(object["data"]), string(object["items"]), string(object["results"])))
	}
	is = json.Unmarshal(raw, &list) == nil && list != nil
	return list, is
}

// factsOf says the first plain members of an object in words: id and status, then the others by their
// names; "" where it has none.
func factsOf(raw json.RawMessage, most int) string {
	object, _ := decoded(raw).(map[string]any)
	var facts []string
	for _, name := range slices.Concat([]string{"id", "status"}, slices.Sorted(maps.Keys(object))) {
		text := leaf{value: object[name]}.text()
		if text == "" || len(facts) == most {
			continue
		}
		facts = append(facts, inWords(name)+" "+short(text))
		delete(object, name)
	}
	return strings.Join(facts, ", ")
}

func items(list []json.RawMessage) string {
	var said []string
	for _, item := range list[:min(len(list), mostItems)] {
		said = append(said, cmp.Or(factsOf(item, mostOfItem), short(string(item))))
	}
	if len(list) > mostItems {
		said = append(said, fmt.Sprintf("and %d more", len(list)-mostItems))
	}
	return strings.Join(said, "; ")
}

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > mostValue {
		text = strings.ToValidUTF8(text[:mostValue], "") + "…"
	}
	return text
}

// capital returns a text that begins with a capital letter, in any script.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if first == utf8.RuneError {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}
