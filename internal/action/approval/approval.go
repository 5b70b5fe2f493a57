// Package approval is what people do with held calls: they look at them, decide them,
// and give standing approvals, grants. The api package calls it. The records are
// written by the run domain, in the transaction that holds, blocks or releases a run;
// a decision is proposed here and counted there, by the run's workflow.
package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
)

// Status of an approval.
type Status string

// The statuses. A pending one is decided, expires, is cancelled with its run, or is
// superseded because something it was bound to has changed. A blocked one is closed
// from the start.
const (
	StatusBlocked    Status = "blocked"
	StatusPending    Status = "pending"
	StatusApproved   Status = "approved"
	StatusRejected   Status = "rejected"
	StatusExpired    Status = "expired"
	StatusCancelled  Status = "cancelled"
	StatusSuperseded Status = "superseded"
)

// Statuses lists them all.
func Statuses() []Status {
	return []Status{
		StatusPending, StatusApproved, StatusRejected, StatusExpired, StatusCancelled, StatusSuperseded, StatusBlocked,
	}
}

// Kinds of approvals: a call that was blocked, one that is held, the request of a dry run.
const (
	KindBlock  = "block"
	KindHold   = "hold"
	KindDryRun = "dry_run"
)

// Approval is one asking of a human, or the record of a block.
type Approval struct {
	ID          string
	Kind        string
	ExecutionID string
	RunID       uuid.UUID
	// ClaimKey is what the workflow's id is made of.
	ClaimKey   string
	Status     Status
	Provider   string
	Verb       string
	Args       json.RawMessage // masked
	RiskLevel  string
	PolicyName string
	Reason     string
	// Explanation are the policies that matched ([]governance.Match).
	Explanation json.RawMessage
	// Request is what would be sent, masked; nil for a block.
	Request      json.RawMessage
	Requirements []governance.Requirement
	Requester    *uuid.UUID // the API key that called
	EditedFrom   *string
	EditedBy     *uuid.UUID
	SupersededBy *string
	// ClosedReason is why it was rejected, cancelled or superseded.
	ClosedReason string
	DecidedBy    *uuid.UUID
	CreatedAt    time.Time
	ExpiresAt    *time.Time
	DecidedAt    *time.Time
	EscalatedAt  *time.Time
	// RunState is the state of the run today, where the approval is still its own.
	RunState string
}

// Decision is what somebody said of an approval, and was counted.
type Decision struct {
	UserID    *uuid.UUID // nil: somebody at Temporal
	Email     string
	Name      string
	Decision  string
	Reason    string
	Edited    bool
	DecidedAt time.Time
}

// Detailed is an approval with the decisions so far.
type Detailed struct {
	Approval
	Decisions []Decision
	Tally     governance.Tally
}

// Workflows reaches the workflow that waits for a decision.
type Workflows interface {
	// Decide hands a proposed decision over and returns why it does not count, "" where
	// it does. APPROVAL_NOT_PENDING where no workflow waits for it.
	Decide(ctx context.Context, tenant uuid.UUID, claimKey, approvalID string, decision uuid.UUID) (code fault.Code, err error)
}

// Edits judges edited arguments before they are proposed.
type Edits interface {
	CheckEdit(ctx context.Context, tenant, runID uuid.UUID, args json.RawMessage) error
}

// Deps are the collaborators; all are required but Now.
type Deps struct {
	DB        *db.Pool
	Workflows Workflows
	Edits     Edits
	Now       func() time.Time
}

// Service reads and decides approvals.
type Service struct {
	Deps
	q *dbsqlc.Queries
}

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.DB == nil || d.Workflows == nil || d.Edits == nil {
		return nil, errors.New("approval: database, workflows and edits are required")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Service{Deps: d, q: dbsqlc.New()}, nil
}

