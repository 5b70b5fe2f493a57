package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// messageExecution is a message to an agent as operators and callers read it.
type messageExecution struct {
	ExecutionID      string              `json:"execution_id"`
	Kind             string              `json:"kind"`
	FenceStatus      string              `json:"fence_status,omitempty"`
	AgentID          uuid.UUID           `json:"agent_id"`
	AgentVersion     int32               `json:"agent_version"`
	Status           conversation.Status `json:"status"`
	StopReason       *string             `json:"stop_reason"`
	GovernanceStatus string              `json:"governance_status"`
	ApprovalID       *string             `json:"approval_id"`
	MapExecutionID   *string             `json:"map_execution_id"`
	ParentID         *string             `json:"parent_execution_id"`
	ActionsExecuted  int32               `json:"actions_executed"`
	TokensUsed       int64               `json:"tokens_used"`
	UsageEstimated   bool                `json:"usage_estimated,omitempty"`
	CostMicros       int64               `json:"cost_micros"`
	Model            *string             `json:"model"`
	SOPMatched       *string             `json:"sop_matched"`
	SOPs             []sopHit            `json:"sops,omitempty"`
	Memory           *memoryUse          `json:"memory,omitempty"`
	Language         *string             `json:"language,omitempty"`
	SessionID        *string             `json:"session_id"`
	CustomerID       *uuid.UUID          `json:"customer_id"`
	Metadata         json.RawMessage     `json:"metadata"`
	Identity         json.RawMessage     `json:"identity,omitempty"`
	Message          *string             `json:"message,omitempty"`
	Goal             *string             `json:"goal,omitempty"`
	DryRun           bool                `json:"dry_run"`
	Reply            *string             `json:"reply,omitempty"`
	Criteria         []goalCriterion     `json:"criteria,omitempty"`
	Plan             []string            `json:"plan,omitempty"`
	Facts            []goalFact          `json:"facts,omitempty"`
	Error            *stepmachine.Error  `json:"error"`
	ModelCalls       []turnModelCall     `json:"model_calls,omitempty"`
	Feedback         []feedbackView      `json:"feedback,omitempty"`
	APIKeyID         *uuid.UUID          `json:"api_key_id"`
	Requester        *string             `json:"requester"`
	RequestID        string              `json:"request_id"`
	WorkflowID       string              `json:"workflow_id"`
	DurationMS       float64             `json:"duration_ms"`
	CreatedAt        time.Time           `json:"created_at"`
	FinishedAt       *time.Time          `json:"finished_at"`
}

// turnModelCall is one answer of a model for a message.
type turnModelCall struct {
	Number     int32       `json:"number"`
	Purpose    string      `json:"purpose"`
	Model      *string     `json:"model"`
	Status     string      `json:"status"` // completed or failed
	Finish     *string     `json:"finish"`
	Tokens     model.Usage `json:"tokens"`
	CostMicros int64       `json:"cost_micros"`
	Calls      []started   `json:"calls"`
	LatencyMS  float64     `json:"latency_ms"`
	BeganAt    time.Time   `json:"began_at"`
	EndedAt    time.Time   `json:"ended_at"`
	Prompt     *promptView `json:"prompt,omitempty"`
}

// sopHit is a procedure that fits a message.
type sopHit struct {
	Slug  string  `json:"slug"`
	Score float64 `json:"score"`
	// Words are those of the message, and Reason has some: both are masked.
	Words   []string `json:"words"`
	Reason  string   `json:"reason"`
	Checked bool     `json:"checked"` // by a model
}

// promptView is what a model has read for an answer beside what it had read before, and what it wrote,
// masked.
type promptView struct {
	Advice  string       `json:"advice,omitempty"`
	Summary string       `json:"summary,omitempty"`
	Read    []promptText `json:"read"`
	Wrote   promptText   `json:"wrote"`
}

// promptText is a message as models read and write them.
type promptText struct {
	Role  model.Role   `json:"role"`
	Text  string       `json:"text"`
	Calls []promptCall `json:"calls,omitempty"`
	// Reasoning is what the model thought; only of what it wrote.
	Reasoning string `json:"reasoning,omitempty"`
}

type promptCall struct {
	Name string `json:"name"`
	Args string `json:"args"`
}

// mostPrompt is how many bytes of one message of a prompt are shown.
const mostPrompt = 32 << 10

func viewPromptText(role model.Role, text string, calls []model.ToolCall) promptText {
	shown := promptText{Role: role, Text: redact.Text(cut(text))}
	for _, c := range calls {
		shown.Calls = append(shown.Calls, promptCall{c.Name, redact.Text(cut(string(maskedText(c.Args))))})
	}
	return shown
}

func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), mostPrompt)], "") }

func viewPrompt(p conversation.Prompt) *promptView {
	v := &promptView{
		Advice: redact.Text(p.Advice), Summary: redact.Text(p.Summary), Read: []promptText{},
		Wrote: viewPromptText(model.Assistant, p.Wrote.Text, p.Wrote.Calls),
	}
	v.Wrote.Reasoning = redact.Text(cut(p.Wrote.Reasoning))
	for _, m := range p.Read {
		v.Read = append(v.Read, viewPromptText(m.Role, m.Text, m.Calls))
	}
	return v
}

// started is a call that an answer of a model has asked for: a run, or another execution.
type started struct {
	// Kind is that of the execution.
	Kind        string     `json:"kind"`
	Verb        string     `json:"verb,omitempty"`
	MapID       *uuid.UUID `json:"map_id,omitempty"`
	AgentID     *uuid.UUID `json:"agent_id,omitempty"`
	ExecutionID string     `json:"execution_id"`
}

