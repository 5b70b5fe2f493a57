package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

// DryRun is a write of a dry run that was intercepted, with what people decide about it.
type DryRun struct {
	ID          uuid.UUID
	ExecutionID string
	State       State
	Verb        verb.Name
	// Step is its place in the execution that it belongs to.
	Step string
	// Args are masked, and empty where they were not asked for.
	Args json.RawMessage
	// ErrorCode is why the call that people approved has failed, "" where it has not.
	ErrorCode  string
	ApprovalID string
	Approval   governance.ApprovalStatus
	// ClosedReason is why the approval was closed, in words.
	ClosedReason string
	ExpiresAt    *time.Time
	DecidedBy    *uuid.UUID
}

// DryRuns returns those of the runs that are intercepted writes, or were before people approved them, in
// the order of their claims. Where bare is set, the arguments are not read.
func (s *Service) DryRuns(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID, bare bool) ([]DryRun, error) {
	rows, err := s.q.DryRunsOf(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.DryRunsOfParams{TenantID: tenant, Ids: ids, Bare: bare})
	if err != nil {
		return nil, fmt.Errorf("run: dry runs: %w", err)
	}
	list := make([]DryRun, len(rows))
	for i, r := range rows {
		list[i] = DryRun{
			ID: r.ID, ExecutionID: r.ExecutionID, State: State(r.State), Verb: verb.Name{Provider: r.Provider, Verb: r.Verb}, Step: r.Step, Args: json.RawMessage(r.Args),
			ErrorCode: r.ErrorCode, ApprovalID: r.ApprovalID, Approval: governance.ApprovalStatus(r.ApprovalStatus), ClosedReason: r.ClosedReason,
			ExpiresAt: db.UTC(r.ExpiresAt), DecidedBy: r.DecidedBy,
		}
	}
	return list, nil
}