// Get returns the tenant's approval with its decisions; APPROVAL_NOT_FOUND for any
// other id.
func (s *Service) Get(ctx context.Context, tenant uuid.UUID, id string) (Detailed, error) {
	row, err := s.q.GetApproval(ctx, s.DB.Tenant(tenant), dbsqlc.GetApprovalParams{TenantID: tenant, ID: id})
	switch {
	case db.IsNoRows(err):
		return Detailed{}, fault.New(fault.CodeApprovalNotFound, "")
	case err != nil:
		return Detailed{}, fmt.Errorf("approval: get: %w", err)
	}
	a, err := fromRow(row)
	if err != nil {
		return Detailed{}, err
	}
	return s.detailed(ctx, tenant, a)
}

func (s *Service) detailed(ctx context.Context, tenant uuid.UUID, a Approval) (Detailed, error) {
	out := Detailed{Approval: a, Decisions: []Decision{}}
	b := &pgx.Batch{}
	b.Queue(dbsqlc.Decisions, tenant, a.ID)
	b.Queue(dbsqlc.Votes, tenant, a.ID)
	err := s.DB.Batch(ctx, tenant, b, func(res pgx.BatchResults) error {
		decisions, err := collect[dbsqlc.DecisionsRow](res)
		if err != nil {
			return err
		}
		for _, d := range decisions {
			out.Decisions = append(out.Decisions, decisionOf(d))
		}
		votes, err := collect[dbsqlc.VotesRow](res)
		if err != nil {
			return err
		}
		out.Tally, _ = governance.Count(a.Requirements, a.voters(votes), a.EscalatedAt != nil)
		return nil
	})
	if err != nil {
		return Detailed{}, fmt.Errorf("approval: decisions: %w", err)
	}
	return out, nil
}

func collect[T any](res pgx.BatchResults) ([]T, error) {
	rows, err := res.Query()
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

func decisionOf(d dbsqlc.DecisionsRow) Decision {
	out := Decision{UserID: d.UserID, Decision: d.Decision, Reason: d.Reason, Edited: d.EditedArgs != nil, DecidedAt: d.CountedAt.UTC()}
	if d.Email != nil {
		out.Email = *d.Email
	}
	if d.Name != nil {
		out.Name = *d.Name
	}
	return out
}

func (a Approval) voters(votes []dbsqlc.VotesRow) []governance.Voter {
	var list []governance.Voter
	for _, v := range votes {
		list = append(list, a.voter(*v.UserID, v.Role))
	}
	return list
}

func (a Approval) voter(user uuid.UUID, role string) governance.Voter {
	return governance.Voter{UserID: user, Role: role, Self: a.EditedBy != nil && *a.EditedBy == user}
}

// Filter narrows a list; zero fields do not.
type Filter struct {
	Status      Status
	Kind        string
	Provider    string
	Verb        string // without the provider
	RiskLevel   string
	PolicyID    *uuid.UUID
	ExecutionID string
	Since       *time.Time
	Until       *time.Time
	// Before continues after the approval with this id.
	Before string
	Limit  int
}

// pageBytes is what the arguments on a page of approvals come to at most, but for the
// last of them, which may be 1 MiB. It is above that of 500 calls as they commonly are.
const pageBytes = 4 << 20

// List returns the newest approvals first and whether there are more, without what only
// Get shows: Explanation and Request. A page is shorter than f.Limit where it comes to
// pageBytes.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, f Filter) (page []Approval, more bool, err error) {
	rows, err := s.rows(ctx, tenant, f)
	if err != nil {
		return nil, false, fmt.Errorf("approval: list: %w", err)
	}
	page = []Approval{}
	for _, row := range rows[:min(len(rows), f.Limit)] {
		a, err := fromListed(row)
		if err != nil {
			return nil, false, err
		}
		page = append(page, a)
	}
	return page, len(rows) > 0 && rows[0].Found > int64(len(page)), nil
}

