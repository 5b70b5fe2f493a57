package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	mapruns "agentruntime/internal/maps/execution"
	"agentruntime/internal/record/approval"
)

// Approvals is what the approval and grant endpoints need.
type Approvals interface {
	Get(ctx context.Context, tenant uuid.UUID, id string) (desk.Detailed, error)
	List(ctx context.Context, tenant uuid.UUID, f desk.Filter) (page []desk.Approval, more bool, err error)
	// Mine returns the id to continue after as next, "" after the last page.
	Mine(ctx context.Context, who actor.Actor, f desk.Filter) (page []desk.Approval, next string, err error)
	Counts(ctx context.Context, tenant uuid.UUID) (map[governance.ApprovalStatus]int64, error)
	Decide(ctx context.Context, who actor.Actor, id string, in desk.Input) (desk.Detailed, error)

	CreateGrant(ctx context.Context, who actor.Actor, in desk.NewGrant) (desk.Grant, error)
	GetGrant(ctx context.Context, tenant, id uuid.UUID) (desk.Grant, error)
	Grants(ctx context.Context, tenant uuid.UUID, f desk.GrantFilter) (page []desk.Grant, more bool, err error)
	NarrowGrant(ctx context.Context, who actor.Actor, id uuid.UUID, p desk.GrantPatch) (desk.Grant, error)
	RevokeGrant(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[desk.Grant]) error
}

// approvalView is an approval as lists show it, without the request and the decisions.
type approvalView struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"`
	ExecutionID string `json:"execution_id"`
	WorkflowID  string `json:"workflow_id"`
	Status      string `json:"status"`
	// Outcome is the run's status; null where the run no longer belongs to this approval.
	Outcome *string `json:"outcome"`
	// Verb, Provider and RiskLevel are null where it is about no call. Step is the place of the step
	// that asks, in an execution of a Map.
	Verb         *string                  `json:"verb"`
	Provider     *string                  `json:"provider"`
	Step         *string                  `json:"step"`
	Args         json.RawMessage          `json:"args"`
	RiskLevel    *string                  `json:"risk_level"`
	PolicyName   string                   `json:"policy_name"`
	Reason       string                   `json:"reason"`
	Requirements []governance.Requirement `json:"requirements"`
	Requester    *string                  `json:"requester"`
	EditedFrom   *string                  `json:"edited_from"`
	EditedBy     *string                  `json:"edited_by"`
	Editors      []string                 `json:"editors"`
	SupersededBy *string                  `json:"superseded_by"`
	ClosedReason string                   `json:"closed_reason"`
	DecidedBy    *string                  `json:"decided_by"`
	CreatedAt    time.Time                `json:"created_at"`
	ExpiresAt    *time.Time               `json:"expires_at"`
	DecidedAt    *time.Time               `json:"decided_at"`
	EscalatedAt  *time.Time               `json:"escalated_at"`
}

// approvalDetail is one approval with all that an approver needs to decide it.
type approvalDetail struct {
	approvalView

	// Request is what would be sent, masked; null where it is about no call that can be sent.
	Request json.RawMessage `json:"request"`
	// Form is the JSON Schema of the response that is asked for; null where none is.
	Form      json.RawMessage `json:"form"`
	Details   approvalWhy     `json:"details"`
	Approvals tally           `json:"approvals"`
	Decisions []decisionView  `json:"decisions"`
}

// approvalWhy are the policies that matched the call when it was held or blocked.
type approvalWhy struct {
	Matched json.RawMessage `json:"matched"`
}

// tally is how many approvals were given, and how many are needed.
type tally struct {
	Have int32 `json:"have"`
	Need int32 `json:"need"`
}

// decisionView is one decision about an approval. A null user is an operator in the
// Temporal UI, whose name we do not know.
type decisionView struct {
	UserID    *uuid.UUID `json:"user_id"`
	Email     string     `json:"email"`
	Name      string     `json:"name"`
	Decision  string     `json:"decision"`
	Reason    string     `json:"reason"`
	Edited    bool       `json:"edited"`
	Responded bool       `json:"responded"`
	DecidedAt time.Time  `json:"decided_at"`
}

func viewApproval(a desk.Approval) approvalView {
	v := approvalView{
		ID: a.ID, Kind: string(a.Kind), ExecutionID: a.ExecutionID, WorkflowID: a.WorkflowID,
		Status: string(a.Status), Provider: textOrNull(a.Provider), Args: a.Args, RiskLevel: textOrNull(a.RiskLevel),
		PolicyName: policyName(a.Verb != "", a.PolicyName), Reason: a.Reason, Requirements: wire.Array(a.Requirements), Requester: byCaller(a.Requester),
		EditedFrom: a.EditedFrom, EditedBy: byUser(a.EditedBy), Editors: byUsers(a.Writers), SupersededBy: a.SupersededBy, ClosedReason: a.ClosedReason,
		DecidedBy: byUser(a.DecidedBy), CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt, DecidedAt: a.DecidedAt, EscalatedAt: a.EscalatedAt,
	}
	if a.Verb != "" {
		v.Verb = textOrNull(a.Provider + ":" + a.Verb)
	}
	if a.SubjectType == approval.SubjectMapStep {
		v.Step = textOrNull(mapruns.StepOfSubject(a.SubjectID))
	}
	if a.RunState != "" {
		outcome := a.RunState.Status()
		v.Outcome = &outcome
	}
	return v
}

