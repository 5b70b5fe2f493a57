package conversation

import (
	"context"
	"encoding/json"
	"fmt"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/goalloop"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/event"
)

// Goal is what a goal was given beside its text.
type Goal struct {
	// Criteria are empty where those of the agent count.
	Criteria []agentdef.Criterion `json:"criteria,omitempty"`
	// Limits lower those of the agent.
	Limits GoalLimits `json:"limits"`
	// DryRun: writes are intercepted, and people decide about each of them.
	DryRun bool `json:"dry_run,omitempty"`
}

// DryRun reports whether the turn is a dry run of a goal.
func (t Turn) DryRun() bool { return t.Goal != nil && t.Goal.DryRun }

// GoalLimits bound one goal. One that is zero bounds nothing.
type GoalLimits struct {
	Steps       int   `json:"goal_steps,omitempty"`
	Tokens      int64 `json:"tokens,omitempty"`
	MoneyMicros int64 `json:"money_micros,omitempty"`
	WallClockMS int64 `json:"wall_clock_ms,omitempty"`
}

// Criteria returns what says that a goal is reached, by what it was given and by its agent. A goal that
// was given nothing needs a fact at least.
func Criteria(d *agentdef.Definition, given *Goal, text string) []agentdef.Criterion {
	switch {
	case given != nil && len(given.Criteria) > 0:
		return given.Criteria
	case len(d.CompletionCriteria) > 0:
		return d.CompletionCriteria
	default:
		return []agentdef.Criterion{{ID: "goal", Description: text}}
	}
}

// Progress is how the criteria of a goal stand.
type Progress struct {
	Criteria []goalloop.Judged `json:"criteria"`
	// Plan are the steps that were left, in the planner's words.
	Plan []string `json:"plan,omitempty"`
}

// noteGoal sets what a row has of a goal.
func (req Request) noteGoal(d *agentdef.Definition, key *datakey.Key, row *claim, t *Turn) {
	if row.Kind, t.Kind = flow.KindMessage, flow.KindMessage; req.Goal == nil {
		return
	}
	row.Kind, t.Kind = flow.KindGoal, flow.KindGoal
	t.Goal = &Goal{Criteria: Criteria(d, req.Goal, req.Message), Limits: req.Goal.Limits, DryRun: req.Goal.DryRun}
	row.Goal = sealOptional(key, t.place(datakey.TurnGoal), mustJSON(t.Goal))
}

// openGoal reads what the row has of a goal.
func (t *Turn) openGoal(key *datakey.Key, r dbsqlc.GetTurnRow) error {
	for _, one := range []struct {
		field  datakey.Field
		sealed *string
		into   any
	}{{datakey.TurnGoal, r.Goal, &t.Goal}, {datakey.TurnOutcome, r.Outcome, &t.Progress}} {
		if one.sealed == nil {
			continue
		}
		text, err := key.Open(t.place(one.field), *one.sealed)
		if err == nil {
			err = json.Unmarshal(text, one.into)
		}
		if err != nil {
			return fmt.Errorf("conversation: %s of %s: %w", one.field, t.ID, err)
		}
	}
	return nil
}

// emitGoal queues the event of a goal that has ended. While it waits for people, that of their approval
// tells of it.
func emitGoal(b *db.Batch, key *datakey.Key, t Turn) {
	if t.State != Ended {
		return
	}
	body := event.Goal{Status: string(t.Status), StopReason: string(t.Stop), DryRun: t.DryRun(), ActionsExecuted: int(t.Actions), TokensUsed: t.Tokens, Criteria: []event.GoalCriterion{}}
	if t.Reply != nil {
		body.Reason = *t.Reply
	}
	if t.Progress != nil {
		for _, c := range t.Progress.Criteria {
			body.Criteria = append(body.Criteria, event.GoalCriterion{ID: c.ID, Met: c.Met})
		}
	}
	var as event.Body = event.GoalCompleted{Goal: body}
	if t.Status != StatusCompleted {
		as = event.GoalFailed{Goal: body}
	}
	event.Queue(b, event.Event{TenantID: t.TenantID, About: aboutTurn(t), Body: as, Key: key})
}

// Pursued is how far an agent is with a goal, for others to read.
type Pursued struct {
	Criteria []goalloop.Judged
	Plan     []string
	Facts    []PursuedFact
}

// PursuedFact is a call of a goal, without its arguments and its result: the execution has them.
type PursuedFact struct {
	ID, Verb, Status string
	// ExecutionID is "" where the call was not made.
	ExecutionID string
	Error       *stepmachine.Error
}

// Pursued returns how far the agent is with the goal of a turn.
func (s *Service) Pursued(ctx context.Context, t Turn) (p Pursued, err error) {
	w, _, err := s.Load(ctx, t.Ref())
	if err != nil {
		return p, err
	}
	executions := map[string]string{}
	for _, a := range w.Answers {
		if a.Criteria != nil {
			p.Criteria = a.Criteria
		}
		if a.Wrong == "" {
			p.Plan = goalloop.Remaining(a.Response)
		}
		for i, call := range a.Response.Calls {
			executions[call.ID] = a.Runs[i].ExecutionID
		}
		for _, f := range a.Facts {
			p.Facts = append(p.Facts, PursuedFact{ID: f.ID, Verb: f.Verb, Status: f.Status, Error: f.Error})
		}
	}
	for i := range p.Facts {
		p.Facts[i].ExecutionID = executions[p.Facts[i].ID]
	}
	if t.Progress != nil {
		p.Criteria, p.Plan = t.Progress.Criteria, t.Progress.Plan
	}
	return p, nil
}
