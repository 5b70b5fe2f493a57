package run

import (
	"context"
	"sync/atomic"
	"time"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/flow"
)

// A workflow task that takes too long is given up by Temporal. Its step then runs a second
// time while the first is still at the provider, and to the second the row looks as after a
// crash. So the sending process marks the row as alive, every aliveEvery. A row in sending
// counts as lost only after lostAfter without a mark. A call shorter than aliveEvery costs
// no mark.
const (
	aliveEvery = 2 * time.Second
	lostAfter  = 3 * aliveEvery
)

// A call must begin within mayBeginWithin of a mark. A process that was frozen (a suspended
// virtual machine, a stopped process) finds out before its first byte leaves: another may
// count its call as lost by then, and a person may have run it again.
const mayBeginWithin = lostAfter / 2

// alive is a call while its row is marked. marked is the beginning of the last mark that
// succeeded, lost that the row is no longer this call's.
type alive struct {
	s      *Service
	r      Run
	done   chan struct{}
	marked atomic.Pointer[time.Time]
	lost   atomic.Bool
}

// keepAlive marks the run's row as being sent until stop is called. since is the beginning of
// the mark with which it moved to sending.
func (s *Service) keepAlive(ctx context.Context, r Run, since time.Time) *alive {
	a := &alive{s: s, r: r, done: make(chan struct{})}
	a.marked.Store(&since)
	go func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-a.done:
				return
			case <-tick.C:
				a.mark(context.WithoutCancel(ctx))
			}
		}
	}()
	return a
}

func (a *alive) stop() { close(a.done) }

func (a *alive) mark(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, aliveEvery)
	defer cancel()
	began := time.Now()
	n, err := a.s.q.MarkAlive(ctx, a.s.d.DB.Tenant(a.r.TenantID), dbsqlc.MarkAliveParams{TenantID: a.r.TenantID, ID: a.r.ID, Attempt: a.r.Attempt})
	switch {
	case err != nil:
		a.s.d.Log.WarnContext(ctx, "a call under way could not be marked as alive", "run_id", a.r.ID, "error", err)
	case n == 0:
		a.lost.Store(true)
	default:
		a.marked.Store(&began)
	}
}

// mayBegin reports whether the call may still begin. It goes by the monotonic clock of the
// process, which a change of the time of day does not move.
func (a *alive) mayBegin() bool {
	return !a.lost.Load() && time.Since(*a.marked.Load()) < mayBeginWithin
}

// underWay reports whether another process may still be sending the run. The step then says
// when to look again.
func (s *Service) underWay(r Run) (again flow.Step, yes bool) {
	silent := s.d.Now().Sub(r.UpdatedAt)
	if r.State != StateSending || silent >= lostAfter {
		return flow.Step{}, false
	}
	return flow.Step{State: StateSending, After: min(lostAfter-silent, lostAfter)}, true
}
