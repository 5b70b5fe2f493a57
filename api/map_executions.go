package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	mapruns "agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// Executions is what the endpoints need of the executions of Maps.
type Executions interface {
	Trigger(ctx context.Context, who actor.Actor, req mapruns.Request) (mapruns.Outcome, error)
	Get(ctx context.Context, who actor.Actor, executionID string) (mapruns.Execution, error)
	List(ctx context.Context, who actor.Actor, f mapruns.Filter) ([]mapruns.Execution, bool, error)
	Steps(ctx context.Context, e mapruns.Execution, after int32, limit int) ([]mapruns.Step, bool, error)
	Shown(ctx context.Context, e mapruns.Execution) (mapruns.Execution, error)
	Signals(ctx context.Context, e mapruns.Execution, after int32, limit int) ([]mapruns.SentSignal, bool, error)
	States(ctx context.Context, e mapruns.Execution) (*mapdef.Definition, map[string]stepmachine.StepStatus, error)
	Since(ctx context.Context, e mapruns.Execution, since *int64, after int32, limit int) (mapruns.Progress, error)
	Waiting(ctx context.Context, e mapruns.Execution) (json.RawMessage, error)
	// Changes returns a page of the writes that a dry run has not made, in their order.
	Changes(ctx context.Context, e mapruns.Execution, after int32, limit int) (mapruns.ChangeList, error)
	// Propose returns the decision about them that a selection means. It refuses with VALIDATION_ERROR,
	// CONFLICT, RESULT_EXPIRED and QUOTA_EXCEEDED.
	Propose(ctx context.Context, e mapruns.Execution, sel mapruns.Selection) (mapruns.Proposal, error)
	// AwaitApply waits until none of them is being applied, at most until the given time.
	AwaitApply(ctx context.Context, e mapruns.Execution, until time.Time) (ended bool, err error)
	// Await waits until the execution has ended, at most until the given time.
	Await(ctx context.Context, e mapruns.Execution, until time.Time) (mapruns.Execution, error)
	Cancel(ctx context.Context, who actor.Actor, e mapruns.Execution) (mapruns.Execution, error)
	Pause(ctx context.Context, who actor.Actor, e mapruns.Execution) (mapruns.Execution, error)
	Resume(ctx context.Context, who actor.Actor, e mapruns.Execution) (mapruns.Execution, error)
	Retry(ctx context.Context, who actor.Actor, e mapruns.Execution, r mapruns.Retry) (mapruns.Execution, error)
	// Signal sends a signal. It refuses with CONFLICT where the execution takes none.
	Signal(ctx context.Context, who actor.Actor, e mapruns.Execution, signal mapruns.Signal) (mapruns.Execution, error)
}

// triggerBody is the body of a trigger. Unknown members are refused.
type triggerBody struct {
	Payload     json.RawMessage `json:"payload"`
	SessionID   *string         `json:"session_id"`
	Metadata    json.RawMessage `json:"metadata"`
	CustomerID  *string         `json:"customer_id"`
	DryRun      json.RawMessage `json:"dryRun"`
	DryRunSnake json.RawMessage `json:"dry_run"`
	Version     *int32          `json:"version"`
}

// triggered is the answer to a trigger.
type triggered struct {
	ExecutionID      string             `json:"execution_id"`
	Status           stepmachine.Status `json:"status"`
	ActionsExecuted  int32              `json:"actions_executed"`
	GovernanceStatus string             `json:"governance_status"`
	MapType          mapdef.MapType     `json:"map_type"`
	DurationMS       float64            `json:"duration_ms"`
	Output           json.RawMessage    `json:"output"`
	Error            *stepmachine.Error `json:"error"`
	WaitingFor       json.RawMessage    `json:"waiting_for"`
	Version          int32              `json:"version"`
	SessionID        *string            `json:"session_id"`
	FenceStatus      string             `json:"fence_status"`
	ApprovalID       *string            `json:"approval_id,omitempty"`
	Decision         string             `json:"decision,omitempty"`
	DryRun           bool               `json:"dry_run"`
	PayloadMatch     *bool              `json:"payload_match,omitempty"`
	Message          string             `json:"message,omitempty"`
}