func detailApproval(a desk.Detailed) approvalDetail {
	d := approvalDetail{
		approvalView: viewApproval(a.Approval), Request: a.Request, Form: a.Form, Details: approvalWhy{a.Explanation},
		Approvals: tally{a.Tally.Have, a.Tally.Need}, Decisions: make([]decisionView, len(a.Decisions)),
	}
	for i, said := range a.Decisions {
		d.Decisions[i] = decisionView(said)
	}
	return d
}

func (h *approvalHandlers) getApproval(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	a, err := h.approvals.Get(ctx, c.Actor.TenantID, c.Param("id"))
	return wire.Answer(detailApproval, a, err)
}

func (h *approvalHandlers) listApprovals(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, err := approvalFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	mine, err := c.QueryBool("mine")
	if err != nil {
		return wire.Reply{}, err
	}
	if mine != nil && *mine {
		page, next, err := h.approvals.Mine(ctx, c.Actor, f)
		return approvalPage(f.Limit, page, next != "", next), err
	}
	page, more, err := h.approvals.List(ctx, c.Actor.TenantID, f)
	last := ""
	if len(page) > 0 {
		last = page[len(page)-1].ID
	}
	return approvalPage(f.Limit, page, more, last), err
}

// approvalPage answers with a page, after which the next one begins at last.
func approvalPage(limit int, page []desk.Approval, more bool, last string) wire.Reply {
	views := make([]approvalView, len(page))
	for i, a := range page {
		views[i] = viewApproval(a)
	}
	return wire.Reply{Data: views, Page: wire.PageAfter(limit, more, last)}
}

func approvalFilter(c *wire.Call) (f desk.Filter, err error) {
	if f.Limit, err = c.Limit(); err != nil {
		return f, err
	}
	if f.Before, err = c.CursorText(); err != nil {
		return f, err
	}
	var v wire.Validation
	f.Status = wire.QueryOneOf(&v, c, "status", governance.ApprovalStatuses()...)
	f.Kind = wire.QueryOneOf(&v, c, "kind", governance.ApprovalKinds()...)
	f.RiskLevel = string(wire.QueryOneOf(&v, c, "risk_level", verb.RiskLow, verb.RiskMedium, verb.RiskHigh))
	f.Provider, f.ExecutionID = v.QueryText(c, "provider"), v.QueryText(c, "execution_id")
	if name, given, err := c.QueryVerb(); err != nil {
		return f, err
	} else if given {
		f.Provider, f.Verb = name.Provider, name.Verb
	}
	f.PolicyID, f.Requester = v.QueryID(c, "policy_id"), queryCaller(&v, c, "requester")
	f.CustomerID = v.QueryText(c, "customer_id")
	f.Since, f.Until = v.QueryTime(c, "from"), v.QueryTime(c, "to")
	return f, v.Err()
}

// approvalCounts is the number of approvals of each status.
type approvalCounts struct {
	Pending    int64 `json:"pending"`
	Approved   int64 `json:"approved"`
	Rejected   int64 `json:"rejected"`
	Expired    int64 `json:"expired"`
	Cancelled  int64 `json:"cancelled"`
	Superseded int64 `json:"superseded"`
	Blocked    int64 `json:"blocked"`
	Total      int64 `json:"total"`
}

func (h *approvalHandlers) countApprovals(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	n, err := h.approvals.Counts(ctx, c.Actor.TenantID)
	if err != nil {
		return wire.Reply{}, err
	}
	counts := approvalCounts{
		Pending: n[governance.ApprovalPending], Approved: n[governance.ApprovalApproved], Rejected: n[governance.ApprovalRejected],
		Expired: n[governance.ApprovalExpired], Cancelled: n[governance.ApprovalCancelled], Superseded: n[governance.ApprovalSuperseded],
		Blocked: n[governance.ApprovalBlocked],
	}
	for _, some := range n {
		counts.Total += some
	}
	return wire.OK(counts), nil
}

// maxReason is the most characters of a reason.
const maxReason = 2000

type approveBody struct {
	Reason     *string         `json:"reason"`
	EditedArgs json.RawMessage `json:"edited_args"`
	Response   json.RawMessage `json:"response"`
}

func (h *approvalHandlers) approve(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b approveBody
	if err := c.DecodeOptional(&b, "/edited_args", "/response"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := desk.Input{Approve: true, Reason: v.OptionalText("/reason", b.Reason, 0, maxReason)}
	if len(b.EditedArgs) > 0 && string(b.EditedArgs) != "null" {
		in.EditedArgs = b.EditedArgs
	}
	if len(b.Response) > 0 && string(b.Response) != "null" {
		in.Response = b.Response
	}
	if in.EditedArgs != nil && in.Response != nil {
		v.Add("/response", "exclusive", "A decision either edits or responds.")
	}
	return h.decide(ctx, c, in, v.Err())
}

type rejectBody struct {
	Reason *string `json:"reason"`
}

func (h *approvalHandlers) reject(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b rejectBody
	if err := c.DecodeOptional(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	return h.decide(ctx, c, desk.Input{Reason: v.OptionalText("/reason", b.Reason, 0, maxReason)}, v.Err())
}

func (h *approvalHandlers) decide(ctx context.Context, c *wire.Call, in desk.Input, invalid error) (wire.Reply, error) {
	if invalid != nil {
		return wire.Reply{}, invalid
	}
	a, err := h.approvals.Decide(ctx, c.Actor, c.Param("id"), in)
	return wire.Answer(detailApproval, a, err)
}
