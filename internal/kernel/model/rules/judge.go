package rules

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/kernel/model"
)

// criterion is one of those that a goal or a step is complete by.
type criterion struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	Check       string `json:"check"`
}

// met is what the model says of a criterion.
type met struct {
	ID       string   `json:"id"`
	Met      bool     `json:"met"`
	Evidence []string `json:"evidence"`
}

// shown is a call as managers and planners read it.
type shown struct {
	ID     string          `json:"id"`
	Verb   string          `json:"verb"`
	Args   map[string]any  `json:"args"`
	Status string          `json:"status"`
	Result json.RawMessage `json:"result"`
	Error  *failure        `json:"error"`
	// Operation is whether the verb reads or writes, as the catalog has it.
	Operation string `json:"operation"`
}

func (s shown) made() made {
	return made{id: s.ID, name: s.Verb, args: s.Args, status: s.Status, result: s.Result, failed: s.Error}
}

// hardCheck is what the service has checked by itself.
type hardCheck struct {
	Name   string          `json:"name"`
	Passed bool            `json:"passed"`
	Detail json.RawMessage `json:"detail"`
}

func (c hardCheck) words() string {
	if text, is := decoded(c.Detail).(string); is && text != "" {
		return c.Name + " (" + text + ")"
	}
	if facts := plainOf(c.Detail); facts != "" {
		return c.Name + " (" + short(facts) + ")"
	}
	return c.Name
}

// ruling is the answer of a manager.
type ruling struct {
	Verdict  string         `json:"verdict"`
	Criteria []met          `json:"criteria"`
	Feedback string         `json:"feedback"`
	Outputs  map[string]any `json:"outputs"`
}

// outputEvidence is the id of the output where a criterion asks for evidence, as package modelstep says.
const outputEvidence = "output"

// final are codes of failures that no other attempt mends.
//
//nolint:gochecknoglobals // an immutable table
var final = strings.Fields("GOVERNANCE_BLOCKED APPROVAL_REJECTED PROVIDER_NOT_CONNECTED CREDENTIAL_EXPIRED VERB_NOT_FOUND BUDGET_EXCEEDED INSUFFICIENT_PERMISSIONS")

var asks = regexp.MustCompile(`(?i)^\W*(please tell me|which|what|could you|can you|please (give|send|provide))\b|\?\s*$`)

// judge answers a manager's request by checks alone: a step is complete where all hard checks pass. A
// criterion is met then by the calls that have succeeded; those that share words with it, where some
// do.
func judge(req model.Request) string {
	var in struct {
		criteria []criterion
		calls    []shown
		checks   []hardCheck
	}
	data, _ := dataOf(asked(req))
	_ = json.Unmarshal(dataIn(data, "criteria"), &in.criteria) // what is not there is empty
	_ = json.Unmarshal(dataIn(data, "calls"), &in.calls)
	_ = json.Unmarshal(dataIn(data, "checks"), &in.checks)
	output := dataIn(data, "output")
	r := ruling{Verdict: "complete", Criteria: []met{}, Outputs: map[string]any{}}
	if object, is := decoded(output).(map[string]any); is {
		r.Outputs = object
	}
	// What the customer has answered is no call, and shows nothing of what was done.
	in.calls = slices.DeleteFunc(in.calls, func(c shown) bool { return c.Verb == "input" })
	var failing []string
	for _, c := range in.checks {
		if !c.Passed {
			failing = append(failing, c.words())
		}
	}
	unmet := []string{}
	for _, c := range in.criteria {
		m := met{ID: c.ID, Evidence: evidence(c, in.calls)}
		if len(in.calls) == 0 {
			m.Evidence = []string{outputEvidence} // counts in a step that has no tools
		}
		m.Met = len(failing) == 0 && len(m.Evidence) > 0
		if !m.Met {
			unmet = append(unmet, c.ID)
		}
		r.Criteria = append(r.Criteria, m)
	}
	question := questionIn(output)
	stopped := slices.ContainsFunc(in.calls, func(c shown) bool { return c.Error != nil && slices.Contains(final, c.Error.Code) })
	switch {
	case question != "":
		r.Verdict, r.Feedback = "needs_input", question
	case len(failing) == 0 && len(unmet) == 0:
	case stopped:
		r.Verdict, r.Feedback = "failed", "A call has failed in a way that no other attempt mends: "+failures(in.calls)+"."
	case len(failing) > 0:
		r.Verdict, r.Feedback = "retry", "These checks do not pass: "+strings.Join(failing, "; ")+"."
	default:
		r.Verdict, r.Feedback = "retry", "No succeeded call shows that these criteria are met: "+strings.Join(unmet, ", ")+"."
	}
	return encoded(r)
}

// questionIn returns the question that an output asks; "" where it asks none.
func questionIn(output json.RawMessage) string {
	if text, is := decoded(output).(string); is {
		if asks.MatchString(strings.TrimSpace(text)) {
			return strings.TrimSpace(text)
		}
		return ""
	}
	for _, l := range leavesOf(output) {
		text, is := l.value.(string)
		if is && len(l.path) == 1 && (strings.HasPrefix(text, pleaseTell) || l.name() == "question" && text != "") {
			return text
		}
	}
	return ""
}

// failures says which calls have failed.
func failures(calls []shown) string {
	var list []string
	for _, c := range calls {
		if c.Error != nil {
			list = append(list, c.Verb+": "+c.Error.words())
		}
	}
	return strings.Join(list, "; ")
}

// evidence returns the ids of the succeeded calls that show a criterion: those whose verb its check
// names, otherwise those that share words with it, otherwise those that write, otherwise all.
func evidence(c criterion, calls []shown) []string {
	keys := keysOf(c.Description)
	byCheck, byWords, writes, all := []string{}, []string{}, []string{}, []string{}
	for _, call := range calls {
		if !call.made().succeeded() {
			continue
		}
		name := inWords(verbOf(call.Verb))
		all = append(all, call.ID)
		if strings.Contains(c.Check, call.Verb) {
			byCheck = append(byCheck, call.ID)
		}
		if slices.ContainsFunc(keysOf(name), func(key string) bool {
			return slices.ContainsFunc(keys, func(k string) bool { return alike(k, key) })
		}) {
			byWords = append(byWords, call.ID)
		}
		if call.Operation != "read" {
			writes = append(writes, call.ID)
		}
	}
	for _, list := range [][]string{byCheck, byWords, writes} {
		if len(list) > 0 {
			return list
		}
	}
	return all
}
