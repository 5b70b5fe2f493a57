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

// sweepBatch is how many runs one sweep looks after.
const sweepBatch = 200

// Sweep repairs, until ctx ends, what crashes leave behind: a claim whose workflow
// was never started, and a run whose workflow ended without ending the row (an
// operator terminated it). Any number of processes may sweep at once.
func (s *Service) Sweep(ctx context.Context) {
	tick := time.NewTicker(s.cfg.SweepEvery)
	defer tick.Stop()
	for {
		if err := s.SweepOnce(ctx); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "sweep failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// SweepOnce looks once at the runs that have not moved for Config.SweepAfter.
func (s *Service) SweepOnce(ctx context.Context) error {
	rows, err := dbsqlc.New().UnfinishedRuns(ctx, s.DB.Presenting(db.SettingSweep, "on"),
		dbsqlc.UnfinishedRunsParams{Before: s.Now().Add(-s.cfg.SweepAfter), Most: sweepBatch})
	if err != nil {
		return fmt.Errorf("run: sweep: %w", err)
	}
	for _, row := range rows {
		if err := s.repair(ctx, row.TenantID, row.ID); err != nil {
			s.Log.WarnContext(ctx, "run not repaired", "run_id", row.ID, "error", err)
		}
	}
	return s.sweepApprovals(ctx)
}

func (s *Service) repair(ctx context.Context, tenant, id uuid.UUID) error {
	r, err := s.get(ctx, tenant, id)
	if err != nil || r.State.Ended() {
		return err
	}
	open, found, err := s.Engine.RunOpen(ctx, tenant, r.ClaimKey)
	switch {
	case err != nil:
		return err
	case open && (r.ApprovalID != nil || r.Attempt > 1):
		// Approved, and the workflow may not have been told; or claimed anew while that of
		// the attempt before waits for an approval which was rejected: a crash came between.
		_, err = s.Engine.Nudge(ctx, tenant, r.ClaimKey)
		return err
	case open:
		return nil
	case r.State == StateSending || r.MaybeSent && found:
		// No workflow is left that could know how the call went.
		_, err = s.giveUpUnknown(ctx, prepared{run: r})
		return err
	case !found || r.Attempt > 1 && s.Now().Sub(r.UpdatedAt) < s.cfg.SweepAfter*abandonAfter:
		return s.start(ctx, r)
	default:
		return s.abandon(ctx, r)
	}
}

// abandonAfter bounds, in units of SweepAfter, for how long a claim that was made
// anew is started again although an older workflow of the same id has closed.
const abandonAfter = 6

// abandon ends a claim whose workflow was closed by someone else's hand.
func (s *Service) abandon(ctx context.Context, r Run) error {
	_, err := s.refuse(ctx, prepared{run: r},
		fault.New(fault.CodeConflict, "The workflow of this run was ended by an operator before anything was sent. Repeat the call to run it."))
	return err
}
