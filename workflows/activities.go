// Package workflows holds the workflow functions, one file each, and nothing that
// does I/O. A stranger should be able to read one file and know what happens.
// activities.go has the typed stubs, options.go every timeout and retry.
package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/kernel/flow"
)

// callLocal runs a local activity by name; a wrong input or result type does not compile
// in its stub.
func callLocal[I, O any](ctx workflow.Context, name string, opts workflow.LocalActivityOptions, in I) (O, error) {
	var out O
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, opts), name, in).Get(ctx, &out)
	return out, err
}

func governRun(ctx workflow.Context, in flow.RunInput) (flow.RunStep, error) {
	return callLocal[flow.RunInput, flow.RunStep](ctx, flow.ActivityGovernRun, stepOptions(), in)
}

func sendRun(ctx workflow.Context, in flow.RunInput) (flow.RunStep, error) {
	return callLocal[flow.RunInput, flow.RunStep](ctx, flow.ActivitySendRun, sendOptions(), in)
}

func decideRun(ctx workflow.Context, in flow.DecisionInput) (flow.Decided, error) {
	return callLocal[flow.DecisionInput, flow.Decided](ctx, flow.ActivityDecideRun, decideOptions(), in)
}

func rejectRun(ctx workflow.Context, in flow.RunInput) error {
	_, err := callLocal[flow.RunInput, flow.RunStep](ctx, flow.ActivityRejectRun, stepOptions(), in)
	return err
}

// codeNotPending is the code of a decision that comes too late (internal/kernel/fault).
const codeNotPending = "APPROVAL_NOT_PENDING"

func notPending() error {
	return temporal.NewApplicationError("the run does not wait for this approval", codeNotPending)
}
