package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/goalloop"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
)

// goalBody is the body of a goal. Unknown members are refused.
type goalBody struct {
	Goal     *string              `json:"goal"`
	Criteria []agentdef.Criterion `json:"completion_criteria"`
	Limits   *goalLimits          `json:"limits"`
	writerBody
	DryRun      json.RawMessage `json:"dryRun"`
	DryRunSnake json.RawMessage `json:"dry_run"`
}

type goalLimits struct {
	GoalSteps   *int64             `json:"goal_steps"`
	Tokens      *int64             `json:"tokens"`
	MoneyMicros *int64             `json:"money_micros"`
	WallClock   *agentdef.Duration `json:"wall_clock"`
}

// The most that limits of a goal can be: those of agents.
const (
	mostGoalTokens = 1_000_000_000
	mostGoalMoney  = 1_000_000_000_000
	mostGoalTime   = time.Hour
)

func (l *goalLimits) read(v *wire.Validation) (out conversation.GoalLimits) {
	if l == nil {
		return out
	}
	number := func(path string, n *int64, most int64, message string) int64 {
		switch {
		case n == nil:
			return 0
		case *n < 1 || *n > most:
			v.Add(path, "range", message)
		}
		return *n
	}
	out.Steps = int(number("/limits/goal_steps", l.GoalSteps, goalloop.MaxSteps, "goal_steps must be from 1 to 100."))
	out.Tokens = number("/limits/tokens", l.Tokens, mostGoalTokens, "tokens must be from 1 to 1000000000.")
	out.MoneyMicros = number("/limits/money_micros", l.MoneyMicros, mostGoalMoney, "money_micros must be from 1 to 1000000000000.")
	if l.WallClock != nil {
		if d := l.WallClock.Std(); d < time.Second || d > mostGoalTime {
			v.Add("/limits/wall_clock", "range", "wall_clock must be from 1s to 1h.")
		}
		out.WallClockMS = l.WallClock.Std().Milliseconds()
	}
	return out
}

// goalAnswer is the answer to a goal.
type goalAnswer struct {
	ExecutionID      string              `json:"execution_id"`
	Status           conversation.Status `json:"status"`
	StopReason       *string             `json:"stop_reason"`
	Criteria         []goalCriterion     `json:"criteria"`
	ActionsExecuted  int32               `json:"actions_executed"`
	GovernanceStatus string              `json:"governance_status"`
	TokensUsed       int64               `json:"tokens_used"`
	UsageEstimated   bool                `json:"usage_estimated,omitempty"`
	Reason           *string             `json:"reason"`
	SessionID        *string             `json:"session_id"`
	CustomerID       *uuid.UUID          `json:"customer_id"`
	ApprovalID       *string             `json:"approval_id"`
	Decision         string              `json:"decision,omitempty"`
	AgentVersion     int32               `json:"agent_version"`
	FenceStatus      string              `json:"fence_status"`
	DryRun           bool                `json:"dry_run"`
}

// goalCriterion is how a criterion stands. Evidence are ids of facts.
type goalCriterion struct {
	ID       string   `json:"id"`
	Met      bool     `json:"met"`
	Evidence []string `json:"evidence"`
}

// goalFact is a call of a goal. The execution has its arguments and its result.
type goalFact struct {
	ID          string  `json:"id"`
	Verb        string  `json:"verb"`
	Status      string  `json:"status"`
	ExecutionID *string `json:"execution_id"`
	ErrorCode   *string `json:"error_code"`
}

func viewCriteria(t conversation.Turn, list []goalloop.Judged) []goalCriterion {
	if list == nil && t.Goal != nil {
		list = goalloop.Unmet(t.Goal.Criteria)
	}
	views := make([]goalCriterion, len(list))
	for i, c := range list {
		views[i] = goalCriterion{c.ID, c.Met, c.Evidence}
	}
	return views
}