func (h *mapHandlers) triggerMap(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b triggerBody
	if err := c.DecodeExact(&b, "/payload", "/metadata"); err != nil {
		return wire.Reply{}, err
	}
	req, err := b.request(c, c.ID())
	if err != nil {
		return wire.Reply{}, err
	}
	if req.Version != 0 && !c.ManagesMaps {
		return wire.Reply{}, fault.New(fault.CodeInsufficientPermissions, "To trigger another version than the published one, a key needs the permission maps:manage, and a user the role owner or admin.")
	}
	out, err := h.executions.Trigger(ctx, c.Actor, req)
	if err != nil {
		return wire.Reply{}, err
	}
	e := out.Execution
	switch e.Status {
	case stepmachine.StatusFailed, stepmachine.StatusCancelled:
		return wire.Reply{}, mapFailed(out)
	case stepmachine.StatusCompleted:
		return wire.OK(h.triggered(out)), nil
	default:
		return wire.Reply{Status: http.StatusAccepted, Data: h.triggered(out), Header: http.Header{"Location": {executionPath(e.ExecutionID)}}}, nil
	}
}

func (h *mapHandlers) triggered(out mapruns.Outcome) triggered {
	e := out.Execution
	t := triggered{
		ExecutionID: e.ExecutionID, Status: e.Status, ActionsExecuted: e.Actions, GovernanceStatus: e.Governance, MapType: e.MapType,
		DurationMS: milliseconds(e.Took(h.now())), Output: e.Output, Error: e.Error, WaitingFor: e.WaitingFor, Version: e.Version, SessionID: textOrNull(e.SessionID),
		FenceStatus: wire.FenceStatus(e.Ended(), out.Cached), DryRun: e.DryRun,
	}
	if id := heldBy(e.WaitingFor); id != "" {
		t.ApprovalID, t.Decision = &id, string(governance.PendingApproval)
	}
	if t.Output == nil {
		t.Output = json.RawMessage("null")
	}
	if out.Cached {
		t.Message = "The Map was triggered with this name before. This is that execution; nothing ran again."
		if t.PayloadMatch = new(!out.OtherPayload); out.OtherPayload {
			t.Message = otherPayload + t.Message
		}
	}
	return t
}

// otherPayload is said where the execution that answers a trigger has another payload.
const otherPayload = "The payload of this trigger was not used: the execution of this name has another one. "

// heldBy returns the approval that an execution waits for, and "" where it waits for none.
func heldBy(waitingFor json.RawMessage) string {
	var w struct {
		ApprovalID string `json:"approval_id"`
	}
	if json.Unmarshal(waitingFor, &w) != nil {
		return ""
	}
	return w.ApprovalID
}

// mapFailed answers a trigger whose execution ended without success.
func mapFailed(out mapruns.Outcome) error {
	e := out.Execution
	f := fault.New(fault.CodeMapFailed, "")
	f.ExecutionID, f.Status = e.ExecutionID, string(e.Status)
	if e.Error != nil {
		f.Details = []fault.Detail{{Path: e.Error.Instance, Rule: e.Error.Code, Message: cmp.Or(e.Error.Detail, e.Error.Title)}}
	}
	if e.Status == stepmachine.StatusCancelled {
		f.Message = "The execution of the Map was cancelled."
	}
	if e.Status == stepmachine.StatusFailed {
		f.Message += fmt.Sprintf(" Read it at %s.", executionPath(e.ExecutionID))
	}
	if u := e.Undoing; e.KeepsState && u.Undone+u.NotUndone == 0 {
		f.Message += fmt.Sprintf(" A person may have it go on from the step that failed: POST %s/retry.", executionPath(e.ExecutionID))
	}
	if u := e.Undoing; u.NotUndone > 0 {
		f.Message += fmt.Sprintf(" Of its steps %d could not be undone: compensation of the execution says which.", u.NotUndone)
	}
	if out.Cached {
		f.CachedFrom = e.ExecutionID
		f.Message += " This is the stored failure of an earlier trigger; nothing ran again."
		if f.PayloadMatch = new(!out.OtherPayload); out.OtherPayload {
			f.Message = otherPayload + f.Message
		}
	}
	return f
}

