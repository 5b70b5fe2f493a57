package goalloop

import (
	"encoding/json"
	"fmt"
	"strings"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/models/model"
)

// Status is what a planner says of the goal.
type Status string

// The statuses.
const (
	Act     Status = "act"
	Done    Status = "done"
	Blocked Status = "blocked"
)

// Plan is an answer of a planner.
type Plan struct {
	Status Status
	// Remaining are the steps that are left.
	Remaining []string
	// Next is the call to make; nil unless Status is Act.
	Next *Next
	// Claims are what the planner says of the criteria.
	Claims []Claim
	Reason string
}

// Next is a call that a planner asks for.
type Next struct {
	Verb        string
	Args        json.RawMessage // an object
	Why, Expect string
}

// Claim is what a planner says of a criterion.
type Claim struct {
	ID       string
	Met      bool
	Evidence []string
}

// Bounds of an answer.
const (
	maxAnswer   = 64 << 10 // bytes
	maxPlan     = 100      // entries
	maxEvidence = 100
)

type answer struct {
	Status    *Status   `json:"status"`
	Remaining *[]string `json:"remaining_plan"`
	Next      *struct {
		Verb   *string         `json:"verb"`
		Args   json.RawMessage `json:"args"`
		Why    *string         `json:"why"`
		Expect *string         `json:"expect"`
	} `json:"next"`
	Criteria *[]struct {
		ID       *string   `json:"id"`
		Met      *bool     `json:"met"`
		Evidence *[]string `json:"evidence"`
	} `json:"criteria"`
	Reason *string `json:"reason"`
}

// Read returns what an answer of a planner says. wrong is why it cannot be used, in words for the
// planner; "" where it can.
func Read(r model.Response, criteria []agentdef.Criterion) (p Plan, wrong string) {
	switch {
	case r.Finish == model.Refused:
		return p, "you refused to answer"
	case r.Finish == model.CutOff:
		return p, fmt.Sprintf("it was cut off at %d tokens", outputTokens)
	case len(r.Calls) > 0:
		return p, "it calls a tool; name the verb in next"
	case len(r.Text) > maxAnswer:
		return p, fmt.Sprintf("it has more than %d bytes", maxAnswer)
	}
	var a answer
	if err := strictjson.Decode([]byte(unfenced(r.Text)), &a, strictjson.Options{Free: []string{"/next/args"}}); err != nil {
		if f := fault.As(err); f != nil && len(f.Details) > 0 {
			return p, strings.TrimSpace(f.Details[0].Path + " " + f.Details[0].Message)
		}
		return p, "it is not one JSON object"
	}
	switch {
	case a.Status == nil || a.Remaining == nil || a.Criteria == nil || a.Reason == nil:
		return p, "status, remaining_plan, next, criteria and reason are all required"
	case *a.Status != Act && *a.Status != Done && *a.Status != Blocked:
		return p, "status must be act, done or blocked"
	case len(*a.Remaining) > maxPlan:
		return p, fmt.Sprintf("remaining_plan has more than %d entries", maxPlan)
	case *a.Status == Act && a.Next == nil:
		return p, "next must be a call where status is act"
	}
	p = Plan{Status: *a.Status, Remaining: *a.Remaining, Reason: strings.TrimSpace(*a.Reason)}
	if p.Status == Act {
		if a.Next.Verb == nil || a.Next.Why == nil || a.Next.Expect == nil {
			return p, "next must have verb, args, why and expect"
		}
		var args map[string]json.RawMessage
		if json.Unmarshal(a.Next.Args, &args) != nil || args == nil {
			return p, "args of next must be an object"
		}
		p.Next = &Next{*a.Next.Verb, a.Next.Args, *a.Next.Why, *a.Next.Expect}
	}
	known := map[string]bool{}
	for _, c := range criteria {
		known[c.ID] = true
	}
	for _, c := range *a.Criteria {
		switch {
		case c.ID == nil || c.Met == nil || c.Evidence == nil:
			return p, "each of criteria must have id, met and evidence"
		case !known[*c.ID]:
			return p, "criteria must have each criterion once, by its id, and no other"
		case len(*c.Evidence) > maxEvidence:
			return p, fmt.Sprintf("a criterion has more than %d ids as evidence", maxEvidence)
		}
		known[*c.ID] = false
		p.Claims = append(p.Claims, Claim{*c.ID, *c.Met, *c.Evidence})
	}
	return p, ""
}

// unfenced returns a text without the fence of Markdown that some models write around JSON.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if body, fenced := strings.CutPrefix(text, "```"); fenced {
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(body, "json"), "```"))
	}
	return text
}

// Remaining returns the steps that are left by an answer of a planner that could be used.
func Remaining(r model.Response) []string {
	var a answer
	if strictjson.Decode([]byte(unfenced(r.Text)), &a, strictjson.Options{Free: []string{"/next/args"}}) != nil || a.Remaining == nil {
		return nil
	}
	return *a.Remaining
}
