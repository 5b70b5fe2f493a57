package run

import (
	"context"
	"time"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/flow"
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

// keepAlive marks the run's row as being sent until stop is called.
func (s *Service) keepAlive(ctx context.Context, r Run) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				s.markAlive(context.WithoutCancel(ctx), r)
			}
		}
	}()
	return func() { close(done) }
}

func (s *Service) markAlive(ctx context.Context, r Run) {
	ctx, cancel := context.WithTimeout(ctx, aliveEvery)
	defer cancel()
	err := s.q.MarkAlive(ctx, s.d.DB.Tenant(r.TenantID), dbsqlc.MarkAliveParams{TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt})
	if err != nil {
		s.d.Log.WarnContext(ctx, "a call under way could not be marked as alive", "run_id", r.ID, "error", err)
	}
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
