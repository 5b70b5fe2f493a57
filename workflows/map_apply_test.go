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
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/workflows"
)

// applyWorld has the changes that a workflow applies. looks says how far the run of each change is, at
// its nth look.
type applyWorld struct {
	changes [][]flow.ApplyStep
	faults  int

	at, look int
	calls    []flow.ApplyCall
}

func (w *applyWorld) next() (flow.ApplyStep, error) {
	if w.faults > 0 {
		w.faults--
		return flow.ApplyStep{}, temporal.NewApplicationError("step failed: INTERNAL_ERROR", "INTERNAL_ERROR")
	}
	if w.at == len(w.changes) {
		return flow.ApplyStep{Over: true}, nil
	}
	step := w.changes[w.at][w.look]
	w.look++
	if step.Step.Done {
		w.at, w.look = w.at+1, 0
	}
	return step, nil
}

func (w *applyWorld) begin(context.Context, flow.ApplyRef) (flow.ApplyStep, error) { return w.next() }

func (w *applyWorld) goOn(_ context.Context, in flow.ApplyCall) (flow.ApplyStep, error) {
	w.calls = append(w.calls, in)
	step, err := w.next()
	step.HandedOver = in.Look || in.HandOver
	return step, err
}

func TestApplyTakesEachChangeToItsEnd(t *testing.T) {
	t.Parallel()
	done, waits := flow.ApplyStep{Step: flow.Step{Done: true}}, flow.ApplyStep{Step: flow.Step{ApprovalID: "appr_1", After: time.Hour}}
	underWay := flow.ApplyStep{Step: flow.Step{UnderWay: true, After: time.Second}}
	for name, c := range map[string]struct {
		world   applyWorld
		changes int32
		took    time.Duration // at most
		calls   int
	}{
		"no change":                {applyWorld{}, 0, 0, 0},
		"two changes":              {applyWorld{changes: [][]flow.ApplyStep{{done}, {done}}}, 2, 0, 0},
		"one is slow":              {applyWorld{changes: [][]flow.ApplyStep{{underWay, underWay, done}}}, 1, 2 * time.Second, 2},
		"one is held":              {applyWorld{changes: [][]flow.ApplyStep{{waits, waits, done}}}, 1, time.Minute, 2},
		"the database is not here": {applyWorld{changes: [][]flow.ApplyStep{{underWay, done}}, faults: 6}, 1, time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			w := &c.world
			env.RegisterWorkflowWithOptions(workflows.ApplyChanges, workflow.RegisterOptions{Name: flow.WorkflowApplyChanges})
			env.RegisterActivityWithOptions(w.begin, activity.RegisterOptions{Name: string(flow.BeginChange)})
			env.RegisterActivityWithOptions(w.goOn, activity.RegisterOptions{Name: string(flow.GoOnWithChange)})
			began := env.Now()
			env.ExecuteWorkflow(flow.WorkflowApplyChanges, flow.ApplyRef{TenantID: uuid.New(), ID: uuid.New()})
			require.NoError(t, env.GetWorkflowError())
			var out flow.ApplyResult
			require.NoError(t, env.GetWorkflowResult(&out))
			require.Equal(t, c.changes, out.Changes)
			require.Len(t, w.calls, c.calls)
			require.LessOrEqual(t, env.Now().Sub(began), c.took+time.Second, "virtual time")
			if name == "one is held" {
				require.True(t, w.calls[0].HandOver)
				require.True(t, w.calls[1].Look)
			}
		})
	}
}
