package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// A task that is lost may see a failure that its repeat does not see. The repeat would go on with a
// question that the row calls withdrawn, so nobody could answer it.
func TestMapRunWithoutTheStepThatAsksWithdrawsItsQuestionInALaterTask(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"p","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"q","type":"approval","title":"Go on?"}]},
		{"id":"b","steps":[{"id":"s","type":"verb","verb":"shop:ship","args":{}}]}]}]`)
	w.answers["shop:ship"] = func(int) flow.MapCallEnd {
		return flow.MapCallEnd{Step: flow.Step{Done: true}, End: stepmachine.CallEnd{
			Status: stepmachine.CallFailed, MayRepeat: true, Error: stepmachine.NewError("NOT_CONNECTED", "no"),
		}}
	}
	var withdrawn []time.Duration
	w.run(func(env *testsuite.TestWorkflowEnvironment) {
		local := func(name string, f any) { env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
		local(string(flow.AskInMap), func(_ context.Context, in flow.MapAsk) (flow.MapAsked, error) {
			w.write(in.MapWrites)
			return flow.MapAsked{}, nil
		})
		local(string(flow.CloseAskInMap), func(_ context.Context, in flow.MapAskEnd) (flow.MapDecision, error) {
			withdrawn = append(withdrawn, w.passed())
			return flow.MapDecision{Decided: stepmachine.Decided{Ref: in.Ref, Decision: stepmachine.Reject}}, nil
		})
	})
	require.Equal(t, stepmachine.StatusFailed, w.finish.Status)
	require.Len(t, withdrawn, 1)
	require.Greater(t, withdrawn[0], w.ended["shop:ship"], "a timer ends the task that saw the failure")
}
