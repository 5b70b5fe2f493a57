package run

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/record/approval"
)

// sweepBatch is how many runs one sweep looks after.
const sweepBatch = 200

// SweepEvery is how often Sweep is due.
func (s *Service) SweepEvery() time.Duration { return s.cfg.SweepEvery }

// Sweep looks once, over all tenants, at the runs that have not moved for
// Config.SweepAfter, and at the approvals. It repairs what crashes leave behind: a claim
// whose workflow was never started, and a run whose workflow ended without ending the row
// (an operator terminated it). Any number of processes may sweep at once.
func (s *Service) Sweep(ctx context.Context) error {
	stale := s.d.Now().Add(-s.cfg.SweepAfter)
	rows, err := s.q.UnfinishedRuns(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.UnfinishedRunsParams{Before: stale, Most: sweepBatch})
	if err != nil {
		return fmt.Errorf("run: sweep: %w", err)
	}
	for _, row := range rows {
		if err := s.repair(ctx, row.TenantID, row.ID); err != nil {
			s.d.Log.WarnContext(ctx, "run not repaired", "run_id", row.ID, "error", err)
		}
	}
	return s.approvals.Once(ctx, stale)
}

func (s *Service) repair(ctx context.Context, tenant, id uuid.UUID) error {
	r, err := s.get(ctx, tenant, id)
	if err != nil || r.State.Ended() {
		return err
	}
	own := r.WorkflowID == r.ownWorkflow()
	open, found, err := s.d.Engine.IsOpen(ctx, r.WorkflowID)
	switch {
	case err != nil:
		return err
	case open && own && (r.ApprovalID != nil || r.Attempt > 1):
		// Approved, and the workflow may not have been told; or claimed again while that of
		// the attempt before waits for an approval which was rejected: a crash came between.
		_, err = s.d.Engine.Nudge(ctx, r.WorkflowID)
		return err
	case open:
		// A workflow that drives a step repeats it after a crash by itself.
		return nil
	case r.State == StateSending || r.MaybeSent && found:
		// No workflow is left that could know how the call went.
		_, err = s.giveUpUnknown(ctx, prepared{run: r})
		return err
	case !own:
		return s.abandon(ctx, r)
	case !found || r.Attempt > 1 && s.d.Now().Sub(r.UpdatedAt) < s.cfg.SweepAfter*abandonAfter:
		return s.start(ctx, r)
	default:
		return s.abandon(ctx, r)
	}
}

// abandonAfter bounds, in units of SweepAfter, for how long a claim that was made
// again is started again although an older workflow of the same id has closed.
const abandonAfter = 6

// abandonedMessage answers the caller of a run whose workflow has ended before the call
// was sent.
const abandonedMessage = "The workflow of this run was ended by an operator before anything was sent. Repeat the call to run it."

// abandon ends a claim whose workflow has ended.
func (s *Service) abandon(ctx context.Context, r Run) error {
	_, err := s.refuse(ctx, prepared{run: r}, fault.New(fault.CodeConflict, abandonedMessage))
	return err
}

// Unattended implements approval.Owner. A run whose workflow the engine does not know is
// started: a crash came before the start, or the engine has forgotten it. Where an operator
// ended the workflow, the approval is closed; nothing was sent.
func (s *Service) Unattended(ctx context.Context, w approval.Waiting, found bool) error {
	r, err := s.get(ctx, w.TenantID, *w.RunID)
	if err != nil {
		return err
	}
	if r.ApprovalID == nil || *r.ApprovalID != w.ID || r.State != StatePending && r.State != StateIntercepted {
		return nil
	}
	a, _, err := s.readApproval(ctx, r)
	switch {
	case err != nil, a.Status != governance.ApprovalPending:
		// A dry run stays intercepted when it was decided.
		return err
	case !found && r.WorkflowID == r.ownWorkflow():
		return s.start(ctx, r)
	}
	_, err = s.closeHeld(ctx, prepared{run: r}, closing{
		status: governance.ApprovalCancelled, state: StateRefused, code: fault.CodeConflict, message: abandonedMessage,
		reason: "The workflow that waited for the decision was ended by an operator.",
	})
	return err
}

// nudge has the run's workflow notice that its row has changed. The approval's mark
// stays: where Temporal cannot be reached now, the sweeper tells it.
func (s *Service) nudge(ctx context.Context, r Run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	err := s.approvals.Tell(ctx, approval.Waiting{
		TenantID: r.TenantID, ID: *r.ApprovalID, Type: approval.SubjectRun, SubjectID: r.ID.String(), RunID: &r.ID, WorkflowID: r.WorkflowID,
	})
	if err != nil {
		s.d.Log.WarnContext(ctx, "workflow not told of a change", "run_id", r.ID, "error", err)
	}
}
