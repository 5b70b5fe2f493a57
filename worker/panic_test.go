package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdk "go.temporal.io/sdk/worker"

	"agentruntime/internal/base/flow"
)

// lastOne keeps the activity that is registered last.
type lastOne struct {
	sdk.Registry

	do any
}

func (r *lastOne) RegisterActivityWithOptions(do any, _ activity.RegisterOptions) { r.do = do }

// The value of a panic can have an argument of the call in it. It must not reach the history.
func TestPanicOfAStepIsNotWrittenToTheHistory(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	var registered lastOne
	register(&registered, flow.GovernRun, func(context.Context, flow.RunRef) (flow.Step, error) {
		panic(errors.New("cannot read canary"))
	})
	_, err := env.ExecuteLocalActivity(registered.do, flow.RunRef{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "canary")
	app, is := errors.AsType[*temporal.ApplicationError](err)
	require.True(t, is, "%T", err)
	require.Equal(t, "INTERNAL_ERROR", app.Type())
}
