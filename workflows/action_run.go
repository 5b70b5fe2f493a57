package workflows

import (
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/flow"
)

// ActionRun takes one claimed run to its end: it is governed, then sent, and sent
// again for as long as that is known to be safe. What is safe is decided by the
// run's row, not here; a crash at any point repeats the step, and the row tells the
// repeat what has happened. A blocked or failed call is a result, not an error.
func ActionRun(ctx workflow.Context, in flow.RunInput) (flow.RunResult, error) {
	r := actionRun{in: in}
	if err := r.admitUpdates(ctx); err != nil {
		return flow.RunResult{}, err
	}
	return r.execute(ctx)
}

type actionRun struct{ in flow.RunInput }

// admitUpdates accepts the update that travels with a split-lane start.
func (r *actionRun) admitUpdates(ctx workflow.Context) error {
	return workflow.SetUpdateHandler(ctx, flow.UpdateAdmit, func(workflow.Context) error { return nil })
}

func (r *actionRun) execute(ctx workflow.Context) (flow.RunResult, error) {
	governed, err := governRun(ctx, r.in)
	if err != nil || governed.Done {
		return flow.RunResult{State: governed.State}, err
	}
	for {
		sent, err := sendRun(ctx, r.in)
		if err != nil || sent.Done {
			return flow.RunResult{State: sent.State}, err
		}
		// Nothing is under way at the provider: it was not reached, or asked us to
		// come back. The send step ends the run when its time is up.
		if err := workflow.Sleep(ctx, sent.After); err != nil {
			return flow.RunResult{State: sent.State}, err
		}
	}
}
