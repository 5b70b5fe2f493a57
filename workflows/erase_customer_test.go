package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
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

// An erasure of very much goes on in a new history, with the same input.
func TestLongErasureContinuesInANewHistory(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	ref := flow.CustomerRef{TenantID: uuid.New(), CustomerID: uuid.New()}
	steps := 0
	env.RegisterActivityWithOptions(func(context.Context, flow.CustomerRef) (flow.EraseStep, error) {
		steps++
		return flow.EraseStep{}, nil
	}, activity.RegisterOptions{Name: string(flow.EraseNext)})
	env.RegisterWorkflowWithOptions(workflows.EraseCustomer, workflow.RegisterOptions{Name: flow.WorkflowEraseCustomer})
	env.ExecuteWorkflow(flow.WorkflowEraseCustomer, ref)
	again, is := errors.AsType[*workflow.ContinueAsNewError](env.GetWorkflowError())
	require.True(t, is, "%v", env.GetWorkflowError())
	require.Equal(t, flow.WorkflowEraseCustomer, again.WorkflowType.Name)
	var in flow.CustomerRef
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, ref, in)
	require.Equal(t, 1000, steps)
}
