package policy

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// Bounds of deleting what windows no longer reach.
const (
	// TrimEvery is the pause between two passes of Trim.
	TrimEvery = 10 * time.Minute
	// trimMost is how many rows one statement deletes, and trimsPerTurn how often a window's turn
	// does so before the next window has its turn.
	trimMost     = 1000
	trimsPerTurn = 20
	// trimSlack is how much longer than the window something is kept.
	trimSlack = 2 * time.Hour
)

// Trim deletes what windows no longer reach, of all tenants, and all of windows that no policy asks
// for any more. Windows take turns until nothing is left. One that fails waits for the next pass:
// the error has what failed.
func (s *Service) Trim(ctx context.Context) error {
	var failed failures
	skip := map[uuid.UUID]bool{}
	for more := true; more && ctx.Err() == nil; {
		more = false
		arg := dbsqlc.WindowsToTrimParams{Most: windowsAtOnce}
		for {
			page, err := s.q.WindowsToTrim(ctx, s.db.Presenting(db.SettingSweep, "on"), arg)
			if err != nil {
				failed.add(fmt.Errorf("policy: windows to trim: %w", err))
				return failed.err()
			}
			for _, w := range page {
				arg.AfterTenant, arg.After = w.TenantID, w.Series
				if skip[w.Series] {
					continue
				}
				rest, err := s.trim(ctx, w)
				if err != nil {
					skip[w.Series] = true
					failed.add(fmt.Errorf("policy: trim window %s of tenant %s: %w", w.Series, w.TenantID, err))
				}
				more = more || rest
			}
			if len(page) < windowsAtOnce {
				break
			}
		}
	}
	return failed.err()
}

// trim has a window's turn and reports whether more is left.
func (s *Service) trim(ctx context.Context, w dbsqlc.WindowsToTrimRow) (more bool, err error) {
	before := int32(s.now().Add(-trimSlack).Unix()/60) - w.Per
	if w.Gone {
		before = 1<<31 - 1
	}
	on := s.db.Tenant(w.TenantID)
	for range trimsPerTurn {
		n, err := s.q.TrimWindowEntries(ctx, on, dbsqlc.TrimWindowEntriesParams{TenantID: w.TenantID, Series: w.Series, Before: before, Most: trimMost})
		if err != nil {
			return false, err
		}
		m, err := s.q.TrimWindowCounts(ctx, on, dbsqlc.TrimWindowCountsParams{TenantID: w.TenantID, Series: w.Series, Before: before, Most: trimMost})
		if err != nil {
			return false, err
		}
		if n < trimMost && m < trimMost {
			if w.Gone {
				err = s.q.DeleteWindow(ctx, on, dbsqlc.DeleteWindowParams{TenantID: w.TenantID, Series: w.Series})
			}
			return false, err
		}
	}
	return true, nil
}
