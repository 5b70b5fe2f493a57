package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/workflows"
)

// A message that is cancelled, and one whose time is over, makes no further calls: neither those that
// stand in line behind another one of their provider, nor those that wait for a free place.
func TestStoppedMessageMakesNoFurtherCalls(t *testing.T) {
	t.Parallel()
	for name, lane := range map[string]string{"in one line": "shop", "without a place": ""} {
		for why, cancels := range map[string]bool{"cancelled": true, "out of time": false} {
			t.Run(name+" "+why, func(t *testing.T) {
				t.Parallel()
				w := newTurnWorld(2 * time.Minute)
				var made []int
				var ended []flow.MapToolEnd
				answered := func(_ context.Context, in flow.TurnStep) (flow.TurnNext, error) {
					if in.Answer > 0 {
						ended = in.Ends
						return flow.TurnNext{Replied: true, Over: true, Answers: 2}, nil
					}
					return flow.TurnNext{Answers: 1, Parallel: 1, Deadline: w.began.Add(w.within), Calls: []flow.TurnTool{
						{Number: 0, Verb: "shop:pay", Lane: lane}, {Number: 1, Verb: "shop:pay", Lane: lane}, {Number: 2, Verb: "shop:pay", Lane: lane},
					}}, nil
				}
				w.env.RegisterActivityWithOptions(answered, activity.RegisterOptions{Name: string(flow.AnswerTurn), DisableAlreadyRegisteredCheck: true})
				w.env.RegisterActivityWithOptions(func(_ context.Context, in flow.TurnCall) (flow.MapCallEnd, error) {
					if made = append(made, in.Number); in.Number == 0 {
						return w.unfinished(), nil
					}
					return flow.MapCallEnd{Run: w.run, Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Status: stepmachine.CallExecuted}}, nil
				}, activity.RegisterOptions{Name: string(flow.CallFromTurn), DisableAlreadyRegisteredCheck: true})
				w.env.RegisterActivityWithOptions(func(_ context.Context, in flow.TurnEnd) (flow.TurnNews, error) {
					ended = in.Ends
					return flow.TurnNews{Over: true}, nil
				}, activity.RegisterOptions{Name: string(flow.EndTurn)})
				if cancels {
					w.env.RegisterDelayedCallback(w.env.CancelWorkflow, 30*time.Second)
				}
				w.env.ExecuteWorkflow(workflows.AgentTurn, flow.TurnInput{TurnRef: w.ref})
				require.NoError(t, w.env.GetWorkflowError())
				require.Equal(t, []int{0}, made)
				require.Len(t, ended, 3)
				for _, end := range ended {
					if end.Number == 0 {
						require.Equal(t, stepmachine.CallCancelled, end.Status)
						continue
					}
					require.Equal(t, stepmachine.CallFailed, end.Status)
					require.Equal(t, flow.CodeNotMade, end.Error.Code)
				}
			})
		}
	}
}