func (b triggerBody) request(c *wire.Call, id uuid.UUID) (mapruns.Request, error) {
	var v wire.Validation
	req := mapruns.Request{MapID: id, Payload: v.Object("/payload", b.Payload, false), Metadata: v.Object("/metadata", b.Metadata, false)}
	if len(req.Metadata) > maxMetadata {
		v.Add("/metadata", "maxLength", "metadata may have at most 16384 bytes.")
	}
	req.Customer = v.OptionalID("/customer_id", b.CustomerID)
	req.DryRun = dryRunFlag(&v, req.Metadata, b.DryRun, b.DryRunSnake)
	req.Wait = preferWait(&v, c)
	if b.Version != nil {
		if req.Version = *b.Version; req.Version < 1 {
			v.Add("/version", "minimum", "version is the number of a version, from 1.")
		}
	}
	if err := v.Err(); err != nil {
		return req, err
	}
	var err error
	if req.SessionID, err = keyField("/session_id", b.SessionID); err != nil {
		return req, err
	}
	key, given, err := c.IdempotencyKey()
	if given {
		req.Key = key
	}
	return req, err
}

// mapExecution is an execution of a Map as operators and callers read it.
type mapExecution struct {
	ExecutionID      string             `json:"execution_id"`
	Kind             string             `json:"kind"`
	FenceStatus      string             `json:"fence_status,omitempty"`
	MapID            uuid.UUID          `json:"map_id"`
	Version          int32              `json:"version"`
	MapType          mapdef.MapType     `json:"map_type"`
	Status           stepmachine.Status `json:"status"`
	WaitingFor       json.RawMessage    `json:"waiting_for"`
	GovernanceStatus string             `json:"governance_status"`
	ActionsExecuted  int32              `json:"actions_executed"`
	TokensUsed       int64              `json:"tokens_used"`
	UsageEstimated   bool               `json:"usage_estimated,omitempty"`
	DryRun           bool               `json:"dry_run"`
	SessionID        *string            `json:"session_id"`
	CustomerID       *string            `json:"customer_id"`
	Metadata         json.RawMessage    `json:"metadata"`
	Output           json.RawMessage    `json:"output,omitempty"`
	Error            any                `json:"error,omitempty"` // null is a nil *stepmachine.Error; nil leaves it out
	Compensation     *compensation      `json:"compensation,omitempty"`
	Steps            []mapStep          `json:"steps,omitempty"`
	MoreSteps        bool               `json:"more_steps,omitempty"`
	NextStepsAfter   int32              `json:"next_steps_after,omitempty"`
	ParentID         *string            `json:"parent_execution_id"`
	APIKeyID         *uuid.UUID         `json:"api_key_id"`
	Requester        *string            `json:"requester"`
	RequestID        string             `json:"request_id"`
	WorkflowID       string             `json:"workflow_id"`
	Attempt          int32              `json:"attempt"`
	DurationMS       float64            `json:"duration_ms"`
	CreatedAt        time.Time          `json:"created_at"`
	FinishedAt       *time.Time         `json:"finished_at"`

	repeatMark
}

// compensation is what came of undoing the steps of an execution.
type compensation struct {
	Undone       int           `json:"undone"`
	NotUndone    int           `json:"not_undone"`
	Unknown      int           `json:"unknown"`
	Calls        []undoingCall `json:"calls"`
	UnknownSteps []string      `json:"unknown_steps"`
}

// undoingCall is a call that did not undo its step.
type undoingCall struct {
	Path        string                 `json:"path"`
	Verb        string                 `json:"verb"`
	ExecutionID *string                `json:"execution_id"`
	Status      stepmachine.CallStatus `json:"status"`
	Code        *string                `json:"code"`
	Title       *string                `json:"title"`
}

