package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/event"
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
func (h *actionHandlers) answerExecution(ctx context.Context, r run.Run) wire.Reply {
	e := detailRun(ctx, h.runs, r, h.now())
	rep := wire.OK(e)
	if r.FinishedAt == nil {
		e.DurationMS = 0
		rep.Header = http.Header{"Etag": {wire.ViewTag(e)}}
	}
	return rep
}

// settled returns the execution of the path. While it is under way, it waits as long as Prefer
// says; a call without Prefer does not wait.
func (h *actionHandlers) settled(ctx context.Context, c *wire.Call) (run.Run, error) {
	wait, err := preferredWait(c)
	if err != nil {
		return run.Run{}, err
	}
	r, err := h.runs.Get(ctx, c.Actor, c.Param("id"))
	if err != nil || wait == 0 || r.State.Answers() {
		return r, err
	}
	if _, err := h.runs.Await(ctx, r, h.now().Add(wait)); err != nil {
		return run.Run{}, err
	}
	return h.runs.Get(ctx, c.Actor, c.Param("id"))
}

// kind is the row of runs. A run is looked up only by what is done with it, each in one query.
func (h *actionHandlers) kind() executionKind {
	return executionKind{
		names:    []string{kindAction},
		statuses: []string{"running", "pending_approval", "executed", "failed", "outcome_unknown", "blocked", "intercepted", "rejected", "expired", "cancelled"},
		list:     h.listRuns,
		find:     func(context.Context, *wire.Call) (foundExecution, error) { return namedRun{h}, nil },
	}
}

// namedRun is the run that a path names, if there is one.
type namedRun struct{ h *actionHandlers }

func (n namedRun) executionID(ctx context.Context, c *wire.Call) (string, error) {
	r, err := n.h.runs.Get(ctx, c.Actor, c.Param("id"))
	return r.ExecutionID, err
}

func (n namedRun) show(ctx context.Context, c *wire.Call, _ shown) (wire.Reply, error) {
	room := &answerRoom{answers: n.h.answers, c: c}
	r, err := n.h.settled(run.WithRoom(ctx, room.take), c)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := room.take(ctx, r.ExecutionID, len(r.Args)+len(r.Result)); err != nil {
		return wire.Reply{}, err
	}
	return n.h.answerExecution(ctx, r), nil
}

func (n namedRun) cancel(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	room := &answerRoom{answers: n.h.answers, c: c}
	r, err := n.h.runs.Cancel(run.WithRoom(ctx, room.take), c.Actor, c.Param("id"))
	if err != nil {
		return wire.Reply{}, err
	}
	return n.h.answerExecution(ctx, r), nil
}

func (n namedRun) changes(context.Context, *wire.Call, int32, int) (wire.Reply, error) {
	return wire.Reply{}, noChanges()
}

func (n namedRun) decide(context.Context, *wire.Call, changesDecision) (wire.Reply, error) {
	return wire.Reply{}, noChanges()
}

func (h *actionHandlers) listRuns(ctx context.Context, c *wire.Call, q executionQuery, _ []string) (page []listed, more bool, err error) {
	f := run.Filter{
		Limit: q.limit, Before: q.before, Status: q.status, SessionID: q.session, CustomerID: q.customer, KeyID: q.key, Since: q.since, Until: q.until, Begins: q.q,
	}
	var v wire.Validation
	f.Provider = v.QueryText(c, "provider")
	if name, given, err := c.QueryVerb(); err != nil {
		return nil, false, err
	} else if given {
		f.Provider, f.Verb = name.Provider, name.Verb
	}
	if f.DryRun, err = c.QueryBool("dry_run"); err != nil {
		return nil, false, err
	}
	f.Decision = wire.QueryOneOf(&v, c, "decision", "allow", "pending_approval", "block")
	f.RiskLevel = string(wire.QueryOneOf(&v, c, "risk_level", verb.RiskLow, verb.RiskMedium, verb.RiskHigh))
	f.PolicyID, f.GrantID = v.QueryID(c, "policy_id"), v.QueryID(c, "grant_id")
	f.ApprovalID = v.QueryText(c, "approval_id")
	f.AgentID, f.MapID, f.ParentID = v.QueryID(c, "agent_id"), v.QueryID(c, "map_id"), v.QueryText(c, "parent_execution_id")
	if err := v.Err(); err != nil {
		return nil, false, err
	}
	runs, more, err := h.runs.List(ctx, c.Actor, f)
	for _, r := range runs {
		page = append(page, listed{r.ID, viewRun(r, h.now())})
	}
	return page, more, err
}

func (n namedRun) stream(ctx context.Context, c *wire.Call, _ *int64) error {
	r, err := n.h.runs.Get(ctx, c.Actor, c.Param("id"))
	if err != nil {
		return err
	}
	// It counts as a stream of events, and ends as one.
	place, err := n.h.events.Stream(ctx, c.Actor.TenantID, event.Filter{ExecutionID: r.ExecutionID}, &event.Place{})
	if err != nil {
		return err
	}
	defer place.Close()
	return n.h.streams.live(ctx, c, route{takes: takesKeyOrJWT, roles: anyRole()}, &runSource{h: n.h, place: place, who: c.Actor, id: r.ExecutionID})
}

// runSource tells of one run.
type runSource struct {
	h     *actionHandlers
	place *event.Stream
	who   actor.Actor
	id    string
	told  executionStatus
}

func (f *runSource) wait(ctx context.Context) bool { return f.place.Pause(ctx, followEvery) }
func (f *runSource) beat() string                  { return "" }

func (f *runSource) next(ctx context.Context) (messages []byte, more, over bool, err error) {
	r, err := f.h.runs.Get(ctx, f.who, f.id)
	if err != nil {
		return nil, false, false, err
	}
	var b bytes.Buffer
	if now := (executionStatus{ExecutionID: r.ExecutionID, Status: r.State.Status(), Attempt: r.Attempt}); now != f.told {
		f.told = now
		err = message(&b, "", "status", now)
	}
	if over = r.State.Ended(); over && err == nil {
		err = message(&b, "", "end", viewRun(r, f.h.now()))
	}
	return b.Bytes(), false, over, err
}
