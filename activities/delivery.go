package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"agentruntime/internal/base/flow"
)

// Deliveries is what the activity of a delivery needs of the webhook domain.
type Deliveries interface {
	Attempt(ctx context.Context, ref flow.DeliveryRef) (flow.DeliveryStep, error)
}

// Delivery contains the activity of a webhook delivery.
type Delivery struct{ deliveries Deliveries }

// NewDelivery returns the activity over deliveries. It returns an error where they are nil.
func NewDelivery(deliveries Deliveries) (*Delivery, error) {
	if deliveries == nil {
		return nil, errors.New("activities: deliveries are required")
	}
	return &Delivery{deliveries: deliveries}, nil
}

// attemptFollows is the type of the error while another attempt follows.
const attemptFollows = "ATTEMPT_FOLLOWS"

// AttemptDelivery makes one attempt where one is due. Its error says when Temporal asks again. A
// receiver that fails is no fault of the service, so the SDK logs this error below its warnings.
func (d *Delivery) AttemptDelivery(ctx context.Context, in flow.DeliveryRef) (flow.DeliveryResult, error) {
	step, err := d.deliveries.Attempt(ctx, in)
	switch {
	case err != nil:
		return flow.DeliveryResult{}, applicationError(err)
	case step.State.Ended():
		return step.DeliveryResult, nil
	}
	return flow.DeliveryResult{}, temporal.NewApplicationErrorWithOptions("the delivery has not succeeded; another attempt follows", attemptFollows,
		temporal.ApplicationErrorOptions{NextRetryDelay: step.After, Category: temporal.ApplicationErrorCategoryBenign})
}
