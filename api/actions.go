package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/resultnote"
)

// Runs is what the run, governance and execution endpoints need of the run domain.
type Runs interface {
	Do(ctx context.Context, who actor.Actor, req run.Request) (run.Outcome, error)
	Evaluate(ctx context.Context, who actor.Actor, q run.Question) (run.Evaluation, error)
	Get(ctx context.Context, who actor.Actor, executionID string) (run.Run, error)
	Result(ctx context.Context, who actor.Actor, executionID string) (json.RawMessage, error)
	File(ctx context.Context, who actor.Actor, executionID, fileID string) (run.File, error)
	List(ctx context.Context, who actor.Actor, f run.Filter) ([]run.Run, bool, error)
	// Await waits until the run has an answer, at most until the given time.
	Await(ctx context.Context, r run.Run, until time.Time) (run.Run, error)
	Cancel(ctx context.Context, who actor.Actor, executionID string) (run.Run, error)
	Resolve(ctx context.Context, who actor.Actor, executionID string, res run.Resolution) (run.Run, error)
	Shown(ctx context.Context, r run.Run) run.Run
	Refused(ctx context.Context, who actor.Actor, refusal *fault.Error) error
}

// runPath is where calls are made.
const runPath = "/v1/runtime/actions/run"

// runBody is the body of a run. Unknown members are refused, because a misspelt dryRun
// must not run for real.
type runBody struct {
	Verb           *string         `json:"verb"`
	Args           json.RawMessage `json:"args"`
	ExecutionID    *string         `json:"execution_id"`
	IdempotencyKey *string         `json:"idempotency_key"`
	SessionID      *string         `json:"session_id"`
	Metadata       json.RawMessage `json:"metadata"`
	DryRun         json.RawMessage `json:"dryRun"`
	DryRunSnake    json.RawMessage `json:"dry_run"`
	ExpiresIn      json.RawMessage `json:"expires_in"`
	Fields         *string         `json:"fields"`
	MaxBytes       json.RawMessage `json:"max_bytes"`
}

// maxMetadata is the most bytes of metadata.
const maxMetadata = 16 << 10

func (h *actionHandlers) runAction(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b runBody
	if err := c.DecodeExact(&b, "/args", "/metadata"); err != nil {
		return wire.Reply{}, err
	}
	req, err := b.request(c)
	if err != nil {
		return wire.Reply{}, err
	}
	form, err := b.form()
	if err != nil {
		return wire.Reply{}, err
	}
	room := &answerRoom{answers: h.answers, c: c}
	out, err := h.runs.Do(run.WithRoom(ctx, room.take), c.Actor, req)
	if err != nil {
		return wire.Reply{}, h.suggestions.suggest(ctx, c, req.Verb, err)
	}
	waits := out.Run.State == run.StatePending && respondsAsync(c)
	if f := out.Fault(); f != nil && !waits {
		return wire.Reply{}, f
	}
	if err := room.take(ctx, out.Run.ExecutionID, len(out.Run.Result)); err != nil {
		return wire.Reply{}, err
	}
	data := h.runData(out)
	if err := h.shape(ctx, c.Actor.TenantID, form, out.Run, &data); err != nil {
		return wire.Reply{}, err
	}
	rep := wire.OK(data)
	if !out.Run.State.Ended() {
		rep.Status = http.StatusAccepted
		rep.Header = http.Header{"Location": {executionPath(out.Run.ExecutionID)}}
	}
	return rep, nil
}

// request returns the run that the body and the headers ask for, or what is wrong with
// them.
func (b runBody) request(c *wire.Call) (run.Request, error) {
	var v wire.Validation
	req := run.Request{Verb: v.Text("/verb", b.Verb, 255), Args: v.Object("/args", b.Args, true), Metadata: v.Object("/metadata", b.Metadata, false)}
	req.SessionID = v.OptionalID("/session_id", b.SessionID)
	if len(req.Metadata) > maxMetadata {
		v.Add("/metadata", "maxLength", "metadata may have at most 16384 bytes.")
	}
	req.DryRun = dryRunFlag(&v, req.Metadata, b.DryRun, b.DryRunSnake)
	req.ExpiresIn = expiresIn(&v, b.ExpiresIn)
	req.Wait = preferWait(&v, c)
	if err := v.Err(); err != nil {
		return run.Request{}, err
	}
	var err error
	if req.ExecutionID, err = keyField("/execution_id", b.ExecutionID); err != nil {
		return run.Request{}, err
	}
	if req.IdempotencyKey, err = keyField("/idempotency_key", b.IdempotencyKey); err != nil {
		return run.Request{}, err
	}
	key, given, err := c.IdempotencyKey()
	switch {
	case err != nil:
		return run.Request{}, err
	case given && b.IdempotencyKey != nil && req.IdempotencyKey != key:
		return run.Request{}, fault.New(fault.CodeInvalidIdempotencyKey, "The header Idempotency-Key and idempotency_key name different keys.")
	case given:
		req.IdempotencyKey, req.KeyByHeader = key, true
	}
	return req, nil
}

