package execution

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// sees reports whether the actor may see the execution. A key sees its own, a user all of the
// tenant.
func sees(who actor.Actor, e Execution) bool {
	key := who.KeyID()
	return key == nil || e.KeyID != nil && *e.KeyID == *key
}

// Get returns an execution by its execution_id. The error is EXECUTION_NOT_FOUND where there is
// none, and where the actor may not see it.
func (s *views) Get(ctx context.Context, who actor.Actor, executionID string) (Execution, error) {
	row, err := s.q.MapExecutionByName(ctx, s.d.DB.Tenant(who.TenantID), dbsqlc.MapExecutionByNameParams{TenantID: who.TenantID, ExecutionID: executionID})
	switch {
	case db.IsNoRows(err):
		return Execution{}, fault.New(fault.CodeExecutionNotFound, "")
	case err != nil:
		return Execution{}, fmt.Errorf("execution: get: %w", err)
	}
	e, err := s.openExecution(ctx, row)
	if err == nil && !sees(who, e) {
		return Execution{}, fault.New(fault.CodeExecutionNotFound, "")
	}
	return e, err
}

// ReadByName returns an execution of the tenant by its execution_id. It refuses with EXECUTION_NOT_FOUND.
func (s *views) ReadByName(ctx context.Context, tenant uuid.UUID, executionID string) (Execution, error) {
	return s.Get(ctx, actor.Actor{Kind: actor.System, TenantID: tenant}, executionID)
}

// Filter narrows a list. A field with its zero value does not narrow it.
type Filter struct {
	MapID     *uuid.UUID
	KeyID     *uuid.UUID
	SessionID string
	ParentID  string
	// CustomerID is any of the texts that name the customer.
	CustomerID string
	Status     string
	DryRun     *bool
	Since      *time.Time
	Until      *time.Time
	// Begins is the beginning of the execution_id.
	Begins string
	Before *uuid.UUID
	Limit  int
}

// longestListed is how many characters the sealed error of an execution has at most in a list: about 12
// KiB in the clear. The words of its author may have far more, and a page has up to 500 executions.
const longestListed = 16 << 10

// List returns the newest executions first, and whether there are more. They have no texts but their
// errors, as others than the callers of their triggers see them.
func (s *views) List(ctx context.Context, who actor.Actor, f Filter) (page []Execution, more bool, err error) {
	if own := who.KeyID(); own != nil {
		if f.KeyID != nil && *f.KeyID != *own {
			return nil, false, nil
		}
		f.KeyID = own
	}
	p := dbsqlc.ListMapExecutionsParams{
		TenantID: who.TenantID, MapID: f.MapID, KeyID: f.KeyID, SessionID: db.Optional(f.SessionID), ParentID: db.Optional(f.ParentID),
		Customer: db.Optional(f.CustomerID), Status: db.Optional(f.Status), DryRun: f.DryRun, Before: f.Before, Most: int32(f.Limit + 1), LongestError: longestListed,
	}
	p.Low, p.High = db.IDsOf(f.Since, f.Until)
	if f.Begins != "" {
		low, high, ours := db.IDsNamed(f.Begins)
		if !ours {
			return nil, false, nil
		}
		p.Low, p.High = db.Within(p.Low, p.High, low, high)
	}
	rows, err := s.q.ListMapExecutions(ctx, s.d.DB.Reading(who.TenantID, db.ListLimit), p)
	if err != nil {
		return nil, false, fmt.Errorf("execution: list: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	for _, row := range rows {
		page = append(page, Execution{
			ID: row.ID, TenantID: who.TenantID, ExecutionID: row.ExecutionID, MapID: row.MapID, Version: row.Version, MapType: mapdef.MapType(row.MapType),
			DryRun: row.DryRun, Attempt: row.Attempt, Metadata: row.Metadata, SessionID: db.Text(row.SessionID), Customer: db.Text(row.Customer),
			KeyID: row.KeyID, UserID: row.UserID, ParentID: db.Text(row.ParentID), RequestID: row.RequestID, WorkflowID: row.WorkflowID,
			Status: stepmachine.Status(row.Status), WaitingFor: row.WaitingFor, Actions: row.Actions, Tokens: row.TokensUsed, Estimated: row.UsageEstimated, Governance: row.Governance,
			UpdatedAt: row.UpdatedAt, FinishedAt: row.FinishedAt, ErasedAt: row.ErasedAt,
			ErrorLeftOut: row.HasError && row.Error == "",
		})
	}
	s.showErrors(ctx, who.TenantID, rows, page)
	return page, more, nil
}

// showErrors opens the errors of a page, and masks all of them by one question.
func (s *views) showErrors(ctx context.Context, tenant uuid.UUID, rows []dbsqlc.ListMapExecutionsRow, page []Execution) {
	w := s.newCallMask(Execution{TenantID: tenant})
	for i := range page {
		if rows[i].Error == "" {
			continue
		}
		key, err := s.d.Keys.Key(ctx, tenant)
		if err == nil {
			page[i].Error, err = readOptional[stepmachine.Error](key, page[i].place(datakey.MapError), &rows[i].Error)
		}
		if err != nil { // the rest of the page is worth showing
			s.d.Log.WarnContext(ctx, "error of an execution in a list cannot be read", slog.String("execution_id", page[i].ExecutionID), slog.String("error", err.Error()))
			page[i].ErrorLeftOut = true
			continue
		}
		w.addFailure(&page[i].Error)
	}
	_ = w.maskAll(ctx) // why all is masked concerns only those that keep it
}
