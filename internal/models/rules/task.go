package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/agents/wordrank"
	"agentruntime/internal/models/model"
)

// task is the one call that the model makes for a goal, or why it makes none.
type task struct {
	tool    *candidate
	args    []argument
	missing []string
	// exact: each word of the goal is one of the call. Then the call is all that the goal asks for.
	exact bool
	// stops is why no call is made; "" where one is.
	stops string
}

var valueRef = regexp.MustCompile(`\[value [0-9]+\]`)

// taskOf returns the call for a goal. Its tool goes by the words of the goal alone, so no data asks for
// another one. Its arguments are filled from the goal, then from data. Nobody confirms it, so a tool that
// writes is called only where the goal begins with its verb and says nothing that the call does not.
func taskOf(e *effort, tools []model.Tool, goal string, data []leaf, told map[string]string) task {
	read := beginning(goal, mostGoal)
	tool, args, missing := choose(e, tools, wish{text: read, told: told})
	if tool == nil {
		return task{stops: "no verb has the words of the goal"}
	}
	if len(missing) > 0 {
		text := beginning(read+"\n"+linesOf(data), mostText)
		args, missing = tool.fill(e, wish{text: text, told: told}, e.scanOf(text))
	}
	t := task{tool: tool, args: args, missing: missing}
	unread := tool.unread(read, args)
	t.exact = unread == "" && read == goal
	switch {
	case len(missing) > 0:
		t.stops = "the goal does not say the " + inWords(missing[0]) + " for " + tool.Name
	case tool.writes && len(read) < len(goal):
		t.stops = fmt.Sprintf("the goal is longer than the %d bytes that are read before a write", mostGoal)
	case tool.writes && unread != "":
		t.stops = fmt.Sprintf("%s writes, and is called only where each word of the goal is one of the call; %q is none", tool.Name, unread)
	}
	return t
}

// unread returns the first word of a goal that is none of a call of the tool; "" where there is none. The
// first word is that of the verb: a goal that begins with "Do not" does not ask for it.
func (c candidate) unread(goal string, args []argument) string {
	known := []string{c.words}
	for _, a := range args {
		known = append(known, inWords(a.name))
		if value := fmt.Sprint(a.value); !strings.Contains(value, " ") { // a text may have any word
			known = append(known, value)
		}
	}
	keys := keysOf(strings.Join(known, " ") + " a an the of to by for with")
	verb, _, _ := strings.Cut(c.words, " ")
	for i, w := range wordrank.Words(quoted.ReplaceAllString(valueRef.ReplaceAllString(goal, " "), " ")) {
		if i == 0 && !slices.Equal([]string{w.Key}, keysOf(verb)) || !slices.Contains(keys, w.Key) {
			return w.Text
		}
	}
	return ""
}

// planned is the answer of a planner.
type planned struct {
	Status    string   `json:"status"`
	Remaining []string `json:"remaining_plan"`
	Next      any      `json:"next"`
	Criteria  []met    `json:"criteria"`
	Reason    string   `json:"reason"`
}

// met is what the model says of a criterion.
type met struct {
	ID       string   `json:"id"`
	Met      bool     `json:"met"`
	Evidence []string `json:"evidence"`
}

// criterion is one of those that a goal or a step is complete by.
type criterion struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	Check       string `json:"check"`
}

// shown is a call as managers and planners read it.
type shown struct {
	end

	ID   string `json:"id"`
	Verb string `json:"verb"`
}

