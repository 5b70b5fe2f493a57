package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/language"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// Conversations is what the endpoints need of the messages to agents.
type Conversations interface {
	// Message has an agent answer, and waits for the reply. A fault refuses the message.
	Message(ctx context.Context, who actor.Actor, req conversation.Request) (conversation.Outcome, error)
	// Begin is Message, and does not wait.
	Begin(ctx context.Context, who actor.Actor, req conversation.Request) (conversation.Outcome, error)
	// Follow begins to follow the first reply to a turn, after a row of its stream.
	Follow(ctx context.Context, t conversation.Turn, after int32, awake func()) (*conversation.Follower, error)
	Get(ctx context.Context, who actor.Actor, executionID string) (conversation.Turn, error)
	// Await waits until the turn has a reply or has ended, at most until the given time.
	Await(ctx context.Context, t conversation.Turn, until time.Time) (conversation.Turn, error)
	Cancel(ctx context.Context, who actor.Actor, t conversation.Turn) (conversation.Turn, error)
	List(ctx context.Context, who actor.Actor, f conversation.Filter) ([]conversation.Turn, bool, error)
	// Answers returns the answers of models for a turn, without what was said.
	Answers(ctx context.Context, t conversation.Turn) ([]conversation.Asked, error)
	// Pursued returns how far an agent is with a goal.
	Pursued(ctx context.Context, t conversation.Turn) (conversation.Pursued, error)
	// Prompts returns what the models have read and wrote for a turn.
	Prompts(ctx context.Context, t conversation.Turn) (map[conversation.PromptOf]conversation.Prompt, error)
}

// messageBody is the body of a message. Unknown members are refused.
type messageBody struct {
	Message *string `json:"message"`
	writerBody
}

// writerBody are the members that messages and goals have in common: who writes, and where.
type writerBody struct {
	SessionID  *string         `json:"session_id"`
	CustomerID *string         `json:"customer_id"`
	Identity   json.RawMessage `json:"identity"`
	// IdentityHash vouches for customer_id, or for the email of identity.
	IdentityHash *string         `json:"identity_hash"`
	Metadata     json.RawMessage `json:"metadata"`
}

// maxMessage is how many bytes a message may have.
const maxMessage = 32 << 10

// maxIdentityHash is how many characters an identity_hash has at most; a right one has 64.
const maxIdentityHash = 255

// answered is the answer to a message. It joins the two shapes that the specification shows.
type answered struct {
	Message          *string             `json:"message"`
	SessionID        *string             `json:"session_id"`
	ExecutionID      string              `json:"execution_id"`
	Status           conversation.Status `json:"status"`
	ActionsExecuted  int32               `json:"actions_executed"`
	GovernanceStatus string              `json:"governance_status"`
	TokensUsed       int64               `json:"tokens_used"`
	CustomerID       *uuid.UUID          `json:"customer_id"`
	ApprovalID       *string             `json:"approval_id"`
	Decision         string              `json:"decision,omitempty"`
	Metadata         answeredBy          `json:"metadata"`
	FenceStatus      string              `json:"fence_status"`
}

// answeredBy says how a message was answered.
type answeredBy struct {
	Model           *string `json:"model"`
	TokensUsed      int64   `json:"tokens_used"`
	ActionsExecuted int32   `json:"actions_executed"`
	LatencyMS       float64 `json:"latency_ms"`
	SOPMatched      *string `json:"sop_matched"`
	Language        *string `json:"language"`
	StopReason      *string `json:"stop_reason"`
	AgentVersion    int32   `json:"agent_version"`
	MapExecutionID  *string `json:"map_execution_id"`
	// UsageEstimated: a server has not reported all of the tokens.
	UsageEstimated bool `json:"usage_estimated,omitempty"`
}

func (h *agentHandlers) viewAnswer(out conversation.Outcome) answered {
	t := out.Turn
	a := answered{
		Message: t.Reply, SessionID: textOrNull(t.SessionID), ExecutionID: t.ExecutionID, Status: t.Status, ActionsExecuted: t.Actions,
		GovernanceStatus: t.Governance, TokensUsed: t.Tokens, CustomerID: t.Customer, ApprovalID: textOrNull(t.ApprovalID), FenceStatus: wire.FenceStatus(!goesOn(t), out.Cached),
		Metadata: answeredBy{
			Model: textOrNull(t.Model), TokensUsed: t.Tokens, ActionsExecuted: t.Actions, LatencyMS: milliseconds(t.Took(h.now())),
			SOPMatched: textOrNull(t.SOP), Language: languageOf(t), StopReason: textOrNull(string(t.Stop)), AgentVersion: t.Version,
			MapExecutionID: textOrNull(t.MapExecution), UsageEstimated: t.Estimated,
		},
	}
	return a
}

