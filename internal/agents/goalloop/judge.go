package goalloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
)

// Judged is how a criterion stands.
type Judged struct {
	ID  string `json:"id"`
	Met bool   `json:"met"`
	// Evidence are ids of facts that exist.
	Evidence []string `json:"evidence"`
	// Why is why a claim of the planner does not count; "" where it does, and where there is none.
	Why string `json:"why,omitempty"`
}

// Unmet returns the criteria as they stand before anything is done.
func Unmet(criteria []agentdef.Criterion) []Judged {
	list := make([]Judged, len(criteria))
	for i, c := range criteria {
		list[i] = Judged{ID: c.ID, Evidence: []string{}}
	}
	return list
}

// AllMet reports whether there are criteria, and each is met.
func AllMet(list []Judged) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(j Judged) bool { return !j.Met })
}

// Refused returns the criteria of which a claim does not count.
func Refused(list []Judged) (refused []Judged) {
	for _, j := range list {
		if j.Why != "" {
			refused = append(refused, j)
		}
	}
	return refused
}

// Judge returns how the criteria stand by the claims of a planner. A criterion is met where the planner
// says so and names facts that exist, and where its check is true. Without a check, one of the facts
// must be of a call that has succeeded. The error is that of the sandbox: a repeat may succeed.
func Judge(ctx context.Context, sandbox expression.Sandbox, criteria []agentdef.Criterion, claims []Claim, facts []Fact) ([]Judged, error) {
	list := Unmet(criteria)
	var dot json.RawMessage
	for i, c := range criteria {
		at := slices.IndexFunc(claims, func(claim Claim) bool { return claim.ID == c.ID })
		if at < 0 || !claims[at].Met {
			continue
		}
		j := &list[i]
		if j.Evidence, j.Why = evidence(claims[at].Evidence, facts, c.Check != ""); j.Why != "" {
			continue
		}
		if c.Check == "" {
			j.Met = true
			continue
		}
		if dot == nil {
			var err error
			if dot, err = dotOf(facts); err != nil {
				return nil, err
			}
		}
		var err error
		if j.Met, j.Why, err = passes(ctx, sandbox, c, dot); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// evidence returns the facts that a claim names, and why they show nothing.
func evidence(ids []string, facts []Fact, checked bool) (known []string, why string) {
	known = []string{}
	shows := false
	for _, id := range ids {
		i := slices.IndexFunc(facts, func(f Fact) bool { return f.ID == id })
		switch {
		case i < 0:
			why = "the evidence names a fact that does not exist"
		case facts[i].LookUp || slices.Contains(known, id):
		default:
			known = append(known, id)
			shows = shows || checked || facts[i].Executed()
		}
	}
	switch {
	case why != "":
	case len(known) == 0:
		why = "there is no evidence"
	case !shows:
		why = "no call of the evidence has succeeded"
	}
	return known, why
}

// dotOf returns what checks read.
func dotOf(facts []Fact) (json.RawMessage, error) {
	calls := []stepmachine.AgentCall{}
	for _, f := range facts {
		if !f.LookUp {
			calls = append(calls, stepmachine.AgentCall{ID: f.ID, Verb: f.Verb, Args: f.Args, Status: f.Status, Result: f.Result})
		}
	}
	raw, err := exactjson.Encode(map[string]any{"facts": calls})
	if err != nil {
		return nil, fmt.Errorf("goalloop: facts: %w", err)
	}
	return raw, nil
}

func passes(ctx context.Context, sandbox expression.Sandbox, c agentdef.Criterion, dot json.RawMessage) (yes bool, why string, err error) {
	check, wrong := c.Condition()
	if wrong != "" {
		return false, "the check cannot be read: " + wrong, nil
	}
	yes, err = check.Eval(ctx, sandbox, expression.Roots{Dot: dot})
	var failure *expression.Failure
	switch {
	case errors.As(err, &failure):
		return false, "the check has no value: " + failure.Detail, nil
	case err != nil:
		return false, "", fmt.Errorf("goalloop: check of %s: %w", c.ID, err)
	case !yes:
		return false, "the check is not true", nil
	}
	return true, "", nil
}
