// Package desk is what people do with approvals: they look at them, decide them, and give
// standing approvals, called grants. The api package calls it. The domain that asks for an
// approval writes it, through internal/record/approval. The desk stores a decision as a
// proposal. It never counts one: the subject's workflow does, or its domain where no
// workflow counts.
package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// Approval is one question to people, or the record of a block.
type Approval struct {
	ID          string
	Kind        governance.ApprovalKind
	ExecutionID string
	SubjectType approval.SubjectType
	SubjectID   string
	// WorkflowID is the workflow that waits for the decision; "" where none does.
	WorkflowID string
	// Driver is the kind of that workflow; "" in lists.
	Driver     flow.Driver
	Status     governance.ApprovalStatus
	Provider   string
	Verb       string
	Args       json.RawMessage // masked
	RiskLevel  string
	PolicyName string
	Reason     string
	// Explanation are the policies that matched ([]governance.Match).
	Explanation json.RawMessage
	// Request is the request that would be sent, masked; nil where it is about no call.
	Request json.RawMessage
	// Form is the JSON Schema of the response that is asked for; nil where none is.
	Form         json.RawMessage
	Requirements []governance.Requirement
	Requester    *actor.Caller // nil where neither a key nor a user called
	EditedFrom   *string
	EditedBy     *uuid.UUID
	// Writers have written a text that became an argument; see approval.Asked.
	Writers      []uuid.UUID
	SupersededBy *string
	// ClosedReason is why the approval was rejected, cancelled or superseded.
	ClosedReason string
	DecidedBy    *uuid.UUID
	CreatedAt    time.Time
	ExpiresAt    *time.Time
	DecidedAt    *time.Time
	EscalatedAt  *time.Time
	// RunState is the present state of the run, "" where the run has another approval now or
	// the approval is not about a run.
	RunState flow.State
	// voted: the voter of the list's filter has approved it.
	voted bool
}

// Decision is a counted decision about an approval.
type Decision struct {
	UserID    *uuid.UUID // nil: an operator in the Temporal UI
	Email     string
	Name      string
	Decision  string
	Reason    string
	Edited    bool
	Responded bool
	DecidedAt time.Time
}

// Detailed is an approval with the decisions so far.
type Detailed struct {
	Approval
	Decisions []Decision
	Tally     governance.Tally
	// asked is the approval in the form that the rule of who may decide needs.
	asked approval.Asked
}

// Workflows reaches the workflows that wait for decisions.
type Workflows interface {
	// Decide hands a proposed decision to the workflow and returns the result. open is false
	// where no workflow of the id is open.
	Decide(ctx context.Context, workflowID string, d flow.Decision) (out flow.Decided, open bool, err error)
	// IsOpen reports whether the workflow is open. found is false where the engine does not
	// know the workflow.
	IsOpen(ctx context.Context, workflowID string) (open, found bool, err error)
	// Nudge tells a workflow to look again. open is false where no such workflow is open.
	Nudge(ctx context.Context, workflowID string) (open bool, err error)
}

// Subjects is the domain that asks for approvals of one type of subject.
type Subjects interface {
	// SealEdit returns the arguments as the decision stores them, where they may replace the
	// subject's. The error is the fault that says why they may not.
	SealEdit(ctx context.Context, tenant uuid.UUID, subjectID string, args json.RawMessage) (string, error)
	// SealResponse returns the response to the form as the decision stores it. It was checked
	// against the form.
	SealResponse(ctx context.Context, tenant uuid.UUID, subjectID string, response json.RawMessage) (string, error)
	// Count counts a decision in the rows, where no workflow counts it. It closes the approval
	// with approval.Closing.Tell. So the waiting workflow is told even if this process dies.
	Count(ctx context.Context, tenant uuid.UUID, subjectID string, decision uuid.UUID) (flow.Decided, error)
}

// Deps are the collaborators. All are required, except Now, which is time.Now by
// default, and Quotas.
type Deps struct {
	DB        *db.Pool
	Workflows Workflows
	// Subjects has the domain of every type of subject.
	Subjects map[approval.SubjectType]Subjects
	// Journal records the decisions that are refused.
	Journal *audit.Journal
	Now     func() time.Time
	// Quotas bound how many grants a tenant has.
	Quotas quota.Limits
}

// Desk reads and decides approvals.
type Desk struct {
	d Deps
	q *dbsqlc.Queries
}

