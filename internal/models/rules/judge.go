package rules

import (
	"encoding/json"
	"slices"
	"strings"

	"agentruntime/internal/models/model"
)

// ruling is the answer of a manager.
type ruling struct {
	Verdict  string         `json:"verdict"`
	Criteria []met          `json:"criteria"`
	Feedback string         `json:"feedback"`
	Outputs  map[string]any `json:"outputs"`
}

// judge answers a manager's request by the hard checks alone: a step is complete where all of them pass.
// The calls that have succeeded are then the evidence of each criterion.
func judge(req model.Request) string {
	var criteria []criterion
	var calls []shown
	var checks []struct {
		Name   string
		Passed bool
		Detail string
	}
	data, _ := dataOf(asked(req))
	_ = json.Unmarshal(dataIn(data, "criteria"), &criteria) // what is not there is empty
	_ = json.Unmarshal(dataIn(data, "calls"), &calls)
	_ = json.Unmarshal(dataIn(data, "checks"), &checks)
	output := dataIn(data, "output")
	var failing []string
	for _, c := range checks {
		if !c.Passed {
			failing = append(failing, strings.TrimSpace(c.Name+" "+c.Detail))
		}
	}
	// What a customer has answered is no call.
	calls = slices.DeleteFunc(calls, func(c shown) bool { return c.Verb == "input" })
	evidence := executed(calls)
	if len(calls) == 0 {
		evidence = []string{"output"} // counts in a step that has no tools
	}
	r := ruling{Verdict: "complete", Criteria: []met{}, Outputs: map[string]any{}}
	for _, c := range criteria {
		r.Criteria = append(r.Criteria, met{c.ID, len(failing) == 0 && len(evidence) > 0, evidence})
	}
	for _, l := range leavesOf(output) {
		if text := l.text(); strings.HasPrefix(text, pleaseTell) {
			r.Verdict, r.Feedback = "needs_input", text
			return encoded(r)
		}
	}
	switch {
	case len(failing) > 0:
		r.Verdict, r.Feedback = "retry", "These checks do not pass: "+strings.Join(failing, "; ")+"."
	case len(evidence) == 0:
		r.Verdict, r.Feedback = "retry", "No call has succeeded."
	}
	return encoded(r)
}
