package rules

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/models/model"
)

// named is a <data> element of a request.
type named struct {
	name string
	raw  json.RawMessage
}

var dataElement = regexp.MustCompile(`(?s)<data name="((?:[^"\\]|\\.)*)">(.*?)</data>`)

// dataOf returns the data of a text in its order, and the text without it.
func dataOf(text string) (list []named, rest string) {
	for _, found := range dataElement.FindAllStringSubmatch(text, -1) {
		name, err := strconv.Unquote(`"` + found[1] + `"`)
		if err != nil || !json.Valid([]byte(found[2])) {
			continue
		}
		list = append(list, named{name, json.RawMessage(found[2])})
	}
	return list, dataElement.ReplaceAllString(text, "")
}

// dataIn returns the data with a name; null where there is none.
func dataIn(list []named, name string) json.RawMessage {
	for _, one := range list {
		if one.name == name {
			return one.raw
		}
	}
	return json.RawMessage("null")
}

// asked returns the text of the first message, which has the task.
func asked(req model.Request) string {
	if len(req.Messages) == 0 {
		return ""
	}
	return req.Messages[0].Text
}

// leaf is a plain value within data.
type leaf struct {
	// path has the names of the members that lead to it, without numbers of items.
	path []string
	// value is a string, a json.Number or a bool.
	value any
}

// mostLeaves bounds how much of some data is looked at.
const mostLeaves = 2000

// leavesOf returns the plain values of some JSON, at each depth the members in the order of their
// names.
func leavesOf(raw json.RawMessage) []leaf {
	var list []leaf
	walkLeaves(&list, nil, decoded(raw))
	return list
}

func walkLeaves(list *[]leaf, path []string, value any) {
	if len(*list) >= mostLeaves {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			walkLeaves(list, append(slices.Clip(path), name), value[name])
		}
	case []any:
		for _, item := range value {
			walkLeaves(list, path, item)
		}
	case nil:
	default:
		*list = append(*list, leaf{path, value})
	}
}

// decoded returns JSON with its numbers as they are written; nil for what is none.
func decoded(raw json.RawMessage) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return nil
	}
	return value
}

// name is that of the member which has the value, in words; "" where there is none.
func (l leaf) name() string {
	if len(l.path) == 0 {
		return ""
	}
	return inWords(l.path[len(l.path)-1])
}

// long is the name with that of the member around it: customer id for {"customer": {"id": …}}.
func (l leaf) long() string {
	if len(l.path) < 2 {
		return l.name()
	}
	return strings.TrimSuffix(inWords(l.path[len(l.path)-2]), "s") + " " + l.name()
}

// text is the value as people read it.
func (l leaf) text() string {
	switch value := l.value.(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	case bool:
		return strconv.FormatBool(value)
	}
	return ""
}

// plainOf returns data as a text: a string as it is, other data as a line for each value.
func plainOf(raw json.RawMessage) string {
	if text, is := decoded(raw).(string); is {
		return text
	}
	return linesOf(leavesOf(raw))
}

func linesOf(leaves []leaf) string {
	var lines []string
	for _, l := range leaves {
		lines = append(lines, strings.TrimPrefix(l.name()+": "+l.text(), ": "))
	}
	return strings.Join(lines, "\n")
}
