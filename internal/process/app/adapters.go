package app

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/action/run"
	"agentruntime/internal/edge/engine"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
)

// starter is the engine as the run domain sees it.
type starter struct{ engine *engine.Engine }

// StartRun implements run.Engine.
func (s starter) StartRun(ctx context.Context, ref run.Ref, claimKey, summary string) error {
	in := flow.RunInput{TenantID: ref.TenantID.String(), RunID: ref.ID.String(), Attempt: ref.Attempt}
	return s.engine.StartRun(ctx, in, claimKey, summary)
}

// RunOpen implements run.Engine.
func (s starter) RunOpen(ctx context.Context, tenant uuid.UUID, claimKey string) (open, found bool, err error) {
	return s.engine.RunOpen(ctx, tenant.String(), claimKey)
}

// Nudge implements run.Engine.
func (s starter) Nudge(ctx context.Context, tenant uuid.UUID, claimKey string) (open bool, err error) {
	return s.engine.Nudge(ctx, tenant.String(), claimKey)
}

// Decide implements approval.Workflows.
func (s starter) Decide(ctx context.Context, tenant uuid.UUID, claimKey, approvalID string, decision uuid.UUID) (fault.Code, error) {
	out, err := s.engine.Decide(ctx, tenant.String(), claimKey, flow.Decision{ApprovalID: approvalID, DecisionID: decision.String()})
	return fault.Code(out.Code), err
}