// executed returns the ids of the calls that have succeeded.
func executed(calls []shown) []string {
	ids := []string{}
	for _, c := range calls {
		if c.succeeded() {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// plan answers a planner's request: it makes one call, and then says that the goal is reached. It claims
// each criterion that has a check, which the service tests. Without one, it claims the goal itself, where
// the call is all that the goal asks for.
func plan(e *effort, req model.Request) string {
	data, _ := dataOf(asked(req))
	var criteria []criterion
	var verbs []struct {
		Verb        string          `json:"verb"`
		Description string          `json:"description"`
		Operation   string          `json:"operation_type"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	var facts []shown
	_ = json.Unmarshal(dataIn(data, "criteria"), &criteria) // what is not there is empty
	_ = json.Unmarshal(dataIn(data, "verbs"), &verbs)
	_ = json.Unmarshal(dataIn(data, "facts"), &facts)
	goal, _ := decoded(dataIn(data, "goal")).(string)
	tools := make([]model.Tool, len(verbs))
	for i, v := range verbs {
		tools[i] = model.Tool{Name: v.Verb, Description: v.Description, Schema: v.Parameters, Operation: v.Operation}
	}
	t := taskOf(e, tools, goal, nil, nil)
	p := planned{Remaining: []string{}, Criteria: []met{}}
	done := executed(facts)
	for _, c := range criteria {
		m := met{ID: c.ID, Evidence: []string{}}
		if len(done) > 0 && (c.Check != "" || t.exact && c.Description == goal) {
			m.Met, m.Evidence = true, done
		}
		p.Criteria = append(p.Criteria, m)
	}
	const ruled = "By builtin:rules, no language model: "
	unmet := slices.IndexFunc(p.Criteria, func(m met) bool { return !m.Met })
	switch {
	case len(facts) == 0 && t.stops == "":
		verb := t.tool.words
		p.Status, p.Remaining, p.Reason = "act", []string{verb}, "The goal asks for it."
		p.Next = map[string]any{"verb": t.tool.Name, "args": values(t.args), "why": p.Reason, "expect": verb + " is executed"}
		return encoded(p)
	case len(facts) == 0:
		p.Reason = t.stops
	case len(done) == 0:
		p.Reason = facts[0].Verb + " has not succeeded: " + cmp.Or(facts[0].Error.words(), inWords(facts[0].Status))
	case string(dataIn(data, "refused")) != "null":
		p.Reason = "it makes one call for a goal, and the checks of the criteria are not true after it"
	case unmet >= 0:
		p.Reason = "it cannot judge the criterion " + p.Criteria[unmet].ID + ", which has no check"
	default:
		p.Status, p.Reason = "done", "The one call that the goal asks for was made."
		return encoded(p)
	}
	p.Status, p.Reason = "blocked", ruled+p.Reason+"."
	return encoded(p)
}

var goalOf = regexp.MustCompile(`(?s)^The goal: (.*?)(?:\nYour last answer is JSON .*)?$`)

// work does an agent step: one call, and the answer that tells what came of it.
func work(e *effort, req model.Request) (string, []model.ToolCall) {
	data, text := dataOf(asked(req))
	goal := ""
	if found := goalOf.FindStringSubmatch(strings.TrimSpace(text)); found != nil {
		goal = strings.TrimSpace(found[1])
	}
	var leaves []leaf
	told := wish{told: map[string]string{}}
	var results []json.RawMessage
	for _, one := range data {
		leaves = append(leaves, leavesOf(one.raw)...)
	}
	called := false
	for _, m := range slices.Backward(req.Messages[min(1, len(req.Messages)):]) {
		called = called || m.Role == model.Result
		more, _ := dataOf(m.Text)
		if m.Role == model.Result {
			var e end
			if inside := element.FindStringSubmatch(m.Text); inside != nil && json.Unmarshal([]byte(inside[1]), &e) == nil && e.succeeded() {
				results = append(results, e.Result)
			}
			continue
		}
		if answer, is := decoded(dataIn(more, "answer")).(string); is { // to a question of the step
			question, _ := decoded(dataIn(more, "question")).(string)
			told.hears(question, answer)
			leaves = append(leaves, leaf{path: []string{"answer"}, value: answer})
		}
	}
	var answer string
	if called {
		answer = tell(req.Tools, req.Messages)
	} else {
		t := taskOf(e, req.Tools, goal, leaves, told.told)
		switch {
		case t.stops == "":
			return "", []model.ToolCall{callOf(*t.tool, t.args, len(req.Messages))}
		case len(t.missing) > 0:
			answer = t.tool.asksFor(t.missing[0])
		default:
			answer = "I have done nothing: " + t.stops + "."
		}
	}
	if req.OutputSchema == nil {
		return answer, nil
	}
	return outputOf(e, req.OutputSchema, answer, results, leaves), nil
}

// outputOf fills the schema of a step's output by the names of its properties: from the results of calls,
// the newest first, then from the data. Where nothing was called, a required text is what the model says.
func outputOf(e *effort, schema json.RawMessage, answer string, results []json.RawMessage, data []leaf) string {
	x := extractorOf(e, json.RawMessage(encoded(map[string]any{"results": results})), "")
	x.leaves = append(x.leaves, data...)
	var s shape
	_ = json.Unmarshal(schema, &s) // without one, any value is right
	value, _ := x.value("", &s)
	object, is := value.(map[string]any)
	switch {
	case !is && s.is("string"):
		return encoded(answer)
	case !is && !s.is("object"):
		return encoded(value)
	case !is:
		object = map[string]any{}
	}
	for _, name := range s.Required {
		if p := s.Properties[name]; object[name] == nil && p != nil && p.is("string") {
			object[name] = answer
		}
	}
	return encoded(object)
}
