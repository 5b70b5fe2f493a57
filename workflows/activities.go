// Package workflows contains the workflow functions, one file each. The worker registers
// them. A reader should understand a workflow from its one file. activities.go has the typed
// stubs, options.go every timeout and retry. It does no I/O and decides nothing that the
// run's row decides.
package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
)

// callLocal runs a local activity. Its name carries the types of input and result, and
// the worker registers it under the same name: a wrong type does not compile.
func callLocal[I, O any](ctx workflow.Context, a flow.Activity[I, O], opts workflow.LocalActivityOptions, in I) (O, error) {
	var out O
	opts.Summary = flow.StepSummary(string(a))
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, opts), string(a), in).Get(ctx, &out)
	return out, err
}

// call runs a regular activity, as callLocal runs a local one.
func call[I, O any](ctx workflow.Context, a flow.Activity[I, O], opts workflow.ActivityOptions, in I) (O, error) {
	var out O
	opts.Summary = flow.StepSummary(string(a))
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), string(a), in).Get(ctx, &out)
	return out, err
}

func attemptDelivery(ctx workflow.Context, in flow.DeliveryRef) (flow.DeliveryResult, error) {
	return call(ctx, flow.AttemptDelivery, attemptOptions(), in)
}

func governRun(ctx workflow.Context, in flow.RunRef) (flow.Step, error) {
	return untilDone(ctx, flow.GovernRun, in)
}

func sendRun(ctx workflow.Context, in flow.RunRef) (flow.Step, error) {
	return untilDone(ctx, flow.SendRun, in)
}

// untilDone repeats a step that fails by a fault of ours. Between the tries the workflow
// waits by a timer and keeps no place of the worker. The run is given up when its time is
// over, and its row says whether it is.
func untilDone(ctx workflow.Context, do flow.Activity[flow.RunRef, flow.Step], in flow.RunRef) (flow.Step, error) {
	for tries, wait := 1, faultPause; ; tries, wait = tries+1, min(2*wait, faultPauseMost) {
		if tries > faultsSoon {
			wait = faultPauseLong
		}
		step, err := callLocal(ctx, do, faultOptions(), in)
		if err == nil || temporal.IsCanceledError(err) {
			if tries > 1 {
				workflow.SetCurrentDetails(ctx, "")
			}
			return step, err
		}
		if gaveUp, err := callLocal(ctx, flow.GiveUpRun, faultOptions(), in); err == nil && gaveUp.Done {
			return gaveUp, nil
		}
		workflow.SetCurrentDetails(ctx, flow.FaultDetails(string(do), tries, workflow.Now(ctx).Add(wait)))
		if err := sleep(ctx, wait, flow.FaultSummary); err != nil {
			return flow.Step{}, err
		}
	}
}

func decideRun(ctx workflow.Context, in flow.DecisionInput) (flow.Decided, error) {
	return callLocal(ctx, flow.DecideRun, decideOptions(), in)
}

func rejectRun(ctx workflow.Context, in flow.RunRef) error {
	_, err := callLocal(ctx, flow.RejectRun, stepOptions(), in)
	return err
}

func notPending() error {
	return temporal.NewApplicationError("the run does not wait for this approval", string(fault.CodeApprovalNotPending))
}