// expiresIn reads how long the run may be sent: whole seconds, at most a day.
func expiresIn(v *wire.Validation, raw json.RawMessage) *time.Duration {
	if raw == nil || string(raw) == "null" {
		return nil
	}
	n, err := strconv.Atoi(string(raw))
	in := time.Duration(n) * time.Second
	if err != nil || n < 1 || in > run.MaxExpiresIn {
		v.Add("/expires_in", "range", "expires_in is a whole number of seconds from 1 to 86400.")
		return nil
	}
	return &in
}

// runData is the result of a run. It joins the two shapes that the specification shows.
type runData struct {
	Result json.RawMessage `json:"result"`
	resultNote
	ResultRef        string          `json:"result_ref,omitempty"`
	ResultBytes      int             `json:"result_bytes,omitempty"`
	Truncated        bool            `json:"truncated,omitempty"`
	FieldsError      *programError   `json:"fields_error,omitempty"`
	Normalized       json.RawMessage `json:"normalized"`
	NormalizedError  *programError   `json:"normalized_error,omitempty"`
	ExecutionID      string          `json:"execution_id"`
	FenceStatus      string          `json:"fence_status"`
	GovernanceStatus string          `json:"governance_status"`
	ApprovedBy       string          `json:"approved_by,omitempty"`
	Decision         string          `json:"decision,omitempty"`
	Status           string          `json:"status"`
	Provider         string          `json:"provider"`
	Verb             string          `json:"verb"`
	RiskLevel        string          `json:"risk_level"`
	DurationMS       float64         `json:"duration_ms"`
	CredentialSource string          `json:"credential_source"`
	Idempotent       bool            `json:"idempotent"`
	CachedFrom       *string         `json:"cached_from"`
	ProviderStatus   int             `json:"provider_status,omitempty"`
	Message          string          `json:"message,omitempty"`
	ArgsMatch        *bool           `json:"args_match,omitempty"`
	ArgsDiffer       []string        `json:"args_differ,omitempty"`
	DryRun           bool            `json:"dry_run"`
	Intercepted      bool            `json:"intercepted"`
	ApprovalID       *string         `json:"approval_id,omitempty"`
	ApprovalStatus   string          `json:"approval_status,omitempty"`
}

func (h *actionHandlers) runData(out run.Outcome) runData {
	r := out.Run
	d := runData{
		Result: r.Result, Normalized: json.RawMessage("{}"), ExecutionID: r.ExecutionID, FenceStatus: wire.FenceStatus(r.State.Ended(), false), GovernanceStatus: governanceStatus(r),
		ApprovedBy: approvedBy(r),
		Status:     r.State.Status(), Provider: r.Verb.Provider, Verb: r.Verb.String(), RiskLevel: string(r.Risk),
		DurationMS: milliseconds(r.Took(h.now())), CredentialSource: credentialSource(r), ProviderStatus: r.ProviderStatus,
		DryRun: r.DryRun, Intercepted: intercepted(r), ApprovalID: r.ApprovalID, ApprovalStatus: out.ApprovalStatus, resultNote: noteOf(r),
	}
	if d.Result == nil {
		d.Result = json.RawMessage("{}")
	}
	if out.Cached {
		match := len(out.ArgsDiffer) == 0
		d.FenceStatus, d.Idempotent, d.CachedFrom, d.ArgsMatch, d.ArgsDiffer = wire.FenceCached, true, &r.ExecutionID, &match, out.ArgsDiffer
	}
	if r.State == run.StatePending {
		d.Decision = r.Decision
	}
	d.Message = out.Differs() + runMessage(out)
	return d
}

// resultNote is what an answer shows beside a result.
type resultNote struct {
	ResultError   *resultnote.Problem `json:"result_error,omitempty"`
	ResultHeaders map[string]string   `json:"result_headers,omitempty"`
}

func noteOf(r run.Run) resultNote {
	return resultNote{ResultError: r.Note.Error, ResultHeaders: r.Note.Headers}
}

// runMessage returns what a caller should know besides the result; "" for a run that this
// call has executed.
func runMessage(out run.Outcome) string {
	r := out.Run
	switch {
	case r.State == run.StatePending:
		return out.Run.Fault().Message
	case !r.State.Ended():
		return "The run goes on. Read it at GET " + executionPath(r.ExecutionID) + "."
	case r.State == run.StateIntercepted && !out.Cached:
		return "Intercepted: nothing was sent. result is the request that would be sent, once, if the approval approval_id is approved."
	case r.State == run.StateIntercepted:
		return "Duplicate detected: this id is a dry run, and nothing was sent. The status of its approval is " + out.ApprovalStatus + "."
	case out.Cached:
		return "Duplicate detected: this id has run already. The stored result is returned; the provider was not called again."
	}
	return ""
}

