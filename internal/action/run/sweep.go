package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/lookagain"
	"agentruntime/internal/record/approval"
)

// Bounds of one pass of the sweeper. However many runs of a tenant are stuck, the others are
// looked at too: a tenant gets a quarter of the repairs, and what was found open is not asked
// about again for a while.
const (
	// sweepRepairs is the most runs of one pass that Temporal is asked about, sweepPerTenant
	// the most of one tenant.
	sweepRepairs   = 200
	sweepPerTenant = sweepRepairs / 4
	// sweepPage is how many rows are read at once, sweepPages how many pages one pass reads.
	// The next pass goes on where it stopped.
	sweepPage, sweepPages = 500, 20
	// openMost is the longest pause between two questions about a run that was found open.
	openMost = 5 * time.Minute
)

// sweeping is what the sweeper of a process remembers between its passes.
type sweeping struct {
	mu sync.Mutex
	// from is the last row of the pass before; the zero row where it came to the end.
	from dbsqlc.UnfinishedRunsRow
	// open are runs whose workflows were found open, and when to ask again.
	open *lookagain.Looks[uuid.UUID]
}

func newSweeping() *sweeping { return &sweeping{open: lookagain.New[uuid.UUID]()} }

// leave remembers that the workflow of the run is open.
func (w *sweeping) leave(id uuid.UUID, now time.Time, first time.Duration) {
	w.open.Leave(id, now, first, openMost)
}

// SweepEvery returns how often Sweep should run.
func (s *Service) SweepEvery() time.Duration { return s.cfg.SweepEvery }

// Sweep looks once, over all tenants, at the runs that have not changed for
// Config.SweepAfter, and at the approvals. It repairs what crashes leave behind. One case is
// a claim whose workflow was never started. Another is a run whose workflow ended without
// ending the row, because an operator terminated it. Any number of processes may sweep at
// once. A run that cannot be repaired is logged; the error is a failure to read.
func (s *Service) Sweep(ctx context.Context) error {
	w := s.sweeping
	w.mu.Lock()
	defer w.mu.Unlock()
	now := s.d.Now()
	repaired, of := 0, map[uuid.UUID]int{}
	for range sweepPages {
		rows, err := s.q.UnfinishedRuns(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.UnfinishedRunsParams{
			Before: now.Add(-s.cfg.SweepAfter), AfterTenant: w.from.TenantID, AfterID: w.from.ID, Most: sweepPage,
		})
		if err != nil {
			return fmt.Errorf("run: sweep: %w", err)
		}
		for _, row := range rows {
			w.from = row
			if !w.open.Due(row.ID, now) || of[row.TenantID] >= sweepPerTenant {
				continue
			}
			of[row.TenantID]++
			if err := s.repair(ctx, row.TenantID, row.ID); err != nil {
				s.d.Log.WarnContext(ctx, "run not repaired", "run_id", row.ID, "error", err)
				if fault.HasCode(err, fault.CodeServiceUnavailable) {
					return nil // the same would happen to the others
				}
			}
			if repaired++; repaired == sweepRepairs {
				return nil
			}
		}
		if len(rows) < sweepPage {
			w.from = dbsqlc.UnfinishedRunsRow{}
			return nil
		}
	}
	return nil
}

func (s *Service) repair(ctx context.Context, tenant, id uuid.UUID) error {
	r, err := s.glance(ctx, tenant, id)
	if err != nil || r.State.Ended() {
		return err
	}
	own := r.Driver == flow.DriverRun
	open, found, err := s.d.Engine.IsOpen(ctx, r.WorkflowID)
	switch {
	case err != nil:
		return err
	case open && own && (r.ApprovalID != nil || r.Attempt > 1):
		// A crash came between. Either the run is approved and its workflow was not told. Or
		// it was claimed again while the workflow of the attempt before waits for an approval
		// that was rejected.
		return s.remind(ctx, r)
	case open && r.State == StateSending:
		// The process that made the call has ended: a living one marks its calls. The workflow
		// waits to be told of the end.
		return s.remind(ctx, r)
	case open:
		// A workflow that drives a step repeats it after a crash by itself.
		s.sweeping.leave(r.ID, s.d.Now(), s.cfg.SweepAfter)
		return nil
	case r.State == StateSending || r.MaybeSent && (found || !own):
		// There is no workflow left that could know the outcome of the call.
		return s.lose(ctx, r)
	case !own:
		return s.abandon(ctx, r)
	case !found || r.Attempt > 1 && s.d.Now().Sub(r.UpdatedAt) < s.cfg.SweepAfter*abandonAfter:
		return s.start(ctx, r)
	default:
		return s.abandon(ctx, r)
	}
}

// looksWithin is how long a lost run waits for its read-back.
const looksWithin = time.Minute

