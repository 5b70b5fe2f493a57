package execution

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/audit"
)

// Cancel asks an execution to end. It undoes what it has done, as its definition says, and then is
// cancelled. The error is CONFLICT where it has ended.
func (s *triggers) Cancel(ctx context.Context, who actor.Actor, e Execution) (Execution, error) {
	return s.setWanted(ctx, who, e, audit.MapCancelled, dbsqlc.WantOfMapParams{Cancel: true})
}

// Pause lets no further step begin, and Resume takes that back. The error is CONFLICT where the
// execution has ended.
func (s *triggers) Pause(ctx context.Context, who actor.Actor, e Execution) (Execution, error) {
	return s.setWanted(ctx, who, e, audit.MapPaused, dbsqlc.WantOfMapParams{Pause: new(true)})
}

// Resume lets a paused execution go on.
func (s *triggers) Resume(ctx context.Context, who actor.Actor, e Execution) (Execution, error) {
	return s.setWanted(ctx, who, e, audit.MapResumed, dbsqlc.WantOfMapParams{Pause: new(false)})
}

func (s *triggers) setWanted(ctx context.Context, who actor.Actor, e Execution, action audit.Action, p dbsqlc.WantOfMapParams) (Execution, error) {
	p.TenantID, p.ID, p.Now = e.TenantID, e.ID, s.d.Now()
	b := &db.Batch{}
	rows := db.Queue(b, s.q.WantOfMap, p)
	rec := audit.Change(who, action, audit.SubjectMap, e.MapID.String())
	rec.ExecutionID = e.ExecutionID
	audit.Queue(b, rec)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return Execution{}, fmt.Errorf("execution: %s: %w", action, err)
	}
	if len(rows.Value) == 0 {
		return Execution{}, fault.Newf(fault.CodeConflict, "The execution has ended: its status is %s.", e.Status)
	}
	now, err := s.openExecution(ctx, rows.Value[0])
	if err != nil {
		return Execution{}, err
	}
	if p.Cancel {
		if ended, err := s.endQueued(ctx, now); err != nil {
			return Execution{}, err
		} else if ended {
			return s.readExecution(ctx, now.TenantID, now.ID)
		}
	}
	s.workflows.nudgeOne(ctx, now)
	return now, nil
}

// sweepAfter is how long an open execution may be without a change before its workflow is asked
// for, sweepPage how many are looked at in one pass.
const (
	// SweepEvery is the pause between two passes.
	SweepEvery = 10 * time.Second

	sweepAfter = 30 * time.Second
	sweepPage  = 200
)

// sweptTo is where the pass before stopped; the zero value where it came to the end.
type sweptTo struct {
	at time.Time
	id uuid.UUID
}

// Sweep starts the workflows of executions whose start was lost. One that waits is found open. The
// next pass goes on where it stopped. One process makes one pass at a time.
func (s *triggers) Sweep(ctx context.Context) error {
	rows, err := s.q.UnbegunMaps(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.UnbegunMapsParams{
		Before: s.d.Now().Add(-sweepAfter), AfterAt: s.swept.at, AfterID: s.swept.id, Most: sweepPage,
	})
	if err != nil {
		return fmt.Errorf("execution: sweep: %w", err)
	}
	s.swept = sweptTo{}
	if len(rows) == sweepPage {
		last := rows[sweepPage-1]
		s.swept = sweptTo{last.UpdatedAt, last.ID}
	}
	for _, row := range rows {
		e, err := s.readExecution(ctx, row.TenantID, row.ID)
		if err != nil {
			// Skip an execution that cannot be read. The others still start.
			s.d.Log.WarnContext(ctx, "execution not read", "tenant_id", row.TenantID, "id", row.ID, "error", err)
			continue
		}
		if e.WantsCancel {
			if ended, err := s.endQueued(ctx, e); ended || err != nil {
				continue
			}
		}
		if open, found, err := s.d.Engine.IsOpen(ctx, e.WorkflowID); err != nil || found && open {
			continue
		}
		if err := s.workflows.startIfFree(ctx, e); err != nil {
			s.d.Log.WarnContext(ctx, "execution not started", "execution_id", e.ExecutionID, "error", err)
		}
	}
	return nil
}

// settlePlace goes on after a place was taken. It asks those to end that a new execution replaces, and
// reports whether the new one waits.
func (s *triggers) settlePlace(ctx context.Context, tenant uuid.UUID, got *db.Answer[dbsqlc.TakeMapPlaceRow]) (waits bool) {
	if got == nil {
		return false
	}
	for _, id := range got.Value.Ends {
		s.endReplaced(ctx, tenant, id)
	}
	return got.Value.Outcome == placeQueued
}

// endReplaced tells the workflow of an execution that it is to end, or ends it where it has none.
// What is lost here, the sweeper does.
func (s *triggers) endReplaced(ctx context.Context, tenant, id uuid.UUID) {
	ctx = context.WithoutCancel(ctx)
	e, err := s.readExecution(ctx, tenant, id)
	if err == nil {
		if ended, endErr := s.endQueued(ctx, e); ended || endErr != nil {
			err = endErr
		} else {
			_, err = s.d.Engine.Nudge(ctx, e.WorkflowID)
		}
	}
	if err != nil {
		s.d.Log.WarnContext(ctx, "execution not told to end", "id", id, "error", err)
	}
}

// endQueued ends an execution that waits for its place, as cancelled: it has done nothing. ended is
// false where it has its place, or needs none.
func (s *triggers) endQueued(ctx context.Context, e Execution) (ended bool, err error) {
	if dropped, err := s.q.DropQueuedPlace(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.DropQueuedPlaceParams{TenantID: e.TenantID, Execution: e.ID}); err != nil || !dropped {
		return false, err
	}
	_, err = s.steps.Finish(ctx, flow.MapFinish{MapWrites: flow.MapWrites{MapRef: e.Ref()}, Finish: stepmachine.Finish{Status: stepmachine.StatusCancelled}})
	return true, err
}
