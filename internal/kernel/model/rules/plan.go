package rules

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/kernel/model"
)

// planned is the answer of a planner.
type planned struct {
	Status    string   `json:"status"`
	Remaining []string `json:"remaining_plan"`
	Next      *next    `json:"next"`
	Criteria  []met    `json:"criteria"`
	Reason    string   `json:"reason"`
}

// next is the call that a planner wants.
type next struct {
	Verb   string         `json:"verb"`
	Args   map[string]any `json:"args"`
	Why    string         `json:"why"`
	Expect string         `json:"expect"`
}

// offered is a verb as planners read it.
type offered struct {
	Verb        string          `json:"verb"`
	Description string          `json:"description"`
	Operation   string          `json:"operation_type"`
	Parameters  json.RawMessage `json:"parameters"`
}

// plan answers a planner's request. It does what the words of the goal ask for, one verb after the
// other; reads what a required argument is missing of, and what a write is about before it. It knows no
// expression: the service checks what it claims of criteria.
func plan(e *effort, req model.Request) string {
	data, _ := dataOf(asked(req))
	var criteria []criterion
	var verbs []offered
	var facts []shown
	var steps json.Number
	_ = json.Unmarshal(dataIn(data, "criteria"), &criteria) // what is not there is empty
	_ = json.Unmarshal(dataIn(data, "verbs"), &verbs)
	_ = json.Unmarshal(dataIn(data, "facts"), &facts)
	_ = json.Unmarshal(dataIn(data, "steps_left"), &steps)
	goal, _ := decoded(dataIn(data, "goal")).(string)
	j := &job{effort: e}
	var tools []candidate
	for _, v := range verbs {
		if own(v.Verb) {
			continue
		}
		tools = append(tools, candidateOf(model.Tool{Name: v.Verb, Description: v.Description, Schema: v.Parameters, Operation: v.Operation}))
	}
	j.offer(tools)
	for _, f := range facts {
		m := f.made()
		m.read()
		j.made = append(j.made, m)
	}
	j.take(goal)
	j.lookFor(criteria)
	m := j.next()
	if left, err := steps.Int64(); err == nil && steps != "" {
		j.few = int(left) <= len(m.left)
		if j.few {
			m = j.next()
		}
	}
	return encoded(j.planned(m, criteria, facts))
}

var verbName = regexp.MustCompile(`[a-z0-9_-]+:[A-Za-z0-9_.-]+`)

// lookFor adds what the checks of criteria look for: their verbs, and their ids. Where the goal names
// no verb, the descriptions of the criteria do.
func (j *job) lookFor(criteria []criterion) {
	for _, c := range criteria {
		for _, name := range verbName.FindAllString(c.Check, -1) {
			if _, offered := j.of[name]; offered && !slices.Contains(j.wanted, name) {
				j.wanted = append(j.wanted, name)
			}
		}
		for _, id := range idLike.FindAllString(c.Check, mostIDs) {
			j.data = append(j.data, leaf{value: id})
		}
	}
	for _, c := range criteria {
		if len(j.said) > 0 || len(j.wanted) > 0 {
			return
		}
		j.take("\n" + c.Description + ".")
	}
}

func (j *job) planned(m move, criteria []criterion, facts []shown) planned {
	p := planned{Remaining: m.left, Criteria: []met{}}
	if p.Remaining == nil {
		p.Remaining = []string{}
	}
	for _, c := range criteria {
		one := met{ID: c.ID, Evidence: []string{}}
		if list := evidence(c, facts); m.done || namesAll(c, facts) {
			one.Evidence, one.Met = list, len(list) > 0
		}
		p.Criteria = append(p.Criteria, one)
	}
	switch {
	case m.call != nil:
		p.Status, p.Reason = "act", m.call.why
		p.Next = &next{Verb: m.call.tool.Name, Args: values(m.call.args), Why: m.call.why, Expect: expects(m.call.tool)}
	case m.done:
		p.Status, p.Reason = "done", "All that the goal asks for was done."
	default:
		p.Status, p.Reason = "blocked", ruled+m.blocked+"."
	}
	return p
}

// namesAll reports whether the check of a criterion names verbs, and each has a succeeded call.
func namesAll(c criterion, facts []shown) bool {
	names := verbName.FindAllString(c.Check, -1)
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(facts, func(f shown) bool { return f.Verb == name && f.made().succeeded() })
	})
}

func expects(c candidate) string {
	switch {
	case c.writes:
		return strings.TrimSpace(inWords(c.verb())) + " is executed"
	case c.many():
		return "the " + singular(c.noun()) + " is in the list"
	}
	return "the " + c.noun() + " is read"
}
