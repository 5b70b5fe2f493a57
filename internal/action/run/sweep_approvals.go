package run

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
)

// How the sweeper looks after approvals. Each pass tells the workflows of those that
// hang on something that changed, and of those that should have expired overdueAfter
// ago; and it asks for unwatchedMost of those that nobody has looked at for
// unwatchedAfter whether their workflow still waits, so that ten thousand pending
// approvals cost no more than a hundred.
const (
	overdueAfter   = 5 * time.Second
	unwatchedAfter = 30 * time.Second
	unwatchedMost  = 20
)

// approvalRef names an approval and its run. seen is the version that its row was read
// in; "" where it was not.
type approvalRef struct {
	tenant, run uuid.UUID
	id, seen    string
}

func (s *Service) sweepApprovals(ctx context.Context) error {
	q, dbtx := dbsqlc.New(), s.DB.Presenting(db.SettingSweep, "on")
	closed := s.Now().Add(-s.cfg.SweepAfter)
	changed, err := q.ApprovalsToRecheck(ctx, dbtx, dbsqlc.ApprovalsToRecheckParams{ClosedBefore: &closed, Most: sweepBatch})
	if err != nil {
		return fmt.Errorf("run: sweep approvals: %w", err)
	}
	for _, a := range changed {
		s.lookAfter(ctx, approvalRef{a.TenantID, a.RunID, a.ID, a.Seen}, true)
	}
	before := s.Now().Add(-overdueAfter)
	overdue, err := q.ApprovalsOverdue(ctx, dbtx, dbsqlc.ApprovalsOverdueParams{Before: &before, Most: sweepBatch})
	if err != nil {
		return fmt.Errorf("run: sweep approvals: %w", err)
	}
	for _, a := range overdue {
		s.lookAfter(ctx, approvalRef{a.TenantID, a.RunID, a.ID, a.Seen}, true)
	}
	unwatched, err := q.ApprovalsUnwatched(ctx, dbtx, dbsqlc.ApprovalsUnwatchedParams{Before: s.Now().Add(-unwatchedAfter), Most: unwatchedMost})
	if err != nil {
		return fmt.Errorf("run: sweep approvals: %w", err)
	}
	for _, a := range unwatched {
		s.lookAfter(ctx, approvalRef{a.TenantID, a.RunID, a.ID, ""}, false)
	}
	return nil
}

// lookAfter tells the approval's workflow to look again, or only asks whether it is
// there; an approval without one is closed.
func (s *Service) lookAfter(ctx context.Context, a approvalRef, tell bool) {
	if err := s.tend(ctx, a, tell); err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "approval not looked after", "approval_id", a.id, "error", err)
	}
}

func (s *Service) tend(ctx context.Context, a approvalRef, tell bool) error {
	r, err := s.get(ctx, a.tenant, a.run)
	if err != nil {
		return err
	}
	var open bool
	if tell {
		open, err = s.Engine.Nudge(ctx, a.tenant, r.ClaimKey)
	} else {
		open, _, err = s.Engine.RunOpen(ctx, a.tenant, r.ClaimKey)
	}
	if err != nil {
		return err
	}
	if !open {
		if err := s.orphan(ctx, r, a.id); err != nil {
			return err
		}
	}
	q, tx := dbsqlc.New(), s.DB.Tenant(a.tenant)
	if tell {
		return q.ApprovalRechecked(ctx, tx, dbsqlc.ApprovalRecheckedParams{TenantID: a.tenant, ID: a.id, Seen: a.seen})
	}
	return q.ApprovalWatched(ctx, tx, dbsqlc.ApprovalWatchedParams{TenantID: a.tenant, ID: a.id})
}

// orphan closes an approval that no workflow waits for any more: an operator terminated
// it. Nothing was sent.
func (s *Service) orphan(ctx context.Context, r Run, approvalID string) error {
	if r.ApprovalID == nil || *r.ApprovalID != approvalID || r.State != StatePending && r.State != StateIntercepted {
		return nil
	}
	a, err := dbsqlc.New().ApprovalRow(ctx, s.DB.Tenant(r.TenantID), dbsqlc.ApprovalRowParams{TenantID: r.TenantID, ID: approvalID})
	if err != nil || a.Status != approvalPending {
		// A dry run stays intercepted when it was decided.
		return err
	}
	_, err = s.closeHeld(ctx, prepared{run: r}, closing{
		status: approvalCancelled, state: StateRefused, code: fault.CodeConflict,
		message: "The workflow of this run was ended by an operator before anything was sent. Repeat the call to run it.",
		reason:  "The workflow that waited for the decision was ended by an operator.",
	})
	return err
}

// nudge has the run's workflow notice that its row has changed. The approval's mark
// stays: where Temporal cannot be reached now, the sweeper tells it.
func (s *Service) nudge(ctx context.Context, r Run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := s.tend(ctx, approvalRef{r.TenantID, r.ID, *r.ApprovalID, ""}, true); err != nil {
		s.Log.WarnContext(ctx, "workflow not told of a change", "run_id", r.ID, "error", err)
	}
}
