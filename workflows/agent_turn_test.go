package workflows_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/workflows"
)

// turnWorld is all that is outside of the workflow of a message. Its model asks for one call, and then
// replies.
type turnWorld struct {
	env   *testsuite.TestWorkflowEnvironment
	ends  bool // the call ends at once
	ref   flow.TurnRef
	run   flow.RunRef
	began time.Time
	// within is how long the message may take.
	within time.Duration
	// stopped is when the call was asked for an early end, answered what the model was told then.
	stopped  time.Duration
	answered []flow.TurnStep
	// calls and goesOn return how far the call is, and looks is called at each look.
	calls, goesOn func() flow.MapCallEnd
	looks         func()
	// kind is that of an execution that the call starts, others how far that is. end is how the message ends.
	kind   flow.Kind
	others func() flow.TurnOther
	end    stepmachine.Status
}

func newTurnWorld(within time.Duration) *turnWorld {
	w := &turnWorld{env: (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment(), within: within}
	w.ref = flow.TurnRef{TenantID: uuid.New(), ID: uuid.New()}
	w.calls, w.goesOn, w.looks = w.unfinished, w.unfinished, func() {}
	w.run = flow.RunRef{TenantID: w.ref.TenantID, RunID: uuid.New(), Attempt: 1}
	w.env.RegisterActivityWithOptions(w.answer, activity.RegisterOptions{Name: string(flow.AnswerTurn)})
	w.env.RegisterActivityWithOptions(w.call, activity.RegisterOptions{Name: string(flow.CallFromTurn)})
	w.env.RegisterActivityWithOptions(w.goOn, activity.RegisterOptions{Name: string(flow.GoOnWithCall)})
	w.env.RegisterActivityWithOptions(w.stop, activity.RegisterOptions{Name: string(flow.StopCallOfMap)})
	w.env.RegisterActivityWithOptions(w.look, activity.RegisterOptions{Name: string(flow.LookAtTurn)})
	w.env.RegisterActivityWithOptions(w.look, activity.RegisterOptions{Name: string(flow.ResumeTurn)})
	w.env.RegisterActivityWithOptions(func(context.Context, flow.TurnCall) (flow.TurnOther, error) { return w.others(), nil }, activity.RegisterOptions{Name: string(flow.StartFromTurn)})
	w.env.RegisterActivityWithOptions(func(context.Context, flow.TurnOtherRef) (flow.TurnOther, error) { return w.others(), nil }, activity.RegisterOptions{Name: string(flow.LookFromTurn)})
	w.began = w.env.Now()
	return w
}

func (w *turnWorld) answer(_ context.Context, in flow.TurnStep) (flow.TurnNext, error) {
	w.answered = append(w.answered, in)
	if in.Answer > 0 {
		next := flow.TurnNext{Replied: true, Over: in.Open == 0, Answers: in.Answer + 1}
		if next.Over {
			next.Status = w.end
		}
		return next, nil
	}
	tool := flow.TurnTool{Verb: "shop:get_order"}
	if w.kind != "" {
		tool = flow.TurnTool{Kind: w.kind}
	}
	return flow.TurnNext{Answers: 1, Parallel: 1, Deadline: w.began.Add(w.within), Calls: []flow.TurnTool{tool}}, nil
}

// unfinished is a call that is tried again and again.
func (w *turnWorld) unfinished() flow.MapCallEnd {
	return flow.MapCallEnd{Run: w.run, Step: flow.Step{After: 5 * time.Second}}
}

func (w *turnWorld) call(context.Context, flow.TurnCall) (flow.MapCallEnd, error) {
	if w.ends {
		return flow.MapCallEnd{Run: w.run, Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Status: stepmachine.CallExecuted, Sent: true}}, nil
	}
	return w.calls(), nil
}

func (w *turnWorld) goOn(context.Context, flow.MapCallRef) (flow.MapCallEnd, error) {
	return w.goesOn(), nil
}

func (w *turnWorld) stop(context.Context, flow.MapCallRef) (flow.MapCallEnd, error) {
	w.stopped = w.env.Now().Sub(w.began)
	return flow.MapCallEnd{Run: w.run, Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Status: stepmachine.CallCancelled}}, nil
}

