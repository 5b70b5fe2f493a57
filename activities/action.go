// Package activities is the thin edge between workflows and the domain. The worker registers
// its methods. Each calls one domain method and returns a small result. A fault becomes a
// Temporal application error here; what the business decides is a result. It never decides
// anything itself.
package activities

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// Runs is what the activities of an action run need of the run domain.
type Runs interface {
	Govern(ctx context.Context, ref flow.RunRef) (flow.Step, error)
	Send(ctx context.Context, ref flow.RunRef) (flow.Step, error)
	Decide(ctx context.Context, ref flow.RunRef, decision uuid.UUID) (flow.Decided, error)
	RejectByOperator(ctx context.Context, ref flow.RunRef) error
	HandOver(ctx context.Context, ref flow.RunRef, parent string) (flow.Step, error)
	LookAt(ctx context.Context, ref flow.RunRef) (flow.Step, error)
	GiveUp(ctx context.Context, ref flow.RunRef) (flow.Step, error)
}

// Action contains the activities of an action run.
type Action struct{ runs Runs }

// NewAction returns the activities over runs. It returns an error where runs is nil.
func NewAction(runs Runs) (*Action, error) {
	if runs == nil {
		return nil, errors.New("activities: runs is required")
	}
	return &Action{runs: runs}, nil
}

// GovernRun decides about the run: it lets it through, holds it, or records a refusal.
func (a *Action) GovernRun(ctx context.Context, in flow.RunRef) (flow.Step, error) {
	step, err := a.runs.Govern(ctx, in)
	return step, applicationError(err)
}

// SendRun calls the provider. A call whose verb may not be repeated is sent at most once.
func (a *Action) SendRun(ctx context.Context, in flow.RunRef) (flow.Step, error) {
	step, err := a.runs.Send(ctx, in)
	return step, applicationError(err)
}

// DecideRun counts a decision about a run that waits for approval.
func (a *Action) DecideRun(ctx context.Context, in flow.DecisionInput) (flow.Decided, error) {
	decided, err := a.runs.Decide(ctx, in.Run, in.Decision.DecisionID)
	return decided, applicationError(err)
}

// RejectRun ends a run that waits for approval, for an operator in the Temporal UI.
func (a *Action) RejectRun(ctx context.Context, in flow.RunRef) (flow.Step, error) {
	return flow.Step{}, applicationError(a.runs.RejectByOperator(ctx, in))
}

// HandOverRun gives a run that must wait to a workflow of its own.
func (a *Action) HandOverRun(ctx context.Context, in flow.HandOver) (flow.Step, error) {
	step, err := a.runs.HandOver(ctx, in.RunRef, in.Parent)
	return step, applicationError(err)
}

// LookAtRun reads how far a run is that another workflow drives.
func (a *Action) LookAtRun(ctx context.Context, in flow.RunRef) (flow.Step, error) {
	step, err := a.runs.LookAt(ctx, in)
	return step, applicationError(err)
}

// GiveUpRun ends a run whose steps failed until its time was over.
func (a *Action) GiveUpRun(ctx context.Context, in flow.RunRef) (flow.Step, error) {
	step, err := a.runs.GiveUp(ctx, in)
	return step, applicationError(err)
}

// applicationError returns an error with the code of err and without its text, which may
// contain what must not be in a history.
func applicationError(err error) error {
	if err == nil {
		return nil
	}
	code := fault.CodeInternal
	if f := fault.As(err); f != nil {
		code = f.Code
	}
	return temporal.NewApplicationError("step failed: "+string(code), string(code))
}