// lose ends a run that may have been sent and whose workflow is gone. Where its verb declares
// a read-back, the provider is asked once, apart from the pass: it may be slow. That takes a
// place of a call. Where none is free, or what the read needs cannot be read now, the next pass
// tries again.
func (s *Service) lose(ctx context.Context, r Run) error {
	p, err := s.lost(ctx, r)
	later := fault.HasCode(err, fault.CodeServiceUnavailable)
	if err == nil && p.target.ReadBack() != nil {
		release, free := s.sends.Try(r.TenantID.String(), r.Verb.Provider)
		if free {
			s.underway.wg.Go(func() {
				defer release()
				s.loseApart(context.WithoutCancel(ctx), p)
			})
			return nil
		}
		later = true
	}
	if later && s.d.Now().Sub(r.UpdatedAt) < looksWithin {
		return nil
	}
	_, err = s.giveUpUnknown(ctx, prepared{run: r})
	return err
}

// lost returns a lost run with its verb.
func (s *Service) lost(ctx context.Context, r Run) (p prepared, err error) {
	if p.run, err = s.get(ctx, r.TenantID, r.ID); err != nil {
		return prepared{}, err
	}
	p.target, err = s.d.Targets.Target(ctx, r.TenantID, r.Verb, r.account(), p.run.Effective())
	return p, err
}

// loseApart is lose for a run with a read-back. A panic is logged, as one of a send is.
func (s *Service) loseApart(ctx context.Context, p prepared) {
	defer s.recovered(ctx, p.run.ID)
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	if _, err := s.giveUpUnknown(ctx, p); err != nil {
		s.d.Log.WarnContext(ctx, "run not repaired", "run_id", p.run.ID, "error", err)
	}
}

// recovered logs a panic and ends it.
func (s *Service) recovered(ctx context.Context, run uuid.UUID) {
	if v := recover(); v != nil {
		// The value of a panic may quote what it failed on.
		s.d.Log.ErrorContext(ctx, "a read-back panicked", "run_id", run, "panic", fmt.Sprintf("%T", v))
	}
}

// remind tells the run's workflow to look at it.
func (s *Service) remind(ctx context.Context, r Run) error {
	_, err := s.d.Engine.Nudge(ctx, r.WorkflowID)
	if err == nil {
		s.sweeping.leave(r.ID, s.d.Now(), s.cfg.SweepAfter)
	}
	return err
}

// abandonAfter is a time in units of SweepAfter. For so long the sweeper starts a claim that
// was made again, although an older workflow of the same id has closed.
const abandonAfter = 6

// abandonedMessage is the answer for the caller of a run whose workflow ended before the
// call was sent.
const abandonedMessage = "The workflow of this run ended before anything was sent. Repeat the call to run it."

// abandon ends a claim whose workflow has ended.
func (s *Service) abandon(ctx context.Context, r Run) error {
	_, err := s.refuse(ctx, prepared{run: r}, fault.New(fault.CodeConflict, abandonedMessage))
	return err
}

// Unattended implements approval.Owner. It starts the workflow of a run where the engine
// does not know it: a crash came before the start, or the engine has forgotten it. Where an
// operator ended the workflow, it closes the approval; nothing was sent. It does not
// change a run that was handed over meanwhile.
func (s *Service) Unattended(ctx context.Context, w approval.Waiting, found bool) error {
	// A run that does not open must not stay in the sweeper's list for ever.
	r, err := s.glance(ctx, w.TenantID, *w.RunID)
	if err != nil {
		return err
	}
	if w.WorkflowID != r.WorkflowID || r.ApprovalID == nil || *r.ApprovalID != w.ID || r.State != StatePending && r.State != StateIntercepted {
		return nil
	}
	a, _, err := s.readApproval(ctx, r)
	switch {
	case err != nil, a.Status != governance.ApprovalPending:
		// A dry run stays intercepted after the decision.
		return err
	case !found && r.Driver == flow.DriverRun:
		return s.start(ctx, r)
	}
	_, err = s.closeHeld(ctx, prepared{run: r}, closing{
		status: governance.ApprovalCancelled, state: StateRefused, code: fault.CodeConflict, message: abandonedMessage,
		reason: "The workflow that waited for the decision was ended by an operator.",
	})
	return err
}

// nudge tells the run's workflow that its row has changed. The approval keeps its mark.
// Where Temporal cannot be reached now, the sweeper tells the workflow later.
func (s *Service) nudge(ctx context.Context, r Run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	err := s.d.Approvals.Tell(ctx, approval.Waiting{
		TenantID: r.TenantID, ID: *r.ApprovalID, Type: approval.SubjectRun, SubjectID: r.ID.String(), RunID: &r.ID, WorkflowID: r.WorkflowID,
	})
	if err != nil {
		s.d.Log.WarnContext(ctx, "workflow not told of a change", "run_id", r.ID, "error", err)
	}
}