func viewUndoing(u mapruns.Undoing) *compensation {
	if u.Undone+u.NotUndone+u.Unknown == 0 {
		return nil
	}
	v := &compensation{
		Undone: u.Undone, NotUndone: u.NotUndone, Unknown: u.Unknown, Calls: make([]undoingCall, len(u.Calls)), UnknownSteps: append([]string{}, u.UnknownSteps...),
	}
	for i, c := range u.Calls {
		v.Calls[i] = undoingCall{Path: c.Path, Verb: c.Verb, ExecutionID: textOrNull(c.ExecutionID), Status: c.Status, Code: textOrNull(c.Code), Title: textOrNull(c.Title)}
	}
	return v
}

// mapStep is what one step of an execution has done.
type mapStep struct {
	ID          string             `json:"id"`
	Path        string             `json:"path"`
	Type        string             `json:"type"`
	Status      string             `json:"status"`
	Attempts    int32              `json:"attempts"`
	Input       json.RawMessage    `json:"input,omitempty"`
	Output      json.RawMessage    `json:"output,omitempty"`
	Error       *stepmachine.Error `json:"error"`
	ExecutionID *string            `json:"execution_id"`
	ModelCalls  []modelCall        `json:"model_calls,omitempty"`
	BeganAt     time.Time          `json:"began_at"`
	EndedAt     *time.Time         `json:"ended_at"`
}

// modelCall is one call of a model for a step.
type modelCall struct {
	Attempt   int32       `json:"attempt"`
	Turn      int32       `json:"turn"`
	Purpose   string      `json:"purpose"`
	Model     *string     `json:"model"`
	Status    string      `json:"status"` // running, completed or failed
	Finish    *string     `json:"finish"`
	Tokens    model.Usage `json:"tokens"`
	Cost      int64       `json:"cost_micros"`
	Ruling    *ruling     `json:"ruling,omitempty"`
	Calls     []toolRun   `json:"calls"`
	LatencyMS float64     `json:"latency_ms"`
	BeganAt   time.Time   `json:"began_at"`
	EndedAt   *time.Time  `json:"ended_at"`
}

// ruling is what the answer of a manager is worth, masked.
type ruling struct {
	Verdict  modelstep.Decision `json:"verdict"`
	Said     modelstep.Decision `json:"said"`
	Criteria []modelstep.Judged `json:"criteria"`
	Checks   []modelstep.Check  `json:"checks"`
	Feedback string             `json:"feedback"`
	Outputs  json.RawMessage    `json:"outputs,omitempty"`
}

func viewRuling(r *modelstep.Ruling) *ruling {
	if r == nil {
		return nil
	}
	v := &ruling{Verdict: r.Verdict, Said: r.Said, Criteria: r.Criteria, Checks: r.Checks, Feedback: redact.Text(r.Feedback)}
	if len(r.Outputs) > 0 {
		v.Outputs = maskedText(r.Outputs)
	}
	return v
}

// toolRun is a call that an answer of a model has asked for.
type toolRun struct {
	Verb        string `json:"verb"`
	ExecutionID string `json:"execution_id"`
}

func viewModelCall(call mapruns.ModelCall) modelCall {
	v := modelCall{
		Attempt: call.Attempt, Turn: call.Turn, Purpose: call.Purpose, Model: textOrNull(call.Model), Status: string(stepmachine.StepCompleted),
		Finish: textOrNull(call.Finish), Tokens: call.Usage, Cost: call.Money, Ruling: viewRuling(call.Ruling), Calls: []toolRun{}, BeganAt: call.BeganAt.UTC(), EndedAt: utc(call.EndedAt),
	}
	for _, run := range call.Runs {
		v.Calls = append(v.Calls, toolRun(run))
	}
	switch {
	case call.EndedAt == nil:
		v.Status = string(stepmachine.StepRunning)
		return v
	case call.Failed:
		v.Status = string(stepmachine.StepFailed)
	}
	v.LatencyMS = milliseconds(call.EndedAt.Sub(call.BeganAt))
	return v
}

