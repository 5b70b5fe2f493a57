package rules

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/kernel/model"
)

var (
	goalOf   = regexp.MustCompile(`(?s)^The goal: (.*?)(?:\nYour last answer is JSON .*)?$`)
	valueRef = regexp.MustCompile(`\[value [0-9]+\]`)
)

// work does the next thing for an agent step: a call, or the answer that ends it.
func work(e *effort, req model.Request) (string, []model.ToolCall) {
	j := jobOf(e, req)
	m := j.next()
	if m.call != nil {
		raw := encoded(values(m.call.args))
		return "", []model.ToolCall{{ID: fmt.Sprintf("call_%d", len(req.Messages)), Name: m.call.tool.Name, Args: json.RawMessage(raw)}}
	}
	text := j.told(m)
	if req.OutputSchema == nil {
		return text, nil
	}
	return j.output(req.OutputSchema, text, m), nil
}

// jobOf reads the task of an agent step, and the calls that it has made.
func jobOf(e *effort, req model.Request) *job {
	data, task := dataOf(asked(req))
	j := &job{effort: e}
	goal := ""
	if found := goalOf.FindStringSubmatch(strings.TrimSpace(task)); found != nil {
		goal = strings.TrimSpace(found[1])
	}
	if len(goal) > mostGoal {
		goal, j.unread = beginning(goal, mostGoal), true
	}
	// A plain value of the goal stands where its author has put it. It chooses no verb: see pick.
	goal = valueRef.ReplaceAllStringFunc(goal, func(ref string) string {
		raw := dataIn(data, strings.Trim(ref, "[]"))
		if len(raw) > mostHarmless {
			return ref
		}
		if list := leavesOf(raw); len(list) == 1 && len(list[0].path) == 0 && harmless.MatchString(list[0].text()) {
			return list[0].text()
		}
		return ref
	})
	for _, one := range data {
		j.data = append(j.data, leavesOf(one.raw)...)
	}
	for _, m := range req.Messages[min(1, len(req.Messages)):] {
		if m.Role != model.User {
			continue
		}
		more, _ := dataOf(m.Text) // what is said of an answer: the data in it may be what was missing
		for _, one := range more {
			j.data = append(j.data, leavesOf(one.raw)...)
		}
	}
	var tools []candidate
	for _, t := range req.Tools {
		if !own(t.Name) {
			tools = append(tools, candidateOf(t))
		}
	}
	j.offer(tools)
	j.made = madeIn(req.Messages)
	j.take(goal)
	return j
}

// harmless is a value that stands within a goal: an id, a number, an address or one word. Other data
// fills arguments, and nothing else.
var harmless = regexp.MustCompile(`^[\p{L}\p{N}@._+:#-]{1,120}$`)

// mostHarmless is how many bytes of JSON it has at most.
const mostHarmless = 2_000

// madeIn returns the calls of a conversation with what came of them.
func madeIn(messages []model.Message) (list []made) {
	for _, m := range messages {
		for _, c := range m.Calls {
			args, _ := decoded(c.Args).(map[string]any)
			list = append(list, made{id: c.ID, name: c.Name, args: args, status: "unknown"})
		}
		i := slices.IndexFunc(list, func(c made) bool { return m.Role == model.Result && c.id == m.CallID })
		if i < 0 {
			continue
		}
		inside := element.FindStringSubmatch(m.Text)
		if inside == nil {
			continue
		}
		var end struct {
			Status    string          `json:"status"`
			Result    json.RawMessage `json:"result"`
			Beginning string          `json:"beginning"`
			Error     *failure        `json:"error"`
		}
		if json.Unmarshal([]byte(inside[1]), &end) == nil {
			list[i].status, list[i].result, list[i].failed = end.Status, end.Result, end.Error
			list[i].read()
		}
	}
	return list
}