func viewStarted(r conversation.Run) started {
	kind := kindAction
	switch {
	case r.MapID != nil:
		kind = kindMap
	case r.AgentID != nil:
		kind = kindMessage
	}
	return started{Kind: kind, Verb: r.Verb, MapID: r.MapID, AgentID: r.AgentID, ExecutionID: r.ExecutionID}
}

func viewTurn(t conversation.Turn, now time.Time) messageExecution {
	return messageExecution{
		ExecutionID: t.ExecutionID, Kind: string(t.Kind), FenceStatus: wire.StartedUnless(t.State == conversation.Ended), AgentID: t.AgentID, AgentVersion: t.Version, Status: t.Status, StopReason: textOrNull(string(t.Stop)),
		GovernanceStatus: t.Governance, ApprovalID: textOrNull(t.ApprovalID), MapExecutionID: textOrNull(t.MapExecution), ParentID: textOrNull(t.ParentID), ActionsExecuted: t.Actions, TokensUsed: t.Tokens, UsageEstimated: t.Estimated, CostMicros: t.MoneyMicros,
		Model: textOrNull(t.Model), SOPMatched: textOrNull(t.SOP), SessionID: textOrNull(t.SessionID), CustomerID: t.Customer, Metadata: maskedText(t.Metadata),
		Identity: t.Identity, Error: t.Error, APIKeyID: t.KeyID, Requester: byCaller(actor.CallerOf(t.KeyID, nil)), RequestID: t.RequestID, WorkflowID: t.WorkflowID, DryRun: t.DryRun(),
		DurationMS: milliseconds(t.Took(now)), CreatedAt: t.CreatedAt(), FinishedAt: utc(t.FinishedAt),
	}
}

// wantsPrompts reports whether the caller wants to see what models read and wrote. Only owners may.
func wantsPrompts(c *wire.Call) (bool, error) {
	text, given := c.Query("prompts")
	switch {
	case !given || text == "false":
		return false, nil
	case text != "true":
		return false, fault.Invalid("query.prompts", "enum", near.Enum("prompts", text, "true", "false"))
	case c.Actor.Role != actor.RoleOwner:
		return false, fault.New(fault.CodeInsufficientPermissions, "Only owners see what models read and wrote.")
	}
	return true, nil
}

// answerTurn answers with a message and the answers of models for it. What was written and replied
// is masked. prompts: what the models read and wrote is shown too.
func (h *agentHandlers) answerTurn(ctx context.Context, t conversation.Turn, prompts bool) (wire.Reply, error) {
	answers, err := h.conversations.Answers(ctx, t)
	if err != nil {
		return wire.Reply{}, err
	}
	var read map[conversation.PromptOf]conversation.Prompt
	if prompts {
		if read, err = h.conversations.Prompts(ctx, t); err != nil {
			return wire.Reply{}, err
		}
	}
	v := viewTurn(t, h.now())
	v.Message, v.Language = new(redact.Text(t.Message)), languageOf(t)
	for _, hit := range t.SOPs {
		shown := sopHit{Slug: hit.ID, Score: hit.Score, Words: []string{}, Reason: redact.Text(hit.Reason), Checked: hit.Checked}
		for _, word := range hit.Words {
			shown.Words = append(shown.Words, redact.Text(word))
		}
		v.SOPs = append(v.SOPs, shown)
	}
	if t.Reply != nil {
		v.Reply = new(redact.Text(*t.Reply))
	}
	for _, a := range answers {
		call := turnModelCall{
			Number: a.Number, Purpose: a.Purpose, Model: textOrNull(a.Model), Status: string(stepmachine.StepCompleted), Finish: textOrNull(a.Finish),
			Tokens: a.Usage, CostMicros: a.Money, Calls: []started{}, LatencyMS: milliseconds(a.EndedAt.Sub(a.BeganAt)), BeganAt: a.BeganAt.UTC(), EndedAt: a.EndedAt.UTC(),
		}
		if a.Failed {
			call.Status = string(stepmachine.StepFailed)
		}
		if p, has := read[conversation.PromptOf{Number: a.Number, Purpose: model.Purpose(a.Purpose)}]; has {
			call.Prompt = viewPrompt(p)
		}
		for _, run := range a.Runs {
			call.Calls = append(call.Calls, viewStarted(run))
		}
		v.ModelCalls = append(v.ModelCalls, call)
	}
	v.Memory = viewMemory(t, prompts)
	ratings, err := h.agentSessions.Ratings(ctx, t)
	if err != nil {
		return wire.Reply{}, err
	}
	v.Feedback = viewFeedback(ratings...)
	if err := h.showGoal(ctx, t, &v); err != nil {
		return wire.Reply{}, err
	}
	rep := wire.OK(v)
	if t.FinishedAt == nil {
		v.DurationMS = 0
		rep.Header = http.Header{"Etag": {wire.ViewTag(v)}}
	}
	return rep, nil
}

// turnSettled waits for the reply to a message as long as Prefer says.
func (h *agentHandlers) turnSettled(ctx context.Context, c *wire.Call, t conversation.Turn) (conversation.Turn, error) {
	wait, err := preferredWait(c)
	if err != nil || wait == 0 {
		return t, err
	}
	return h.conversations.Await(ctx, t, h.now().Add(wait))
}
