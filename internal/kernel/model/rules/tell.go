package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/kernel/model"
)

// What an answer says of a result.
const (
	mostFacts = 10
	mostItems = 5
	mostValue = 120
)

var lateEnd = regexp.MustCompile(`(?s)^People have decided about the call (\S+),.*?(<data[^>]*>.*</data>)\s*$`)

// news says in words what came of a call that had waited for people; is is false for any other
// message.
func news(p phrases, m model.Message) (text string, is bool) {
	found := lateEnd.FindStringSubmatch(m.Text)
	if m.Role != model.User || found == nil {
		return "", false
	}
	return sentence(p, inWords(verbOf(found[1])), found[2]), true
}

// tell says in words how the last calls have ended.
func tell(p phrases, messages []model.Message) string {
	names := map[string]string{}
	for _, m := range messages {
		for _, call := range m.Calls {
			names[call.ID] = inWords(verbOf(call.Name))
		}
	}
	begin := len(messages)
	for begin > 0 && messages[begin-1].Role == model.Result {
		begin--
	}
	var said []string
	for _, m := range messages[begin:] {
		name := names[m.CallID]
		if name == "" {
			name = "the call"
		}
		said = append(said, sentence(p, name, m.Text))
	}
	return strings.Join(said, " ")
}

// sentence says how one call has ended.
func sentence(p phrases, name, text string) string {
	raw := text
	if inside := element.FindStringSubmatch(text); inside != nil {
		raw = inside[1]
	}
	var end struct {
		Status string
		Result json.RawMessage
		Error  *struct{ Code, Detail, Message string }
	}
	if json.Unmarshal([]byte(raw), &end) != nil {
		return fmt.Sprintf("The answer to %s: %s.", name, short(raw))
	}
	switch {
	case end.Error != nil:
		reason := end.Error.Detail
		if reason == "" {
			reason = end.Error.Message
		}
		if reason == "" {
			reason = end.Error.Code
		}
		return p.say("failed", name, strings.TrimRight(short(reason), ". "))
	case end.Status == "pending_approval":
		return p.say("person", name)
	case end.Result == nil && end.Status != "" && p.code != english:
		return p.say("found", name, inWords(end.Status))
	case end.Result == nil && end.Status != "":
		return fmt.Sprintf("The call to %s ended as %s.", name, inWords(end.Status))
	case end.Result == nil:
		end.Result = json.RawMessage(raw)
	}
	return found(p, name, end.Result)
}

// found says a result in words.
func found(p phrases, name string, raw json.RawMessage) string {
	_, of, _ := strings.Cut(name, " ")
	reads := readers.MatchString(name) && of != ""
	list, isList := listOf(raw)
	facts := factsOf(raw)
	switch {
	case reads && isList && len(list) == 0:
		return p.say("none", of)
	case reads && isList && len(list) == 1 && p.code == english:
		return fmt.Sprintf("I found one of the %s: %s.", of, items(list))
	case reads && isList:
		return p.say("list", strconv.Itoa(len(list)), of, items(list))
	case reads && facts != "":
		return p.say("found", of, facts)
	case facts != "":
		return p.say("done", name) + " " + capital(facts) + "."
	default:
		return p.say("done", name)
	}
}

// listOf returns the items of a result that is a list, or an object with one.
func listOf(raw json.RawMessage) (list []json.RawMessage, is bool) {
	if json.Unmarshal(raw, &list) == nil && list != nil {
		return list, true
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return nil, false
	}
	for _, name := range []string{"data", "items", "results"} {
		// An order has items, and is one thing all the same.
		if json.Unmarshal(object[name], &list) == nil && list != nil && object["id"] == nil {
			return list, true
		}
	}
	return nil, false
}

// factsOf says the plain members of an object in words; "" where it has none.
func factsOf(raw json.RawMessage) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return ""
	}
	var facts []string
	for _, name := range ordered(object) {
		var value any
		if json.Unmarshal(object[name], &value) != nil || value == nil || value == "" {
			continue
		}
		switch value := value.(type) {
		case map[string]any, []any:
		case string:
			facts = append(facts, inWords(name)+" "+short(value))
		default:
			facts = append(facts, inWords(name)+" "+string(object[name]))
		}
		if len(facts) == mostFacts {
			break
		}
	}
	return strings.Join(facts, ", ")
}

// ordered returns the names of members: id and status first, times last.
func ordered(object map[string]json.RawMessage) []string {
	names := slices.Sorted(maps.Keys(object))
	slices.SortStableFunc(names, func(a, b string) int { return place(a) - place(b) })
	return names
}

func place(name string) int {
	switch {
	case name == "id":
		return 0
	case name == "status":
		return 1
	case strings.HasSuffix(name, "_at"):
		return 3
	}
	return 2
}

func items(list []json.RawMessage) string {
	var said []string
	for _, item := range list[:min(len(list), mostItems)] {
		var object map[string]json.RawMessage
		if json.Unmarshal(item, &object) != nil {
			said = append(said, short(string(item)))
			continue
		}
		var parts []string
		for _, name := range ordered(object) {
			if text := strings.Trim(string(object[name]), `"`); name == "id" || name == "status" || name == "amount" || name == "name" {
				parts = append(parts, inWords(name)+" "+short(text))
			}
		}
		said = append(said, strings.Join(parts, ", "))
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
