package workflows

import (
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
)

// EraseCustomer erases what is stored about a customer, batch by batch. The row of the erasure
// says what is left, so a workflow that starts again continues there. While calls of the customer
// are under way or held, it waits for them.
func EraseCustomer(ctx workflow.Context, in flow.CustomerRef) error {
	wait := erasePause
	for range eraseSteps {
		step, err := call(ctx, flow.EraseNext, eraseOptions(), in)
		switch {
		case err != nil || step.Done:
			return err
		case !step.Waits:
			wait = erasePause
			continue
		}
		workflow.SetCurrentDetails(ctx, flow.ErasureWaits)
		if err := sleep(ctx, wait, flow.ErasureWaits); err != nil {
			return err
		}
		workflow.SetCurrentDetails(ctx, "")
		wait = min(2*wait, erasePauseMost)
	}
	return workflow.NewContinueAsNewError(ctx, flow.WorkflowEraseCustomer, in)
}
