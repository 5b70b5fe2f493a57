package conversation

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/lookagain"
)

// Bounds of one pass of Sweep. However many messages of a tenant wait, the others are looked at too: a
// tenant gets a quarter of the questions, and what was found open is asked about less and less often.
const (
	// SweepEvery is the pause between two passes of Sweep.
	SweepEvery = 10 * time.Second

	sweepAfter = 30 * time.Second
	// sweepAsks is the most messages of one pass that Temporal is asked about, sweepPerTenant the most of
	// one tenant.
	sweepAsks      = 200
	sweepPerTenant = sweepAsks / 4
	// sweepPage is how many rows are read at once, sweepPages how many pages one pass reads.
	sweepPage, sweepPages = 500, 20
	// workMost is the longest pause between two questions about a message that is worked on, and waitsMost
	// about one that waits: nobody stands in line behind that.
	workMost, waitsMost = 5 * time.Minute, time.Hour
)

// sweeping is what the sweeper of a process remembers between its passes. One process makes one pass
// at a time.
type sweeping struct {
	// from is the last row of the pass before; the zero row where it came to the end.
	from dbsqlc.UnbegunTurnsRow
	open *lookagain.Looks[seenTurn]
}

// seenTurn is a turn as it was when its workflow was found open. One that has changed is another.
type seenTurn struct {
	id uuid.UUID
	at int64 // its updated_at
}

func seen(row dbsqlc.UnbegunTurnsRow) seenTurn { return seenTurn{row.ID, row.UpdatedAt.UnixNano()} }

// Sweep starts the workflows of turns whose start was lost, and wakes those whose message was. The
// next pass goes on where it stopped.
func (s *Service) Sweep(ctx context.Context) error {
	w, now := &s.sweeping, s.d.Now()
	asked, of := 0, map[uuid.UUID]int{}
	for range sweepPages {
		rows, err := s.q.UnbegunTurns(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.UnbegunTurnsParams{
			Before: now.Add(-sweepAfter), AfterAt: w.from.UpdatedAt, AfterID: w.from.ID, Most: sweepPage,
		})
		if err != nil {
			return fmt.Errorf("conversation: sweep: %w", err)
		}
		for _, row := range rows {
			w.from = row
			if of[row.TenantID] >= sweepPerTenant || !w.open.Due(seen(row), now) {
				continue
			}
			of[row.TenantID]++
			if asked++; !s.sweepOne(ctx, row) || asked == sweepAsks {
				return nil
			}
		}
		if len(rows) < sweepPage {
			w.from = dbsqlc.UnbegunTurnsRow{}
			return nil
		}
	}
	return nil
}

// sweepOne looks whether a workflow drives the turn, and repairs that. What fails is logged, and tried
// again by a later pass. It returns false where the engine cannot be asked.
func (s *Service) sweepOne(ctx context.Context, row dbsqlc.UnbegunTurnsRow) bool {
	t, err := s.read(ctx, flow.TurnRef{TenantID: row.TenantID, ID: row.ID})
	if err != nil {
		s.d.Log.WarnContext(ctx, "turn not read", "tenant_id", row.TenantID, "id", row.ID, "error", err)
		return true
	}
	open, found, err := s.d.Engine.IsOpen(ctx, t.WorkflowID)
	switch {
	case err != nil:
		return false
	case found && open && t.State == Waiting && !t.WantsCancel:
		s.sweeping.open.Leave(seen(row), s.d.Now(), sweepAfter, waitsMost)
	case found && open:
		if _, err = s.d.Engine.Nudge(ctx, t.WorkflowID); err == nil {
			s.sweeping.open.Leave(seen(row), s.d.Now(), sweepAfter, workMost)
		}
	case found:
		// Its workflow was terminated, so nothing drives it any more.
		err = s.abandon(ctx, t)
	default:
		t.Replies = 0
		err = s.startLater(ctx, t)
	}
	if err != nil {
		s.d.Log.WarnContext(ctx, "turn not repaired", "execution_id", t.ExecutionID, "error", err)
	}
	return true
}
