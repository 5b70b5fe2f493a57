package api

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/action/run"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/tenant/auth"
)

// execution is a run as operators and callers read it.
type execution struct {
	ExecutionID      string          `json:"execution_id"`
	Verb             string          `json:"verb"`
	Provider         string          `json:"provider"`
	Status           string          `json:"status"`
	GovernanceStatus string          `json:"governance_status"`
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
	Error            *problem        `json:"error,omitempty"`
	ProviderStatus   int             `json:"provider_status,omitempty"`
	CredentialSource string          `json:"credential_source"`
	DryRun           bool            `json:"dry_run"`
	SessionID        *string         `json:"session_id"`
	Metadata         json.RawMessage `json:"metadata"`
	APIKeyID         *uuid.UUID      `json:"api_key_id"`
	RequestID        string          `json:"request_id"`
	WorkflowID       string          `json:"workflow_id"`
	Attempt          int32           `json:"attempt"`
	Sends            int32           `json:"sends"`
	DurationMS       float64         `json:"duration_ms"`
	CreatedAt        time.Time       `json:"created_at"`
	SentAt           *time.Time      `json:"sent_at"`
	FinishedAt       *time.Time      `json:"finished_at"`
}

// view shows a run. The list leaves arguments and results out: a page of them
// could be hundreds of megabytes.
func (s *Server) view(r run.Run) execution {
	e := execution{
		ExecutionID: r.ExecutionID, Verb: r.Verb.String(), Provider: r.Verb.Provider, Status: r.State.Status(),
		GovernanceStatus: governanceStatus(r), Decision: r.Decision, Reason: r.Reason, PolicyName: policyName(r.Decision != "", r.PolicyName),
		RiskLevel: string(r.Risk), OperationType: string(r.Operation), ApprovalID: r.ApprovalID,
		GrantID: r.GrantID, Held: r.Held, Edited: r.EditedArgs != nil,
		ProviderStatus: r.ProviderStatus, CredentialSource: credentialSource(r), DryRun: r.DryRun, SessionID: r.SessionID,
		Metadata: r.Metadata, APIKeyID: r.KeyID, RequestID: r.RequestID,
		WorkflowID: flow.RunWorkflowID(r.TenantID.String(), r.ClaimKey), Attempt: r.Attempt, Sends: r.Sends,
		DurationMS: milliseconds(r.Took(s.Now())), CreatedAt: r.CreatedAt.UTC(), SentAt: utc(r.SentAt), FinishedAt: utc(r.FinishedAt),
	}
	if f := r.Fault(); f != nil && r.State != run.StatePending { // which is no failure yet
		e.Error = &problem{Code: f.Code, Message: f.Message, RequestID: r.RequestID, Details: f.Details, ProviderStatus: f.ProviderStatus, Retryable: &f.Retryable}
	}
	return e
}

// detail is view with the masked arguments and the result.
func (s *Server) detail(ctx context.Context, r run.Run) execution {
	e := s.view(r)
	e.Args = s.Runs.MaskedArgs(ctx, r)
	e.Result = r.Result
	return e
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// reader is the caller as a reader of executions.
func (c *call) reader() run.Reader {
	r := run.Reader{TenantID: c.who.TenantID, RequestID: c.requestID, Source: sourceAddr(c.r)}
	if c.who.Kind == auth.KindKey {
		r.KeyID = &c.who.KeyID
	} else {
		r.UserID = &c.who.UserID
	}
	return r
}

func (s *Server) getExecution(ctx context.Context, c *call) (reply, error) {
	r, err := s.Runs.Get(ctx, c.reader(), c.param("id"))
	if err != nil {
		return reply{}, err
	}
	return ok(s.detail(ctx, r)), nil
}

func (s *Server) listExecutions(ctx context.Context, c *call) (reply, error) {
	f, err := c.executionFilter()
	if err != nil {
		return reply{}, err
	}
	runs, more, err := s.Runs.List(ctx, c.reader(), f)
	if err != nil {
		return reply{}, err
	}
	views := make([]execution, 0, len(runs))
	var last uuid.UUID
	for _, r := range runs {
		views = append(views, s.view(r))
		last = r.ID
	}
	return reply{data: views, page: pageOf(f.Limit, more, last)}, nil
}

func (c *call) executionFilter() (f run.Filter, err error) {
	if f.Limit, err = c.limit(); err != nil {
		return f, err
	}
	if f.Before, err = c.cursor(); err != nil {
		return f, err
	}
	var v problems
	if status, given := c.query("status"); given {
		f.Status = strings.ToLower(status)
		if _, known := run.StatesOf(f.Status); !known {
			v.add("query.status", "enum", "status is running, pending_approval, executed, failed, outcome_unknown, blocked, intercepted, rejected, expired or cancelled.")
		}
	}
	f.Provider, f.SessionID = v.queryText(c, "provider"), v.queryText(c, "session_id")
	if raw, given := c.query("verb"); given {
		name, err := verb.Parse(raw)
		if err != nil {
			return f, err
		}
		f.Provider, f.Verb = name.Provider, name.Verb
	}
	f.Since, f.Until = v.time(c, "since"), v.time(c, "until")
	return f, v.err()
}

// time reads an RFC 3339 query parameter.
func (v *problems) time(c *call, name string) *time.Time {
	raw, given := c.query(name)
	if !given {
		return nil
	}
	t, err := time.Parse(time.RFC3339, raw)
	if err != nil {
		v.add("query."+name, "format", name+" is a time as in RFC 3339, for example 2026-01-31T09:00:00Z.")
		return nil
	}
	return &t
}

func (s *Server) cancelExecution(ctx context.Context, c *call) (reply, error) {
	r, err := s.Runs.Cancel(ctx, c.reader(), c.param("id"))
	if err != nil {
		return reply{}, err
	}
	return ok(s.detail(ctx, r)), nil
}

type resolveBody struct {
	Outcome *string         `json:"outcome"`
	Result  json.RawMessage `json:"result"`
	Reason  *string         `json:"reason"`
}

func (s *Server) resolveExecution(ctx context.Context, c *call) (reply, error) {
	var b resolveBody
	if err := c.decode(&b, "/result"); err != nil {
		return reply{}, err
	}
	var v problems
	outcome := strings.ToLower(v.text("/outcome", b.Outcome, 20))
	if b.Outcome != nil && outcome != "executed" && outcome != "failed" {
		v.add("/outcome", "enum", "outcome is executed or failed.")
	}
	res := run.Resolution{Executed: outcome == "executed", Reason: v.text("/reason", b.Reason, 2000)}
	if len(b.Result) > 0 && string(b.Result) != "null" {
		res.Result = v.object("/result", b.Result, false)
	}
	if err := v.err(); err != nil {
		return reply{}, err
	}
	r, err := s.Runs.Resolve(ctx, c.reader(), c.param("id"), res)
	if err != nil {
		return reply{}, err
	}
	return ok(s.detail(ctx, r)), nil
}
