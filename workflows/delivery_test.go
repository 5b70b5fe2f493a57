package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/activities"
	"agentruntime/internal/base/flow"
	"agentruntime/workflows"
)

// tries are the deliveries of a receiver that fails: each attempt says when the next one follows.
type tries struct {
	at     []time.Time
	now    func() time.Time
	pauses []time.Duration
	end    flow.DeliveryState
}

func (s *tries) Attempt(context.Context, flow.DeliveryRef) (flow.DeliveryStep, error) {
	s.at = append(s.at, s.now())
	step := flow.DeliveryStep{DeliveryResult: flow.DeliveryResult{State: s.end}}
	if n := len(s.at); n <= len(s.pauses) {
		step.State, step.After = flow.DeliveryRetrying, s.pauses[n-1]
	}
	return step, nil
}

// The workflow asks again when the attempt before says, in virtual time.
func TestDeliveryAsksAgainWhenTheNextAttemptIsDue(t *testing.T) {
	t.Parallel()
	for _, end := range []flow.DeliveryState{flow.DeliveryDelivered, flow.DeliveryFailed, flow.DeliveryCancelled} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestWorkflowEnvironment()
		env.SetTestTimeout(time.Minute)
		s := &tries{now: env.Now, end: end, pauses: []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 24 * time.Hour}}
		acts, err := activities.NewDelivery(s)
		require.NoError(t, err)
		env.RegisterActivityWithOptions(acts.AttemptDelivery, activity.RegisterOptions{Name: string(flow.AttemptDelivery)})
		env.OnUpsertTypedSearchAttributes(temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword(string(flow.AttributeState)).ValueSet(string(end)))).Return(nil).Once()
		env.ExecuteWorkflow(workflows.Delivery, flow.DeliveryInput{DeliveryRef: flow.DeliveryRef{TenantID: uuid.New(), WebhookID: uuid.New(), EventID: uuid.New(), Round: 1}, ShowsState: true})
		require.NoError(t, env.GetWorkflowError())
		var out flow.DeliveryResult
		require.NoError(t, env.GetWorkflowResult(&out))
		require.Equal(t, end, out.State)
		require.Len(t, s.at, 6)
		for i, pause := range s.pauses {
			require.InEpsilon(t, pause.Seconds(), s.at[i+1].Sub(s.at[i]).Seconds(), 0.1)
		}
		env.AssertExpectations(t)
	}
}
