package goalloop

import (
	"encoding/json"

	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/strictjson"
)

// The reasons to stop that only goals have. The others are those of messages.
const (
	CriteriaMet      agentloop.Stop = "criteria_met"
	StepCap          agentloop.Stop = "step_cap"          // limits.goal_steps
	NoProgress       agentloop.Stop = "no_progress"       // the same calls brought the same results, or nothing new was learnt
	PlannerBlocked   agentloop.Stop = "planner_blocked"   // the planner says that the goal cannot be reached
	ApprovalRejected agentloop.Stop = "approval_rejected" // people were asked about a call, and it was not approved
	ErrorBudget      agentloop.Stop = "error_budget"      // too many calls in a row have failed
)

// MaxSteps is the most that limits.goal_steps can be.
const MaxSteps = 100

const (
	// errorBudget is how many calls in a row may fail. A planner that learns from an error needs one or
	// two tries; five leave room for a verb that it has to look up first.
	errorBudget = 5
	// idle is how many steps in a row may bring nothing new. One is a slip, and two a try to convince.
	idle = 3
)

// Step is one answer of the planner that could be used.
type Step struct {
	// Fact is what came of the call; nil where the answer has asked for none.
	Fact *Fact
}

// Stops returns why the agent stops after the steps, by what they have brought; "" where it goes on.
func Stops(steps []Step) agentloop.Stop {
	failed, nothing := 0, 0
	known := map[string]bool{}
	var calls []agentloop.Call
	for _, s := range steps {
		if s.Fact == nil {
			nothing++
			continue
		}
		if s.Fact.Rejected {
			return ApprovalRejected
		}
		if failed++; s.Fact.Executed() {
			failed = 0
		}
		call := agentloop.Call{Name: s.Fact.Verb, Args: s.Fact.Args, Result: came(*s.Fact)}
		calls = append(calls, call)
		if key := keyOf(call); known[key] {
			nothing++
		} else {
			known[key], nothing = true, 0
		}
	}
	if failed >= errorBudget {
		return ErrorBudget
	}
	if _, loops := agentloop.Loops(calls); loops || nothing >= idle {
		return NoProgress
	}
	return ""
}

// came returns what came of a call, for comparison.
func came(f Fact) json.RawMessage {
	about := map[string]any{"status": f.Status, "result": f.Result}
	if f.Sum == "" && f.Result != nil { // it may be left out later
		f.drop()
	}
	if f.Sum != "" {
		about["result"] = f.Sum
	}
	if f.Error != nil {
		about["code"] = f.Error.Code
	}
	raw, err := exactjson.Encode(about)
	if err != nil {
		return nil // it is made of texts and JSON
	}
	return raw
}

func keyOf(c agentloop.Call) string {
	form := func(raw json.RawMessage) string {
		if canonical, err := strictjson.Canonical(raw); err == nil {
			return string(canonical)
		}
		return string(raw)
	}
	return c.Name + "\x00" + form(c.Args) + "\x00" + form(c.Result)
}

// Reply is what a caller is told of the end: the planner's own words where there are some.
func Reply(stop agentloop.Stop, reason string) string {
	if reason != "" && (stop == CriteriaMet || stop == PlannerBlocked) {
		return reason
	}
	switch stop {
	case CriteriaMet:
		return "The goal is reached."
	case PlannerBlocked:
		return "I cannot reach this goal."
	case StepCap:
		return "I could not reach this goal: it took more steps than I may make."
	case NoProgress:
		return "I could not reach this goal: my steps brought nothing new."
	case ApprovalRejected:
		return "I could not reach this goal: a step needed an approval, and was not approved."
	case ErrorBudget:
		return "I could not reach this goal: too many steps failed."
	default:
		return agentloop.Apology(stop, "en")
	}
}
