package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/stepmachine"
	"agentruntime/workflows"
)

// turnWorld is all that is outside of the workflow of a message. Its model asks for one call, and then
// replies.
type turnWorld struct {
	env   *testsuite.TestWorkflowEnvironment
	ref   flow.TurnRef
	run   flow.RunRef
	began time.Time
	// within is how long the message may take.
	within time.Duration
	// stopped is when the call was asked for an early end, answered what the model was told then.
	stopped  time.Duration
	answered []flow.TurnStep
}

func newTurnWorld(within time.Duration) *turnWorld {
	w := &turnWorld{env: (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment(), within: within}
	w.ref = flow.TurnRef{TenantID: uuid.New(), ID: uuid.New()}
	w.run = flow.RunRef{TenantID: w.ref.TenantID, RunID: uuid.New(), Attempt: 1}
	w.env.RegisterActivityWithOptions(w.answer, activity.RegisterOptions{Name: string(flow.AnswerTurn)})
	w.env.RegisterActivityWithOptions(w.call, activity.RegisterOptions{Name: string(flow.CallFromTurn)})
	w.env.RegisterActivityWithOptions(w.goOn, activity.RegisterOptions{Name: string(flow.GoOnWithCall)})
	w.env.RegisterActivityWithOptions(w.stop, activity.RegisterOptions{Name: string(flow.StopCallOfMap)})
	w.env.RegisterActivityWithOptions(w.look, activity.RegisterOptions{Name: string(flow.LookAtTurn)})
	w.began = w.env.Now()
	return w
}

func (w *turnWorld) answer(_ context.Context, in flow.TurnStep) (flow.TurnNext, error) {
	w.answered = append(w.answered, in)
	if in.Answer > 0 {
		return flow.TurnNext{Replied: true, Over: true, Answers: 2}, nil
	}
	return flow.TurnNext{Answers: 1, Parallel: 1, Deadline: w.began.Add(w.within), Calls: []flow.TurnTool{{Verb: "shop:get_order"}}}, nil
}

// unfinished is a call that is tried again and again.
func (w *turnWorld) unfinished() flow.MapCallEnd {
	return flow.MapCallEnd{Run: w.run, Step: flow.Step{After: 5 * time.Second}}
}

func (w *turnWorld) call(context.Context, flow.TurnCall) (flow.MapCallEnd, error) {
	return w.unfinished(), nil
}

func (w *turnWorld) goOn(context.Context, flow.MapCallRef) (flow.MapCallEnd, error) {
	return w.unfinished(), nil
}

func (w *turnWorld) stop(context.Context, flow.MapCallRef) (flow.MapCallEnd, error) {
	w.stopped = w.env.Now().Sub(w.began)
	return flow.MapCallEnd{Run: w.run, Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Status: stepmachine.CallCancelled}}, nil
}

func (w *turnWorld) look(context.Context, flow.TurnRef) (flow.TurnNews, error) {
	return flow.TurnNews{Working: true}, nil
}

// The time of a message ends its calls, also where the sweeper has nudged the workflow before.
func TestWallClockEndsCallsOfAMessage(t *testing.T) {
	t.Parallel()
	for name, nudges := range map[string]int{"without news": 0, "with news": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTurnWorld(2 * time.Minute)
			for i := range nudges {
				w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(flow.SignalRecheck, nil) }, time.Duration(i+1)*10*time.Second)
			}
			w.env.RegisterDelayedCallback(w.env.CancelWorkflow, time.Hour) // a workflow that goes on and on
			w.env.ExecuteWorkflow(workflows.AgentTurn, flow.TurnInput{TurnRef: w.ref})
			require.NoError(t, w.env.GetWorkflowError())
			require.Len(t, w.answered, 2)
			require.Equal(t, stepmachine.CallCancelled, w.answered[1].Ends[0].Status)
			require.Less(t, w.stopped, 5*time.Minute)
			require.GreaterOrEqual(t, w.stopped, 2*time.Minute)
		})
	}
}
