// Package activities is the thin edge between workflows and the domain: each
// activity checks its input, calls one domain method and returns a small result.
// Faults become Temporal application errors here; business outcomes are results.
package activities

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"

	"agentruntime/internal/fault"
	"agentruntime/internal/flow"
	"agentruntime/internal/run"
)

// Runs is what the activities of an action run need of the run domain.
type Runs interface {
	Govern(ctx context.Context, ref run.Ref) (run.Step, error)
	Send(ctx context.Context, ref run.Ref) (run.Step, error)
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

func step(ctx context.Context, in flow.RunInput, do func(context.Context, run.Ref) (run.Step, error)) (flow.RunStep, error) {
	tenant, err := uuid.Parse(in.TenantID)
	if err != nil {
		return flow.RunStep{}, malformed("tenant_id")
	}
	id, err := uuid.Parse(in.RunID)
	if err != nil {
		return flow.RunStep{}, malformed("run_id")
	}
	s, err := do(ctx, run.Ref{TenantID: tenant, ID: id, Attempt: in.Attempt})
	if err != nil {
		return flow.RunStep{}, applicationError(err)
	}
	return flow.RunStep{State: string(s.State), Done: s.Done, After: s.After}, nil
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