// New returns the desk. It returns an error where a required collaborator is missing.
func New(d Deps) (*Desk, error) {
	if d.DB == nil || d.Workflows == nil || d.Subjects == nil || d.Journal == nil {
		return nil, errors.New("desk: database, workflows, subjects and journal are required")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Desk{d: d, q: dbsqlc.New()}, nil
}

// Get returns the tenant's approval with its decisions. The error is APPROVAL_NOT_FOUND for
// any other id.
func (s *Desk) Get(ctx context.Context, tenant uuid.UUID, id string) (Detailed, error) {
	b := &db.Batch{}
	row := db.Queue(b, s.q.GetApproval, dbsqlc.GetApprovalParams{TenantID: tenant, ID: id})
	decisions := db.Queue(b, s.q.Decisions, dbsqlc.DecisionsParams{TenantID: tenant, ApprovalID: id})
	reading := approval.QueueRead(b, tenant, id)
	err := s.d.DB.Send(ctx, tenant, b)
	switch {
	case db.IsNoRows(err):
		return Detailed{}, fault.New(fault.CodeApprovalNotFound, "")
	case err != nil:
		return Detailed{}, fmt.Errorf("desk: get: %w", err)
	}
	a, err := fromRow(row.Value)
	if err != nil {
		return Detailed{}, err
	}
	out := Detailed{Approval: a, Decisions: []Decision{}}
	if out.asked, err = reading.Asked(); err != nil {
		return Detailed{}, err
	}
	for _, d := range decisions.Value {
		out.Decisions = append(out.Decisions, decisionOf(d))
	}
	out.Tally, _ = out.asked.Tally()
	return out, nil
}

func decisionOf(d dbsqlc.DecisionsRow) Decision {
	out := Decision{UserID: d.UserID, Decision: d.Decision, Reason: d.Reason, Edited: d.EditedArgs != nil, Responded: d.Response != nil, DecidedAt: d.CountedAt.UTC()}
	if d.Email != nil {
		out.Email = *d.Email
	}
	if d.Name != nil {
		out.Name = *d.Name
	}
	return out
}

// Filter narrows a list. A field with its zero value does not narrow it.
type Filter struct {
	Status      governance.ApprovalStatus
	Kind        governance.ApprovalKind
	Provider    string
	Verb        string // without the provider
	RiskLevel   string
	PolicyID    *uuid.UUID
	ExecutionID string
	// Requester is the key or the user that called.
	Requester *actor.Caller
	// CustomerID is the customer that the call named.
	CustomerID string
	// voter is the user of whom voted tells.
	voter *uuid.UUID
	// bare leaves the arguments and the run's state out.
	bare bool
	// only selects the approvals of these ids; nil selects all.
	only  *[]string
	Since *time.Time
	Until *time.Time
	// Before continues after the approval with this id.
	Before string
	Limit  int
}

// pageBytes is the most bytes of arguments on a page of approvals. The last arguments may
// exceed it, by up to 1 MiB. It is more than 500 usual calls need.
const pageBytes = 4 << 20

// List returns the newest approvals first, without Explanation and Request, and whether
// there are more. A page is shorter than f.Limit where it reaches pageBytes.
func (s *Desk) List(ctx context.Context, tenant uuid.UUID, f Filter) (page []Approval, more bool, err error) {
	rows, err := s.rows(ctx, tenant, f)
	if err != nil {
		return nil, false, fmt.Errorf("desk: list: %w", err)
	}
	page = []Approval{}
	shown, _ := db.Page(rows, f.Limit)
	for _, row := range shown {
		a, err := fromListed(row)
		if err != nil {
			return nil, false, err
		}
		page = append(page, a)
	}
	return page, len(rows) > 0 && rows[0].Found > int64(len(page)), nil
}

func (s *Desk) rows(ctx context.Context, tenant uuid.UUID, f Filter) ([]dbsqlc.ListApprovalsRow, error) {
	var out []dbsqlc.ListApprovalsRow
	only := Filter{Status: governance.ApprovalPending, Before: f.Before, Limit: f.Limit}
	if f == only {
		rows, err := s.q.PendingApprovals(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.PendingApprovalsParams{
			TenantID: tenant, Before: db.Optional(f.Before), Most: int32(f.Limit + 1), Bytes: pageBytes,
		})
		for _, row := range rows {
			out = append(out, dbsqlc.ListApprovalsRow(row))
		}
		return out, err
	}
	low, high := approval.IDsOf(f.Since, f.Until)
	var ids []string
	if f.only != nil {
		ids = *f.only
	}
	var requester *uuid.UUID
	var kind *string
	if f.Requester != nil {
		requester, kind = &f.Requester.ID, db.Optional(string(f.Requester.Kind))
	}
	return s.q.ListApprovals(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.ListApprovalsParams{
		Low: low, High: high,
		TenantID: tenant, Before: db.Optional(f.Before), Status: db.Optional(string(f.Status)), Kind: db.Optional(string(f.Kind)),
		Provider: db.Optional(f.Provider), Verb: db.Optional(f.Verb), RiskLevel: db.Optional(f.RiskLevel), PolicyID: f.PolicyID,
		ExecutionID: db.Optional(f.ExecutionID), Requester: requester, RequesterKind: kind, Customer: db.Optional(f.CustomerID), Voter: f.voter, Bare: f.bare, Ids: ids, Since: f.Since, Until: f.Until, Most: int32(f.Limit + 1), Bytes: pageBytes,
	})
}

// fromListed is fromRow for the columns of a list.
func fromListed(r dbsqlc.ListApprovalsRow) (Approval, error) {
	a, err := fromRow(dbsqlc.GetApprovalRow{
		Approval: dbsqlc.Approval{
			ID: r.ID, Kind: r.Kind, ExecutionID: r.ExecutionID, SubjectType: r.SubjectType, SubjectID: r.SubjectID, WorkflowID: r.WorkflowID,
			RunID: r.RunID, Status: r.Status, Provider: r.Provider, Verb: r.Verb,
			Args: r.Args, RiskLevel: r.RiskLevel, PolicyName: r.PolicyName, Reason: r.Reason, Requester: r.Requester, RequesterKind: r.RequesterKind,
			Requirements: r.Requirements, EditedFrom: r.EditedFrom, EditedBy: r.EditedBy, Writers: r.Writers, ClosedReason: r.ClosedReason,
			DecidedBy: r.DecidedBy, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, DecidedAt: r.DecidedAt, EscalatedAt: r.EscalatedAt,
			Attempt: r.Attempt,
		},
		RunState: r.RunState, RunAttempt: r.RunAttempt, RunApprovalID: r.RunApprovalID,
	})
	a.voted = r.Voted
	return a, err
}

// Counts returns how many approvals of each status the tenant has. Every status is in the
// map.
func (s *Desk) Counts(ctx context.Context, tenant uuid.UUID) (map[governance.ApprovalStatus]int64, error) {
	rows, err := s.q.CountApprovals(ctx, s.d.DB.Reading(tenant, db.ListLimit), tenant)
	if err != nil {
		return nil, fmt.Errorf("desk: count: %w", err)
	}
	out := map[governance.ApprovalStatus]int64{}
	for _, status := range governance.ApprovalStatuses() {
		out[status] = 0
	}
	for _, row := range rows {
		out[governance.ApprovalStatus(row.Status)] = row.N
	}
	return out, nil
}

func fromRow(row dbsqlc.GetApprovalRow) (Approval, error) {
	r := row.Approval
	a := Approval{
		ID: r.ID, Kind: governance.ApprovalKind(r.Kind), ExecutionID: r.ExecutionID, SubjectType: approval.SubjectType(r.SubjectType),
		SubjectID: r.SubjectID, WorkflowID: r.WorkflowID, Driver: flow.Driver(r.Driver), Status: governance.ApprovalStatus(r.Status),
		Provider: r.Provider, Verb: r.Verb, Args: json.RawMessage(r.Args), RiskLevel: r.RiskLevel, PolicyName: r.PolicyName,
		Reason: r.Reason, Explanation: r.Explanation, Request: r.Request, Form: r.Form, Requester: approval.RequesterOf(r), EditedFrom: r.EditedFrom,
		EditedBy: r.EditedBy, Writers: r.Writers, ClosedReason: r.ClosedReason, DecidedBy: r.DecidedBy, CreatedAt: r.CreatedAt.UTC(),
		ExpiresAt: db.UTC(r.ExpiresAt), DecidedAt: db.UTC(r.DecidedAt), EscalatedAt: db.UTC(r.EscalatedAt),
	}
	if row.Successor != "" {
		a.SupersededBy = &row.Successor
	}
	sameAttempt := row.RunAttempt == r.Attempt
	switch {
	case sameAttempt && row.RunApprovalID != nil && *row.RunApprovalID == r.ID:
		a.RunState = flow.State(row.RunState)
	case sameAttempt && a.Status == governance.ApprovalSuperseded:
		a.SupersededBy = row.RunApprovalID
	}
	if err := json.Unmarshal(r.Requirements, &a.Requirements); err != nil {
		return Approval{}, fmt.Errorf("desk: requirements: %w", err)
	}
	return a, nil
}
