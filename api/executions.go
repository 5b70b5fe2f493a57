package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
)

// execution is a run as operators and callers read it.
type execution struct {
	ExecutionID      string          `json:"execution_id"`
	Kind             string          `json:"kind"`
	FenceStatus      string          `json:"fence_status,omitempty"`
	Verb             string          `json:"verb"`
	Provider         string          `json:"provider"`
	Status           string          `json:"status"`
	GovernanceStatus string          `json:"governance_status"`
	ApprovedBy       string          `json:"approved_by,omitempty"`
	Decision         string          `json:"decision"`
	Reason           string          `json:"reason"`
	PolicyName       string          `json:"policy_name"`
	RiskLevel        string          `json:"risk_level"`
	OperationType    string          `json:"operation_type"`
	ApprovalID       *string         `json:"approval_id"`
	GrantID          *uuid.UUID      `json:"grant_id"`
	Held             bool            `json:"held"`
	Edited           bool            `json:"edited"`
	Args             json.RawMessage `json:"args,omitempty"`
	Result           json.RawMessage `json:"result,omitempty"`
	resultNote
	Unreadable       []string        `json:"unreadable,omitempty"`
	ErasedAt         *time.Time      `json:"erased_at"`
	Error            *wire.ErrorBody `json:"error,omitempty"`
	ProviderStatus   int             `json:"provider_status,omitempty"`
	CredentialSource string          `json:"credential_source"`
	CredentialID     *uuid.UUID      `json:"credential_id"`
	CredentialType   string          `json:"credential_type"`
	CredentialLabel  string          `json:"credential_label"`
	ResolvedBy       *string         `json:"resolved_by"`
	ResolvedAt       *time.Time      `json:"resolved_at"`
	ResolveReason    string          `json:"resolve_reason"`
	DryRun           bool            `json:"dry_run"`
	SessionID        *string         `json:"session_id"`
	AgentID          *uuid.UUID      `json:"agent_id"`
	ParentID         *string         `json:"parent_execution_id"`
	Metadata         json.RawMessage `json:"metadata"`
	APIKeyID         *uuid.UUID      `json:"api_key_id"`
	Requester        *string         `json:"requester"`
	RequestID        string          `json:"request_id"`
	WorkflowID       string          `json:"workflow_id"`
	Attempt          int32           `json:"attempt"`
	Sends            int32           `json:"sends"`
	DurationMS       float64         `json:"duration_ms"`
	CreatedAt        time.Time       `json:"created_at"`
	SentAt           *time.Time      `json:"sent_at"`
	ExpiresAt        *time.Time      `json:"expires_at"`
	FinishedAt       *time.Time      `json:"finished_at"`
}

// viewRun returns a run without its arguments and result. A page of those could be hundreds
// of megabytes.
func viewRun(r run.Run, now time.Time) execution {
	e := execution{
		ExecutionID: r.ExecutionID, Kind: kindAction, Verb: r.Verb.String(), Provider: r.Verb.Provider, Status: r.State.Status(),
		FenceStatus: wire.StartedUnless(r.State.Ended()), GovernanceStatus: governanceStatus(r), ApprovedBy: approvedBy(r), Decision: r.Decision, Reason: r.Reason, PolicyName: policyName(r.Decision != "", r.PolicyName),
		RiskLevel: string(r.Risk), OperationType: string(r.Operation), ApprovalID: r.ApprovalID,
		GrantID: r.GrantID, Held: r.Held, Edited: r.EditedArgs != nil,
		ProviderStatus: r.ProviderStatus, CredentialSource: credentialSource(r), CredentialID: r.CredentialID, CredentialType: r.CredentialType, CredentialLabel: r.CredentialLabel,
		ResolvedBy: byUser(r.ResolvedBy), ResolvedAt: utc(r.ResolvedAt), ResolveReason: r.ResolveReason, DryRun: r.DryRun, SessionID: r.SessionID,
		AgentID: r.AgentID, ParentID: r.ParentID,
		Metadata: r.Metadata, APIKeyID: r.KeyID, Requester: byCaller(actor.CallerOf(r.KeyID, r.UserID)), RequestID: r.RequestID,
		WorkflowID: r.WorkflowID, Attempt: r.Attempt, Sends: r.Sends,
		DurationMS: milliseconds(r.Took(now)), CreatedAt: r.CreatedAt.UTC(), SentAt: utc(r.SentAt), ExpiresAt: utc(r.ExpiresAt), FinishedAt: utc(r.FinishedAt), ErasedAt: utc(r.ErasedAt),
	}
	if f := r.Fault(); f != nil && r.State != run.StatePending { // a held run has not failed
		e.Error = &wire.ErrorBody{Code: f.Code, Message: f.Message, RequestID: r.RequestID, Details: f.Details, ProviderStatus: f.ProviderStatus, ProviderError: f.ProviderError, RetryAfterMS: f.RetryAfter.Milliseconds(), Retryable: &f.Retryable}
	}
	return e
}

// detailRun returns viewRun with arguments and result. The run's caller reads the result in the
// clear by a repeat of the call; here it is masked.
func detailRun(ctx context.Context, runs Runs, r run.Run, now time.Time) execution {
	r = runs.Shown(ctx, r)
	e := viewRun(r, now)
	e.Args, e.Result, e.Unreadable, e.resultNote = r.Args, r.Result, r.Unreadable, noteOf(r)
	return e
}

