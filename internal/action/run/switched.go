package run

import (
	"context"
	"fmt"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
)

// A run that a kill switch covers and that must not end looks again after a quarter of the time
// that it has waited, within these bounds. So a lift is noticed soon where the switch was set for
// moments, and a run that waits for a day adds little to its workflow's history. It also looks at half
// of the time that is left: a lift shortly before its end is noticed too.
const (
	switchedOffLeast = 2 * time.Second
	switchedOffMost  = time.Minute
)

// switchedOff returns the step of a run that waits while a kill switch covers it: people have
// approved it, or it may have been sent. Its own time still counts.
func (s *Service) switchedOff(r Run) flow.Step {
	now := s.d.Now()
	after := min(max(now.Sub(r.UpdatedAt)/4, switchedOffLeast), switchedOffMost)
	if r.ExpiresAt != nil {
		left := r.ExpiresAt.Sub(now)
		after = min(after, max(left/2, switchedOffLeast), max(left, lookAgain))
	}
	return flow.Step{State: r.State, After: after}
}

// isStopped reports whether a kill switch covers a call of the verb for the run, or the circuit of
// its provider is not closed. Like the mark of a call it passes the gate, so it sees each kill
// switch whose caller has an answer.
func (s *Service) isStopped(ctx context.Context, r Run, name verb.Name) (bool, error) {
	b := &db.Batch{}
	db.QueueExec(b, s.q.EnterGate, dbsqlc.EnterGateParams{TenantID: r.TenantID.String(), Provider: name.Provider})
	stopped := db.Queue(b, s.q.IsStopped, dbsqlc.IsStoppedParams{
		TenantID: r.TenantID, Provider: name.Provider, Covers: governance.SwitchesOver(name, r.about().AgentID),
	})
	if err := s.d.DB.Send(ctx, r.TenantID, b); err != nil {
		return false, fmt.Errorf("run: is a call stopped: %w", err)
	}
	return stopped.Value, nil
}
