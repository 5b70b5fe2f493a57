package run

import (
	"context"
	"fmt"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
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
	var left time.Duration
	if r.ExpiresAt != nil {
		left = max(r.ExpiresAt.Sub(now), 0)
		after = min(after, max(left/2, switchedOffLeast), max(left, lookAgain))
	}
	return flow.Step{State: r.State, After: after, SwitchedOff: true, Left: left}
}

// waitsForLift reports whether a call that a kill switch covers waits until it is lifted: that of a
// step of a Map, or of an agent, which was not sent. A call over HTTP is blocked, because its caller
// waits.
func (p prepared) waitsForLift() bool {
	return p.stopped != nil && (p.run.Kind == actor.Map || p.run.Kind == actor.Agent) && p.run.State == StateClaimed && !p.run.Held && !p.run.MaybeSent
}

// awaitLift returns the step of a run that waits until a kill switch is lifted. That time does not
// count: the run has as much left after it as before.
func (s *Service) awaitLift(ctx context.Context, r Run) (flow.Step, error) {
	if err := s.q.ProlongRun(ctx, s.d.DB.Tenant(r.TenantID), dbsqlc.ProlongRunParams{TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt}); err != nil {
		return flow.Step{}, fmt.Errorf("run: prolong: %w", err)
	}
	after := min(max(s.d.Now().Sub(r.CreatedAt)/4, switchedOffLeast), switchedOffMost)
	return flow.Step{State: r.State, After: after, SwitchedOff: true}, nil
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