// answerExecution answers with a run. While it is under way its duration grows with each
// reading, so the duration is no part of the ETag.
func (h *executionHandlers) answerExecution(ctx context.Context, r run.Run) wire.Reply {
	e := detailRun(ctx, h.runs, r, h.now())
	rep := wire.OK(e)
	if r.FinishedAt == nil {
		e.DurationMS = 0
		rep.Header = http.Header{"Etag": {wire.ViewTag(e)}}
	}
	return rep
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func (h *executionHandlers) getExecution(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	after, err := stepsAfter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	prompts, err := wantsPrompts(c)
	if err != nil {
		return wire.Reply{}, err
	}
	if e, found, err := h.maps.mapExecutionOf(ctx, c); err != nil || found {
		if err == nil {
			e, err = h.maps.mapSettled(ctx, c, e)
		}
		if err != nil {
			return wire.Reply{}, err
		}
		return h.maps.answerMapSteps(ctx, e, after)
	}
	if t, found, err := h.agents.turnOf(ctx, c); err != nil || found {
		if err == nil {
			t, err = h.agents.turnSettled(ctx, c, t)
		}
		if err != nil {
			return wire.Reply{}, err
		}
		return h.agents.answerTurn(ctx, t, prompts)
	}
	room := &answerRoom{answers: h.answers, c: c}
	r, err := h.settled(run.WithRoom(ctx, room.take), c)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := room.take(ctx, r.ExecutionID, len(r.Args)+len(r.Result)); err != nil {
		return wire.Reply{}, err
	}
	return h.answerExecution(ctx, r), nil
}

// stepsAfter returns the number of the step after which the answer shows steps.
func stepsAfter(c *wire.Call) (int32, error) {
	text, given := c.Query("steps_after")
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, fault.Invalid("query.steps_after", "minimum", "steps_after is next_steps_after of an earlier answer.")
	}
	return int32(n), nil
}

// settled returns the execution of the path. While it is under way, it waits as long as Prefer
// says; a call without Prefer does not wait.
func (h *executionHandlers) settled(ctx context.Context, c *wire.Call) (run.Run, error) {
	var v wire.Validation
	wait := preferWait(&v, c.Request.Header.Values("Prefer"))
	if err := v.Err(); err != nil {
		return run.Run{}, err
	}
	r, err := h.runs.Get(ctx, c.Actor, c.Param("id"))
	if err != nil || wait == nil || *wait == 0 || r.State.Answers() {
		return r, err
	}
	if _, err := h.runs.Await(ctx, r, h.now().Add(*wait)); err != nil {
		return run.Run{}, err
	}
	return h.runs.Get(ctx, c.Actor, c.Param("id"))
}

func (h *executionHandlers) cancelExecution(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	if e, found, err := h.maps.mapExecutionOf(ctx, c); err != nil || found {
		if err == nil {
			e, err = h.executions.Cancel(ctx, c.Actor, e)
		}
		if err != nil {
			return wire.Reply{}, err
		}
		return h.maps.answerMapExecution(ctx, e)
	}
	if t, found, err := h.agents.turnOf(ctx, c); err != nil || found {
		if err == nil {
			t, err = h.conversations.Cancel(ctx, c.Actor, t)
		}
		if err != nil {
			return wire.Reply{}, err
		}
		return h.agents.answerTurn(ctx, t, false)
	}
	room := &answerRoom{answers: h.answers, c: c}
	r, err := h.runs.Cancel(run.WithRoom(ctx, room.take), c.Actor, c.Param("id"))
	if err != nil {
		return wire.Reply{}, err
	}
	return h.answerExecution(ctx, r), nil
}

type resolveBody struct {
	Outcome *string         `json:"outcome"`
	Result  json.RawMessage `json:"result"`
	Reason  *string         `json:"reason"`
}

func (h *executionHandlers) resolveExecution(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b resolveBody
	if err := c.DecodeExact(&b, "/result"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	outcome := strings.ToLower(v.Text("/outcome", b.Outcome, 20))
	if b.Outcome != nil && outcome != "executed" && outcome != "failed" {
		v.Add("/outcome", "enum", near.Enum("outcome", outcome, "executed", "failed"))
	}
	res := run.Resolution{Executed: outcome == "executed", Reason: v.Text("/reason", b.Reason, 2000)}
	if len(b.Result) > 0 && string(b.Result) != "null" {
		res.Result = v.Object("/result", b.Result, false)
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	room := &answerRoom{answers: h.answers, c: c}
	r, err := h.runs.Resolve(run.WithRoom(ctx, room.take), c.Actor, c.Param("id"), res)
	if fault.HasCode(err, fault.CodeExecutionNotFound) {
		if _, isMap, look := h.maps.mapExecutionOf(ctx, c); look != nil || isMap {
			return wire.Reply{}, cmp.Or(look, error(fault.New(fault.CodeConflict, "This is an execution of a Map. Resolve the call whose outcome is unknown: steps of the execution have its execution_id.")))
		}
	}
	if err != nil {
		return wire.Reply{}, err
	}
	return h.answerExecution(ctx, r), nil
}
