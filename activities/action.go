// Package activities is the thin edge between workflows and the domain: each
// activity checks its input, calls one domain method and returns a small result.
// Faults become Temporal application errors here; business outcomes are results.
package activities

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"

	"agentruntime/internal/action/run"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
)

// Runs is what the activities of an action run need of the run domain.
type Runs interface {
	Govern(ctx context.Context, ref run.Ref) (run.Step, error)
	Send(ctx context.Context, ref run.Ref) (run.Step, error)
	Decide(ctx context.Context, ref run.Ref, decision uuid.UUID) (run.Decided, error)
	RejectByOperator(ctx context.Context, ref run.Ref) error
}

// Action holds the activities of an action run.
type Action struct{ runs Runs }

// NewAction returns the activities over runs, which must not be nil.
func NewAction(runs Runs) (*Action, error) {
	if runs == nil {
		return nil, errors.New("activities: runs is required")
	}
	return &Action{runs: runs}, nil
}

// GovernRun decides about the run and records a refusal.
func (a *Action) GovernRun(ctx context.Context, in flow.RunInput) (flow.RunStep, error) {
	return step(ctx, in, a.runs.Govern)
}

// SendRun calls the provider at most once for a verb that may not be repeated.
func (a *Action) SendRun(ctx context.Context, in flow.RunInput) (flow.RunStep, error) {
	return step(ctx, in, a.runs.Send)
}

// DecideRun counts a decision about a held run.
func (a *Action) DecideRun(ctx context.Context, in flow.DecisionInput) (flow.Decided, error) {
	ref, err := refOf(in.Run)
	if err != nil {
		return flow.Decided{}, err
	}
	id, err := uuid.Parse(in.Decision.DecisionID)
	if err != nil {
		return flow.Decided{}, malformed("decision_id")
	}
	d, err := a.runs.Decide(ctx, ref, id)
	if err != nil {
		return flow.Decided{}, applicationError(err)
	}
	return flow.Decided{Code: string(d.Code), Closed: d.Closed}, nil
}

// RejectRun ends a held run for an operator in the Temporal UI.
func (a *Action) RejectRun(ctx context.Context, in flow.RunInput) (flow.RunStep, error) {
	return step(ctx, in, func(ctx context.Context, ref run.Ref) (run.Step, error) {
		return run.Step{}, a.runs.RejectByOperator(ctx, ref)
	})
}

func step(ctx context.Context, in flow.RunInput, do func(context.Context, run.Ref) (run.Step, error)) (flow.RunStep, error) {
	ref, err := refOf(in)
	if err != nil {
		return flow.RunStep{}, err
	}
	s, err := do(ctx, ref)
	if err != nil {
		return flow.RunStep{}, applicationError(err)
	}
	return flow.RunStep{State: string(s.State), Done: s.Done, After: s.After, ApprovalID: s.ApprovalID}, nil
}

func refOf(in flow.RunInput) (run.Ref, error) {
	tenant, err := uuid.Parse(in.TenantID)
	if err != nil {
		return run.Ref{}, malformed("tenant_id")
	}
	id, err := uuid.Parse(in.RunID)
	if err != nil {
		return run.Ref{}, malformed("run_id")
	}
	return run.Ref{TenantID: tenant, ID: id, Attempt: in.Attempt}, nil
}

func malformed(field string) error {
	return temporal.NewNonRetryableApplicationError("malformed input: "+field, "MALFORMED_INPUT", nil)
}

// applicationError keeps the code and drops the text: what an error says may hold
// what a history must not.
func applicationError(err error) error {
	code := fault.CodeInternal
	if f := fault.As(err); f != nil {
		code = f.Code
	}
	return temporal.NewApplicationError("step failed: "+string(code), string(code))
}