// told says what has come of the job.
func (j *job) told(m move) string {
	switch {
	case m.needed != "":
		return pleaseTell + "the " + m.missing + ". I need it to " + m.needed + "."
	case m.missing != "":
		return pleaseTell + "the " + m.missing + ": " + m.blocked + "."
	}
	var said []string
	for _, made := range j.made {
		name := inWords(verbOf(made.name))
		switch {
		case made.failed != nil:
			said = append(said, fmt.Sprintf("I could not %s: %s.", name, made.failed.words()))
		case made.succeeded() && made.result != nil:
			said = append(said, found(book()[english], name, made.result))
		default:
			said = append(said, fmt.Sprintf("The call to %s ended as %s.", name, inWords(made.status)))
		}
	}
	if m.blocked != "" && !slices.ContainsFunc(j.made, func(made made) bool { return made.failed != nil }) {
		said = append(said, "I have stopped: "+m.blocked+".")
	}
	if len(said) == 0 {
		said = append(said, "There was nothing to do.")
	}
	return strings.Join(said, " ")
}

// output fills the schema of the step's output: from the results of calls, the newest first, then from
// the data and the goal.
func (j *job) output(schema json.RawMessage, text string, m move) string {
	results := map[string]any{"goal": j.goal}
	var newest []json.RawMessage
	for _, made := range slices.Backward(j.made) {
		if made.succeeded() && made.result != nil {
			newest = append(newest, made.result)
		}
	}
	x := extractor{effort: j.effort, root: decoded(schema), text: text}
	for _, made := range slices.Backward(j.made) {
		if made.succeeded() {
			x.leaves = append(x.leaves, made.leaves...)
		}
	}
	x.leaves = append(x.leaves, j.data...)
	results["results"] = newest
	x.raw = decoded(json.RawMessage(encoded(results)))
	s := x.shape(schema)
	value, _ := x.value("", schema, true, 0)
	object, is := value.(map[string]any)
	if !is {
		if value == nil && s.is("string") {
			return encoded(text)
		}
		if value == nil && !s.is("object") && len(s.Properties) == 0 {
			return text
		}
		object = map[string]any{}
	}
	for name, raw := range s.Properties {
		p := x.shape(raw)
		words := inWords(name)
		_, filled := object[name]
		switch {
		case p.is("boolean") && !j.knows(name):
			if yes, ok := j.did(words, m); ok || slices.Contains(s.Required, name) {
				object[name] = yes
			}
		case p.is("string") && len(p.Enum) == 0 && slices.Contains(inOwnWords, words):
			object[name] = text
		case words == "handled" && p.is("array"):
			object[name] = []any{}
		case !filled && p.is("string") && slices.Contains(s.Required, name) && m.missing != "":
			object[name] = text
		}
	}
	return encoded(object)
}

// inOwnWords are names of properties that have the answer in words.
//
//nolint:gochecknoglobals // an immutable table
var inOwnWords = []string{"answer", "message", "reply", "text", "question", "report", "note", "outcome"}

// knows reports whether a result or the data has a value with the name.
func (j *job) knows(name string) bool {
	leaves := slices.Clone(j.data)
	for _, m := range j.made {
		leaves = append(leaves, m.leaves...)
	}
	return len(find(j.effort, name, leaves)) > 0
}

// did reports whether a call has succeeded whose verb has the words of a property: refunded, or
// is_cancelled. done and success are about all of the job.
func (j *job) did(words string, m move) (yes, ok bool) {
	switch words {
	case "done", "success", "ok", "completed", "complete", "succeeded", "finished":
		return m.done, true
	}
	keys := keysOf(strings.TrimPrefix(strings.TrimPrefix(words, "is "), "was "))
	for _, made := range j.made {
		for _, key := range keysOf(inWords(verbOf(made.name))) {
			if slices.ContainsFunc(keys, func(k string) bool { return alike(k, key) }) {
				ok = true
				yes = yes || made.succeeded()
			}
		}
	}
	return yes, ok
}

// alike reports whether two words have one stem: send and sent, cancel and cancelled.
func alike(a, b string) bool {
	const stem = 3
	return len(a) >= stem && len(b) >= stem && a[:stem] == b[:stem]
}
