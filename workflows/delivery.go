package workflows

import (
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
)

// Delivery takes one delivery whose first attempt failed to its end. The activity makes one attempt
// for each time that Temporal tries it, and its errors say when the next one is due. The row says
// which attempt that is. A delivery that fails is a result, not an error.
func Delivery(ctx workflow.Context, in flow.DeliveryInput) (flow.DeliveryResult, error) {
	out, err := attemptDelivery(ctx, in.DeliveryRef)
	if err == nil && in.ShowsState {
		err = listState(ctx, string(out.State))
	}
	return out, err
}