func viewGoal(out conversation.Outcome) goalAnswer {
	t := out.Turn
	a := goalAnswer{
		ExecutionID: t.ExecutionID, Status: t.Status, StopReason: textOrNull(string(t.Stop)), ActionsExecuted: t.Actions, GovernanceStatus: t.Governance, TokensUsed: t.Tokens, UsageEstimated: t.Estimated,
		Reason: t.Reply, SessionID: textOrNull(t.SessionID), CustomerID: t.Customer, ApprovalID: textOrNull(t.ApprovalID), AgentVersion: t.Version, FenceStatus: wire.FenceStatus(t.State == conversation.Ended, out.Cached), DryRun: t.DryRun(),
	}
	var stand []goalloop.Judged
	if t.Progress != nil {
		stand = t.Progress.Criteria
	}
	a.Criteria = viewCriteria(t, stand)
	if t.Status == conversation.StatusPending {
		a.Decision = string(governance.PendingApproval)
	}
	return a
}

// pursueGoal has an agent work towards a goal.
func (h *agentHandlers) pursueGoal(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	if c.AgentID != "" && c.AgentID != c.Param("id") {
		return wire.Reply{}, fault.New(fault.CodeAgentLocked, "")
	}
	req, err := goalRequest(c)
	if err != nil {
		return wire.Reply{}, err
	}
	out, err := h.conversations.Message(ctx, c.Actor, req)
	if err != nil {
		return wire.Reply{}, err
	}
	return answerGoal(out)
}

func goalRequest(c *wire.Call) (req conversation.Request, err error) {
	var b goalBody
	if err := c.DecodeExact(&b, "/identity", "/metadata"); err != nil {
		return req, err
	}
	return writtenTo(c, "goal", b.Goal, b.writerBody, func(v *wire.Validation, req *conversation.Request) {
		req.Goal = &conversation.Goal{Criteria: b.Criteria, Limits: b.Limits.read(v)}
		for _, d := range agentdef.CheckCriteria("/completion_criteria", b.Criteria) {
			v.Add(d.Path, d.Rule, d.Path[1:]+" "+d.Message)
		}
		if req.Goal.DryRun = dryRunFlag(v, req.Metadata, b.DryRun, b.DryRunSnake); req.Goal.DryRun && b.SessionID != nil {
			v.Add("/session_id", "dry_run", "A dry run is in no session: nothing of what it says has happened. Leave session_id out.")
		}
	})
}

// answerGoal answers with a goal as it is: 202 while it lasts.
func answerGoal(out conversation.Outcome) (wire.Reply, error) {
	t := out.Turn
	switch {
	case t.Status == conversation.StatusFailed && t.Reply == nil:
		return wire.Reply{}, messageFailed(t)
	case t.State != conversation.Ended:
		return wire.Reply{Status: http.StatusAccepted, Data: viewGoal(out), Header: http.Header{"Location": {executionPath(t.ExecutionID)}}}, nil
	default:
		return wire.OK(viewGoal(out)), nil
	}
}

// showGoal adds to an execution what an agent in the mode goal has done.
func (h *agentHandlers) showGoal(ctx context.Context, t conversation.Turn, v *messageExecution) error {
	if t.Kind != kindGoal && t.Progress == nil {
		return nil
	}
	p, err := h.conversations.Pursued(ctx, t)
	if err != nil {
		return err
	}
	if t.Kind == kindGoal {
		v.Goal, v.Message = v.Message, nil
	}
	v.Criteria, v.Facts = viewCriteria(t, p.Criteria), []goalFact{}
	for _, step := range p.Plan {
		v.Plan = append(v.Plan, redact.Text(step))
	}
	for _, f := range p.Facts {
		shown := goalFact{ID: f.ID, Verb: redact.Text(f.Verb), Status: f.Status, ExecutionID: textOrNull(f.ExecutionID)}
		if f.Error != nil {
			shown.ErrorCode = &f.Error.Code
		}
		v.Facts = append(v.Facts, shown)
	}
	return nil
}