// intercepted reports whether the call was a dry run of a write. It remains one after its
// request was approved and sent.
func intercepted(r run.Run) bool { return r.DryRun && r.Held && r.Operation == verb.Write }

func governanceStatus(r run.Run) string {
	switch r.State {
	case run.StateBlocked:
		return "blocked"
	case run.StateClaimed, run.StatePending:
		return "pending"
	case run.StateRejected:
		return "rejected"
	case run.StateExpired:
		return "expired"
	case run.StateRefused, run.StateCancelled:
		if r.Decision != string(governance.Allow) && r.Sends == 0 {
			return "pending" // it ended before it was allowed or approved
		}
	case run.StateSending, run.StateExecuted, run.StateFailed, run.StateOutcomeUnknown, run.StateIntercepted:
	}
	return "approved"
}

// approvedBy says who let the call through: a person, a standing approval (a grant), or the policies and
// the registry's default. It is empty where nothing has.
func approvedBy(r run.Run) string {
	switch {
	case governanceStatus(r) != "approved":
		return ""
	case r.GrantID != nil:
		return "grant"
	case r.Held && r.State != run.StateIntercepted:
		return "person"
	}
	return "policy"
}

func credentialSource(r run.Run) string {
	if r.CredentialID == nil {
		return "none"
	}
	return "vault"
}

type evaluateBody struct {
	Verb        *string         `json:"verb"`
	Args        json.RawMessage `json:"args"`
	SessionID   *string         `json:"session_id"`
	Metadata    json.RawMessage `json:"metadata"`
	DryRun      json.RawMessage `json:"dryRun"`
	DryRunSnake json.RawMessage `json:"dry_run"`
}

type evaluation struct {
	Decision         string        `json:"decision"`
	Reason           string        `json:"reason"`
	RiskLevel        string        `json:"risk_level"`
	OperationType    string        `json:"operation_type"`
	Provider         string        `json:"provider"`
	Verb             string        `json:"verb"`
	ApprovalRequired bool          `json:"approval_required"`
	PolicyName       string        `json:"policy_name"`
	PolicyMatched    string        `json:"policy_matched"`
	Details          evaluationWhy `json:"details"`
}

// evaluationWhy lists the policies that matched and the approvals that the call would
// need. ShadowDecision is what would be decided if shadow policies were enforced.
type evaluationWhy struct {
	Matched             []governance.Match       `json:"matched"`
	MatchedOmitted      int                      `json:"matched_omitted,omitempty"`
	ShadowDecision      string                   `json:"shadow_decision"`
	Requirements        []governance.Requirement `json:"requirements"`
	RequirementsOmitted int                      `json:"requirements_omitted,omitempty"`
}

// registryDefault stands for a policy name where no policy decided.
const registryDefault = "registry_default"

// policyName returns the name of what decided; "" while nothing has.
func policyName(decided bool, policy string) string {
	if policy == "" && decided {
		return registryDefault
	}
	return policy
}

func (h *actionHandlers) evaluate(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	leave, err := h.roomToJudge(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	defer leave()
	var b evaluateBody
	if err := c.Decode(&b, "/args", "/metadata"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	q := run.Question{Verb: v.Text("/verb", b.Verb, 255), Args: v.Object("/args", b.Args, false), Metadata: v.Object("/metadata", b.Metadata, false)}
	q.SessionID = v.OptionalID("/session_id", b.SessionID)
	q.DryRun = dryRunFlag(&v, q.Metadata, b.DryRun, b.DryRunSnake)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	e, err := h.runs.Evaluate(ctx, c.Actor, q)
	if err != nil {
		return wire.Reply{}, h.suggestions.suggest(ctx, c, q.Verb, err)
	}
	policy := policyName(true, e.Verdict.PolicyName)
	asked, notAsked := e.Verdict.ShownRequirements()
	return wire.OK(evaluation{
		Decision: string(e.Verdict.Decision), Reason: e.Verdict.Reason, RiskLevel: string(e.Risk), OperationType: string(e.Operation),
		Provider: e.Verb.Provider, Verb: e.Verb.String(), ApprovalRequired: e.Verdict.ApprovalRequired(),
		PolicyName: policy, PolicyMatched: policy,
		Details: evaluationWhy{
			Matched: wire.Array(e.Verdict.Shown()), MatchedOmitted: e.Verdict.Omitted(), ShadowDecision: string(e.Verdict.ShadowDecision),
			Requirements: wire.Array(asked), RequirementsOmitted: notAsked,
		},
	}), nil
}