func (s *Service) rows(ctx context.Context, tenant uuid.UUID, f Filter) ([]dbsqlc.ListApprovalsRow, error) {
	var out []dbsqlc.ListApprovalsRow
	only := Filter{Status: StatusPending, Before: f.Before, Limit: f.Limit}
	if f == only {
		rows, err := s.q.PendingApprovals(ctx, s.DB.Tenant(tenant), dbsqlc.PendingApprovalsParams{
			TenantID: tenant, Before: optional(f.Before), Most: int32(f.Limit + 1), Bytes: pageBytes,
		})
		for _, row := range rows {
			out = append(out, dbsqlc.ListApprovalsRow(row))
		}
		return out, err
	}
	return s.q.ListApprovals(ctx, s.DB.Tenant(tenant), dbsqlc.ListApprovalsParams{
		TenantID: tenant, Before: optional(f.Before), Status: optional(string(f.Status)), Kind: optional(f.Kind),
		Provider: optional(f.Provider), Verb: optional(f.Verb), RiskLevel: optional(f.RiskLevel), PolicyID: f.PolicyID,
		ExecutionID: optional(f.ExecutionID), Since: f.Since, Until: f.Until, Most: int32(f.Limit + 1), Bytes: pageBytes,
	})
}

// fromListed is fromRow for the columns that a list has.
func fromListed(r dbsqlc.ListApprovalsRow) (Approval, error) {
	return fromRow(dbsqlc.GetApprovalRow{
		Approval: dbsqlc.Approval{
			ID: r.ID, Kind: r.Kind, ExecutionID: r.ExecutionID, RunID: r.RunID, Status: r.Status, Provider: r.Provider, Verb: r.Verb,
			Args: r.Args, RiskLevel: r.RiskLevel, PolicyName: r.PolicyName, Reason: r.Reason, Requester: r.Requester,
			Requirements: r.Requirements, EditedFrom: r.EditedFrom, EditedBy: r.EditedBy, ClosedReason: r.ClosedReason,
			DecidedBy: r.DecidedBy, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, DecidedAt: r.DecidedAt, EscalatedAt: r.EscalatedAt,
			Attempt: r.Attempt,
		},
		RunState: r.RunState, RunAttempt: r.RunAttempt, ClaimKey: r.ClaimKey, RunApprovalID: r.RunApprovalID,
	})
}

// Counts says how many approvals of each status the tenant has; every status is there.
func (s *Service) Counts(ctx context.Context, tenant uuid.UUID) (map[Status]int64, error) {
	rows, err := s.q.CountApprovals(ctx, s.DB.Tenant(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("approval: count: %w", err)
	}
	out := map[Status]int64{}
	for _, status := range Statuses() {
		out[status] = 0
	}
	for _, row := range rows {
		out[Status(row.Status)] = row.N
	}
	return out, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func fromRow(row dbsqlc.GetApprovalRow) (Approval, error) {
	r := row.Approval
	a := Approval{
		ID: r.ID, Kind: r.Kind, ExecutionID: r.ExecutionID, RunID: r.RunID, ClaimKey: row.ClaimKey, Status: Status(r.Status),
		Provider: r.Provider, Verb: r.Verb, Args: json.RawMessage(r.Args), RiskLevel: r.RiskLevel, PolicyName: r.PolicyName,
		Reason: r.Reason, Explanation: r.Explanation, Request: r.Request, Requester: r.Requester, EditedFrom: r.EditedFrom,
		EditedBy: r.EditedBy, ClosedReason: r.ClosedReason, DecidedBy: r.DecidedBy, CreatedAt: r.CreatedAt.UTC(),
		ExpiresAt: utc(r.ExpiresAt), DecidedAt: utc(r.DecidedAt), EscalatedAt: utc(r.EscalatedAt),
	}
	current := row.RunApprovalID != nil && *row.RunApprovalID == r.ID && row.RunAttempt == r.Attempt
	switch {
	case current:
		a.RunState = row.RunState
	case a.Status == StatusSuperseded && row.RunAttempt == r.Attempt:
		a.SupersededBy = row.RunApprovalID
	}
	if err := json.Unmarshal(r.Requirements, &a.Requirements); err != nil {
		return Approval{}, fmt.Errorf("approval: requirements: %w", err)
	}
	return a, nil
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
