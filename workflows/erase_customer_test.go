package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/kernel/flow"
	"agentruntime/workflows"
)

func TestErasureGoesOnAfterFaultsAndWaitsForCalls(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	ref := flow.CustomerRef{TenantID: uuid.New(), CustomerID: uuid.New()}
	steps := 0
	env.RegisterActivityWithOptions(func(_ context.Context, in flow.CustomerRef) (flow.EraseStep, error) {
		require.Equal(t, ref, in)
		switch steps++; steps {
		case 2:
			return flow.EraseStep{}, errors.New("postgres is away")
		case 4, 5:
			return flow.EraseStep{Waits: true}, nil
		case 7:
			return flow.EraseStep{Done: true}, nil
		}
		return flow.EraseStep{}, nil
	}, activity.RegisterOptions{Name: string(flow.EraseNext)})
	began := env.Now()
	env.ExecuteWorkflow(workflows.EraseCustomer, ref)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 7, steps)
	require.GreaterOrEqual(t, env.Now().Sub(began), 3*time.Minute, "one minute, then two")
}