// languageOf returns the code of the language that a message is written in; nil where that is not sure.
func languageOf(t conversation.Turn) *string {
	l, _ := language.Of(t.Message)
	return textOrNull(l.Code)
}

// sendMessage has an agent answer a message.
func (h *agentHandlers) sendMessage(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	if c.AgentID != "" && c.AgentID != c.Param("id") {
		return wire.Reply{}, fault.New(fault.CodeAgentLocked, "")
	}
	req, err := messageRequest(c)
	if err != nil {
		return wire.Reply{}, err
	}
	if wantsStream(c.Request.Header.Values("Accept")) {
		return wire.Reply{}, h.streamMessage(ctx, c, req)
	}
	out, err := h.conversations.Message(ctx, c.Actor, req)
	if err != nil {
		return wire.Reply{}, err
	}
	return h.answerMessage(out, respondsAsync(c))
}

func messageRequest(c *wire.Call) (req conversation.Request, err error) {
	var b messageBody
	if err := c.DecodeExact(&b, "/identity", "/metadata"); err != nil {
		return req, err
	}
	return writtenTo(c, "message", b.Message, b.writerBody, func(v *wire.Validation, req *conversation.Request) {
		if dryRunFlag(v, req.Metadata, nil, nil) {
			v.Add("/metadata", "dry_run", "A message has no dry run: the agent's calls would be made. Hold them with a policy instead.")
		}
	})
}

// writtenTo returns what is written to an agent, a message or a goal. member is that of its text. also
// reads what only one of them has.
func writtenTo(
	c *wire.Call, member string, text *string, b writerBody, also func(v *wire.Validation, req *conversation.Request),
) (req conversation.Request, err error) {
	var v wire.Validation
	req = conversation.Request{
		AgentID: c.ID(), Message: v.Text("/"+member, text, maxMessage), CustomerID: v.OptionalID("/customer_id", b.CustomerID), Mode: c.IdentityMode,
		Metadata: v.Object("/metadata", b.Metadata, false), Wait: preferWait(&v, c),
	}
	if len(b.Identity) > 0 {
		req.Identity = v.Object("/identity", b.Identity, false)
	}
	if len(req.Message) > maxMessage {
		v.Add("/"+member, "maxLength", member+" may have at most 32768 bytes.")
	}
	also(&v, &req)
	req.IdentitySecrets, req.IdentityHash = c.IdentitySecrets, v.OptionalText("/identity_hash", b.IdentityHash, 1, maxIdentityHash)
	if len(req.Metadata) > maxMetadata {
		v.Add("/metadata", "maxLength", "metadata may have at most 16384 bytes.")
	}
	if err := v.Err(); err != nil {
		return req, err
	}
	if req.SessionID, err = keyField("/session_id", b.SessionID); err != nil {
		return req, err
	}
	key, given, err := c.IdempotencyKey()
	if given {
		req.Key = key
	}
	return req, err
}

// goesOn reports whether a turn has nothing to say yet.
func goesOn(t conversation.Turn) bool {
	return (t.Status == conversation.StatusRunning || t.Status == conversation.StatusPaused) && t.Replies == 0
}

// answerMessage answers with a turn as it is. With async one that waits for people is 202.
func (h *agentHandlers) answerMessage(out conversation.Outcome, async bool) (wire.Reply, error) {
	t := out.Turn
	held := async && t.Status == conversation.StatusPending
	switch {
	case t.Status == conversation.StatusFailed && t.Reply == nil: // a goal that is missed and a Map that failed have one
		return wire.Reply{}, messageFailed(t)
	case held || goesOn(t):
		a := h.viewAnswer(out)
		if a.FenceStatus = wire.FenceStatus(false, out.Cached); held {
			a.Decision = string(governance.PendingApproval)
		}
		return wire.Reply{Status: http.StatusAccepted, Data: a, Header: http.Header{"Location": {executionPath(t.ExecutionID)}}}, nil
	default:
		return wire.OK(h.viewAnswer(out)), nil
	}
}

// messageFailed answers a message to which there is no reply.
func messageFailed(t conversation.Turn) error {
	f := fault.New(fault.CodeModelError, "")
	if t.Error != nil {
		f = fault.New(fault.Code(t.Error.Code), t.Error.Detail)
		f.Retryable, f.RetryAfter = t.Error.Retryable, time.Duration(t.Error.RetryAfterMS)*time.Millisecond
	}
	f.ExecutionID, f.Status, f.Reason = t.ExecutionID, string(t.Status), string(t.Stop)
	return f
}
