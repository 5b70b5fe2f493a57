package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"agentruntime/activities"
	"agentruntime/internal/base/flow"
)

// failing is a delivery whose receiver fails.
type failing struct{}

func (failing) Attempt(context.Context, flow.DeliveryRef) (flow.DeliveryStep, error) {
	return flow.DeliveryStep{DeliveryResult: flow.DeliveryResult{State: flow.DeliveryRetrying}, After: time.Minute}, nil
}

// A receiver that fails is no fault of the service: the SDK must not log an error for it.
func TestFailedAttemptIsNoFault(t *testing.T) {
	t.Parallel()
	acts, err := activities.NewDelivery(failing{})
	require.NoError(t, err)
	_, err = acts.AttemptDelivery(t.Context(), flow.DeliveryRef{TenantID: uuid.New()})
	var told *temporal.ApplicationError
	require.ErrorAs(t, err, &told)
	require.Equal(t, temporal.ApplicationErrorCategoryBenign, told.Category())
	require.Equal(t, time.Minute, told.NextRetryDelay())
}