func (w *turnWorld) look(context.Context, flow.TurnRef) (flow.TurnNews, error) {
	w.looks()
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

// A call that has waited for people may end while the workflow looks at the row, before it asks the model
// again. That answer is told of it, and counts it as open no longer.
func TestCallThatEndsDuringALookIsToldWithTheNextAnswer(t *testing.T) {
	t.Parallel()
	w := newTurnWorld(time.Hour)
	looking, wentOn := make(chan struct{}, 2), make(chan struct{}, 2)
	w.env.SetOnLocalActivityCompletedListener(func(_ *activity.Info, result converter.EncodedValue, _ error) {
		if at := (flow.MapCallEnd{}); result.Get(&at) == nil && at.HandedOver {
			wentOn <- struct{}{}
		}
	})
	waits := flow.MapCallEnd{Run: w.run, Step: flow.Step{ApprovalID: "appr_1"}}
	w.calls = func() flow.MapCallEnd {
		w.env.SignalWorkflow(flow.SignalRecheck, nil)
		<-looking
		return waits
	}
	asked := 0
	w.goesOn = func() flow.MapCallEnd {
		at := waits
		if at.HandedOver = true; asked > 0 {
			at.Step, at.End.Status = flow.Step{Done: true}, stepmachine.CallExecuted
		}
		asked++
		return at
	}
	looks := 0
	w.looks = func() {
		switch looks++; looks {
		case 1:
			looking <- struct{}{}
			<-wentOn // it waits for people
			w.env.SignalWorkflow(flow.SignalRecheck, nil)
		case 2:
			w.env.SignalWorkflow(flow.SignalRunEnded, w.run)
			<-wentOn
		}
	}
	w.env.RegisterDelayedCallback(w.env.CancelWorkflow, time.Hour)
	w.env.ExecuteWorkflow(workflows.AgentTurn, flow.TurnInput{TurnRef: w.ref})
	require.NoError(t, w.env.GetWorkflowError())
	require.Len(t, w.answered, 2)
	require.Equal(t, flow.CallPending, w.answered[1].Ends[0].Status)
	require.Zero(t, w.answered[1].Open)
	require.Len(t, w.answered[1].Late, 1)
	require.Equal(t, stepmachine.CallExecuted, w.answered[1].Late[0].Status)
}

// A write whose outcome is unknown is told, and does not end: the message waits until people have found out
// what came of it, and answers again.
func TestCallOfUnknownOutcomeWaitsForPeople(t *testing.T) {
	t.Parallel()
	w := newTurnWorld(time.Minute)
	unknown := flow.MapCallEnd{Run: w.run, Step: flow.Step{Done: true}, End: stepmachine.CallEnd{
		Status: stepmachine.CallUnknown, Sent: true, Error: stepmachine.NewError("OUTCOME_UNKNOWN", ""),
	}}
	w.calls = func() flow.MapCallEnd { return unknown }
	var settled atomic.Bool
	looks := 0
	w.goesOn = func() flow.MapCallEnd {
		at := unknown
		if looks++; settled.Load() {
			at.End = stepmachine.CallEnd{Status: stepmachine.CallExecuted, Sent: true}
		}
		return at
	}
	w.env.RegisterDelayedCallback(func() {
		settled.Store(true)
		w.env.SignalWorkflow(flow.SignalRecheck, nil)
	}, 72*time.Hour)
	w.env.ExecuteWorkflow(workflows.AgentTurn, flow.TurnInput{TurnRef: w.ref})
	require.NoError(t, w.env.GetWorkflowError())
	require.Less(t, w.env.Now().Sub(w.began), 73*time.Hour)
	require.Less(t, looks, 20, "a history has room for a bounded number of looks")
	require.Len(t, w.answered, 3)
	told := w.answered[1]
	require.Equal(t, stepmachine.CallUnknown, told.Ends[0].Status)
	require.True(t, told.Ends[0].Open)
	require.Equal(t, []int{1, 0, 1, 1}, []int{told.Open, told.Running, told.Unsettled, told.Actions})
	late := w.answered[2]
	require.Equal(t, []int{0, 0, 1}, []int{late.Open, late.Unsettled, late.Actions})
	require.Len(t, late.Late, 1)
	require.Equal(t, stepmachine.CallExecuted, late.Late[0].Status)
}

// A message whose history has become long goes on in a new one: with the next step, and with what the
// model is to hear before it.
func TestMessageGoesOnInANewHistory(t *testing.T) {
	t.Parallel()
	w := newTurnWorld(time.Minute)
	w.ends = true
	// Set between the workflow's tasks, because an activity runs beside the workflow, which reads it.
	w.env.SetOnLocalActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) {
		w.env.SetCurrentHistoryLength(10_000)
	})
	w.env.ExecuteWorkflow(workflows.AgentTurn, flow.TurnInput{TurnRef: w.ref, Asks: "builtin:rules"})
	again, continued := errors.AsType[*workflow.ContinueAsNewError](w.env.GetWorkflowError())
	require.True(t, continued, "%v", w.env.GetWorkflowError())
	require.Len(t, w.answered, 1)
	var next flow.TurnInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &next))
	require.Equal(t, "builtin:rules", next.Asks)
	require.Equal(t, flow.IsPrivate(), next.Carried.Private, "operators do not see it")

	after := newTurnWorld(time.Minute)
	after.env.ExecuteWorkflow(workflows.AgentTurn, next)
	require.NoError(t, after.env.GetWorkflowError())
	require.Len(t, after.answered, 1)
	step := after.answered[0]
	require.Equal(t, []int{1, 1}, []int{step.Answer, step.Actions})
	require.Equal(t, stepmachine.CallExecuted, step.Ends[0].Status)
	var result flow.TurnResult
	require.NoError(t, after.env.GetWorkflowResult(&result))
	require.Equal(t, flow.TurnResult{Answers: 2, Actions: 1}, result)
}