func viewMapExecution(e mapruns.Execution, now time.Time) mapExecution {
	return mapExecution{
		ExecutionID: e.ExecutionID, Kind: kindMap, FenceStatus: wire.StartedUnless(e.Ended()), MapID: e.MapID, Version: e.Version, MapType: e.MapType, Status: e.Status,
		WaitingFor: e.WaitingFor, GovernanceStatus: e.Governance, ActionsExecuted: e.Actions, TokensUsed: e.Tokens, UsageEstimated: e.Estimated, DryRun: e.DryRun, SessionID: textOrNull(e.SessionID),
		CustomerID: textOrNull(e.Customer), Metadata: maskedText(e.Metadata), Output: e.Output, Error: listedError(e), Compensation: viewUndoing(e.Undoing), ParentID: textOrNull(e.ParentID),
		APIKeyID: e.KeyID, Requester: byCaller(actor.CallerOf(e.KeyID, e.UserID)), RequestID: e.RequestID, WorkflowID: e.WorkflowID,
		Attempt: e.Attempt, DurationMS: milliseconds(e.Took(now)), CreatedAt: e.CreatedAt(), FinishedAt: utc(e.FinishedAt),
	}
}

// listedError returns the error of an execution, null where it has none; nil where a list leaves it out.
func listedError(e mapruns.Execution) any {
	if e.ErrorLeftOut {
		return nil
	}
	return e.Error
}

func viewMapStep(step mapruns.Step) mapStep {
	v := mapStep{
		ID: step.ID, Path: step.Path, Type: step.Type, Status: step.Status, Attempts: step.Attempts, Input: step.Input, Output: step.Output,
		Error: step.Error, ExecutionID: textOrNull(step.RunID), BeganAt: step.BeganAt.UTC(), EndedAt: utc(step.EndedAt),
	}
	for _, call := range step.ModelCalls {
		v.ModelCalls = append(v.ModelCalls, viewModelCall(call))
	}
	return v
}

// stepsShown is how many steps an answer shows at most. Another one shows those after them.
const stepsShown = 200

func (h *mapHandlers) answerMapExecution(ctx context.Context, e mapruns.Execution) (wire.Reply, error) {
	return h.answerMapSteps(ctx, e, 0)
}

// answerMapSteps answers with an execution and those of its steps that began after the one with the
// number.
func (h *mapHandlers) answerMapSteps(ctx context.Context, e mapruns.Execution, after int32) (wire.Reply, error) {
	steps, more, err := h.executions.Steps(ctx, e, after, stepsShown)
	if err != nil {
		return wire.Reply{}, err
	}
	v, err := shownMapExecution(ctx, h.executions, e, h.now())
	if err != nil {
		return wire.Reply{}, err
	}
	v.MoreSteps = more
	v.Steps = make([]mapStep, len(steps))
	for i, step := range steps {
		v.Steps[i] = viewMapStep(step)
	}
	if more {
		v.NextStepsAfter = steps[len(steps)-1].Seq
	}
	rep := wire.OK(v)
	if e.FinishedAt == nil {
		v.DurationMS = 0
		rep.Header = http.Header{"Etag": {wire.ViewTag(v)}}
	}
	return rep, nil
}

// mapSettled waits for the end of an execution as long as Prefer says.
func (h *mapHandlers) mapSettled(ctx context.Context, c *wire.Call, e mapruns.Execution) (mapruns.Execution, error) {
	wait, err := preferredWait(c)
	if err != nil || wait == 0 {
		return e, err
	}
	return h.executions.Await(ctx, e, h.now().Add(wait))
}

// controlMap is a change of an execution of a Map that people and keys ask for.
func (h *mapHandlers) controlMap(change func(Executions, context.Context, actor.Actor, mapruns.Execution) (mapruns.Execution, error)) wire.Handler {
	return func(ctx context.Context, c *wire.Call) (wire.Reply, error) {
		e, err := h.namedExecution(ctx, c)
		if err != nil {
			return wire.Reply{}, err
		}
		if e, err = change(h.executions, ctx, c.Actor, e); err != nil {
			return wire.Reply{}, err
		}
		return h.answerMapExecution(ctx, e)
	}
}

// shownMapExecution is viewMapExecution with the output and the error as others than its caller may see them.
func shownMapExecution(ctx context.Context, executions Executions, e mapruns.Execution, now time.Time) (mapExecution, error) {
	shown, err := executions.Shown(ctx, e)
	v := viewMapExecution(shown, now)
	if v.Output == nil {
		v.Output = json.RawMessage("null")
	}
	return v, err
}
