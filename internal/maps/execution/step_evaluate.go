package execution

import (
	"context"
	"fmt"
	"math"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/quota"
)

// Evaluate evaluates an expression of a step that the workflow does not: one that reads stored
// values, or may take much time or memory. A *expression.BusyError comes where it finds no child soon.
func (s *steps) Evaluate(ctx context.Context, in flow.MapEvaluation) (stepmachine.Evaluated, error) {
	ask := in.Ask
	e, err := s.readHead(ctx, in.MapRef)
	if err != nil {
		return stepmachine.Evaluated{}, err
	}
	defer failpoint.Hit("map_evaluated", e.ID)
	if n := ask.Room(); n > 0 {
		return s.roomOf(ctx, e, ask, n)
	}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return stepmachine.Evaluated{}, err
	}
	if same := ask.SameAs(); same != "" {
		return s.filters.evaluate(ctx, fmt.Sprint(e.TenantID, e.MapID, e.Version, same), ask, func(ctx context.Context) (stepmachine.Evaluated, error) {
			l, err := s.newLoader(ctx, e, in.Unwritten)
			if err != nil {
				return stepmachine.Evaluated{}, err
			}
			return v.Program.Evaluate(ctx, s.d.Sandbox.Briefly(e.TenantID.String()), ask, l.load)
		})
	}
	l, err := s.newLoader(ctx, e, in.Unwritten)
	if err != nil {
		return stepmachine.Evaluated{}, err
	}
	out, err := v.Program.Evaluate(ctx, s.d.Sandbox.Briefly(e.TenantID.String()), ask, l.load)
	if err != nil || len(out.Value.JSON) <= stepmachine.MaxInline {
		return out, err
	}
	// No history has a value that is larger than the state may have.
	name := ask.Ref.String() + ":" + ask.What
	b := &db.Batch{}
	s.queueValue(b, l.key, e, name, out.Value)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return out, fmt.Errorf("execution: store a value: %w", err)
	}
	out.Value = Reference(name, out.Value.JSON, out.Value.Invented)
	return out, nil
}

// roomOf takes room for n events of what the tenant's Maps may emit in this hour, or for one. A repeat of
// the question takes it twice.
func (s *steps) roomOf(ctx context.Context, e Execution, ask stepmachine.Evaluate, n int) (stepmachine.Evaluated, error) {
	most := s.d.Quotas.Most(quota.EmittedEvents)
	for _, n := range []int{n, 1} {
		taken, err := s.q.TakeEmitted(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.TakeEmittedParams{
			TenantID: e.TenantID, Most: int32(min(most, math.MaxInt32)), N: int32(n),
		})
		if err != nil {
			return stepmachine.Evaluated{}, fmt.Errorf("execution: take room for events: %w", err)
		}
		if taken {
			return ask.Given(n), nil
		}
	}
	return ask.Refused(string(fault.CodeQuotaExceeded), fmt.Sprintf(
		"The tenant has reached its quota emitted_events: at most %d events that steps of Maps emit in an hour. Emit fewer, or later.", most)), nil
}
