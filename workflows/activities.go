// Package workflows contains the workflow functions, one file each. The worker registers
// them. A reader should understand a workflow from its one file. activities.go has the typed
// stubs, options.go every timeout and retry. It does no I/O and decides nothing that the
// run's row decides.
package workflows

import (
	"cmp"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// callLocal runs a local activity. Its name carries the types of input and result, and
// the worker registers it under the same name: a wrong type does not compile.
func callLocal[I, O any](ctx workflow.Context, a flow.Activity[I, O], opts workflow.LocalActivityOptions, in I) (O, error) {
	var out O
	opts.Summary = cmp.Or(opts.Summary, flow.StepSummary(string(a)))
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, opts), string(a), in).Get(ctx, &out)
	return out, err
}

// call runs a regular activity, as callLocal runs a local one.
func call[I, O any](ctx workflow.Context, a flow.Activity[I, O], opts workflow.ActivityOptions, in I) (O, error) {
	var out O
	opts.Summary = flow.StepSummary(string(a))
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), string(a), in).Get(ctx, &out)
	return out, err
}

func attemptDelivery(ctx workflow.Context, in flow.DeliveryRef) (flow.DeliveryResult, error) {
	return call(ctx, flow.AttemptDelivery, attemptOptions(), in)
}

func governRun(ctx workflow.Context, in flow.RunRef) (flow.Step, error) {
	return untilDone(ctx, flow.GovernRun, in)
}

func sendRun(ctx workflow.Context, in flow.RunRef) (flow.Step, error) {
	return untilDone(ctx, flow.SendRun, in)
}

// untilDone repeats a step that fails by a fault of ours. Between the tries the workflow
// waits by a timer and keeps no place of the worker. The run is given up when its time is
// over, and its row says whether it is.
func untilDone(ctx workflow.Context, do flow.Activity[flow.RunRef, flow.Step], in flow.RunRef) (flow.Step, error) {
	for tries, wait := 1, faultPause; ; tries, wait = tries+1, min(2*wait, faultPauseMost) {
		if tries > faultsSoon {
			wait = faultPauseLong
		}
		step, err := callLocal(ctx, do, faultOptions(), in)
		if err == nil || temporal.IsCanceledError(err) {
			if tries > 1 {
				workflow.SetCurrentDetails(ctx, "")
			}
			return step, err
		}
		if gaveUp, err := callLocal(ctx, flow.GiveUpRun, faultOptions(), in); err == nil && gaveUp.Done {
			return gaveUp, nil
		}
		workflow.SetCurrentDetails(ctx, flow.FaultDetails(string(do), tries, workflow.Now(ctx).Add(wait)))
		if err := sleep(ctx, wait, flow.FaultSummary); err != nil {
			return flow.Step{}, err
		}
	}
}

func decideRun(ctx workflow.Context, in flow.DecisionInput) (flow.Decided, error) {
	return callLocal(ctx, flow.DecideRun, decideOptions(), in)
}

func rejectRun(ctx workflow.Context, in flow.RunRef) error {
	_, err := callLocal(ctx, flow.RejectRun, stepOptions(), in)
	return err
}

func beginMap(ctx workflow.Context, in flow.MapRef) (flow.MapBegun, error) {
	return persist(ctx, flow.BeginMap, in)
}

func callFromMap(ctx workflow.Context, in flow.MapCall, verb string) (flow.MapCallEnd, error) {
	opts := faultOptions()
	opts.Summary = flow.MapCallSummary(verb, in.Call.Ref.Path)
	return persistWith(ctx, flow.CallFromMap, opts, in)
}

func goOnWithCall(ctx workflow.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	return persist(ctx, flow.GoOnWithCall, in)
}

func stopCallOfMap(ctx workflow.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	return persist(ctx, flow.StopCallOfMap, in)
}

func evaluateInMap(ctx workflow.Context, in flow.MapEvaluation) (flow.MapEvaluated, error) {
	return persistWith(ctx, flow.EvaluateInMap, evaluateOptions(), in)
}

func writeMap(ctx workflow.Context, in flow.MapWrites) (flow.MapNews, error) {
	return persist(ctx, flow.WriteMap, in)
}

func lookAtMap(ctx workflow.Context, in flow.MapLook) (flow.MapNews, error) {
	return persist(ctx, flow.LookAtMap, in)
}

func startMapOfMap(ctx workflow.Context, in flow.MapStart) (flow.MapOfMap, error) {
	return persist(ctx, flow.StartMapOfMap, in)
}

func lookAtMapOfMap(ctx workflow.Context, in flow.MapOfMapRef) (flow.MapOfMap, error) {
	return persist(ctx, flow.LookAtMapOfMap, in)
}

func stopMapOfMap(ctx workflow.Context, in flow.MapOfMapRef) (flow.MapOfMap, error) {
	return persist(ctx, flow.StopMapOfMap, in)
}

func askInMap(ctx workflow.Context, in flow.MapAsk, title string) (flow.MapAsked, error) {
	opts := faultOptions()
	opts.Summary = flow.MapAskSummary(title, in.Ask.Ref.Path)
	return persistWith(ctx, flow.AskInMap, opts, in)
}

func closeAskInMap(ctx workflow.Context, in flow.MapAskEnd) (flow.MapDecision, error) {
	return persist(ctx, flow.CloseAskInMap, in)
}

// askModel fails where no answer came within the time, whatever the reason.
func askModel(ctx workflow.Context, in flow.MapModelCall, within time.Duration) (flow.MapModelTurn, error) {
	return call(ctx, flow.AskModel, modelOptions(within), in)
}

// answerTurn fails where no answer came within the time, whatever the reason.
func answerTurn(ctx workflow.Context, in flow.TurnStep, asks string) workflow.Future {
	opts := answerOptions()
	opts.Summary = flow.StepSummary(string(flow.AnswerTurn))
	if asks != "" {
		opts.Summary = flow.AskSummary(asks)
	}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), string(flow.AnswerTurn), in)
}

func callFromTurn(ctx workflow.Context, in flow.TurnCall, verb string) (flow.MapCallEnd, error) {
	opts := faultOptions()
	opts.Summary = flow.ToolSummary(verb)
	return persistWith(ctx, flow.CallFromTurn, opts, in)
}

func lookAtTurn(ctx workflow.Context, in flow.TurnRef) (flow.TurnNews, error) {
	return persist(ctx, flow.LookAtTurn, in)
}

func resumeTurn(ctx workflow.Context, in flow.TurnRef) (flow.TurnNews, error) {
	return persist(ctx, flow.ResumeTurn, in)
}

func endTurn(ctx workflow.Context, in flow.TurnEnd) (flow.TurnNews, error) {
	return persist(ctx, flow.EndTurn, in)
}

func startFromTurn(ctx workflow.Context, in flow.TurnCall) (flow.TurnOther, error) {
	return persist(ctx, flow.StartFromTurn, in)
}

func lookFromTurn(ctx workflow.Context, in flow.TurnOtherRef) (flow.TurnOther, error) {
	return persist(ctx, flow.LookFromTurn, in)
}

func finishMap(ctx workflow.Context, in flow.MapFinish) (flow.MapResult, error) {
	return persist(ctx, flow.FinishMap, in)
}

// persist repeats a step of a Map that fails by a fault of ours, until it succeeds or the workflow
// ends. Between the tries it waits by a timer and keeps no place of the worker.
func persist[I, O any](ctx workflow.Context, do flow.Activity[I, O], in I) (O, error) {
	return persistWith(ctx, do, faultOptions(), in)
}

func persistWith[I, O any](ctx workflow.Context, do flow.Activity[I, O], opts workflow.LocalActivityOptions, in I) (O, error) {
	for tries, wait := 1, faultPause; ; tries, wait = tries+1, min(2*wait, faultPauseMost) {
		out, err := callLocal(ctx, do, opts, in)
		if err == nil || temporal.IsCanceledError(err) {
			return out, err
		}
		if tries > faultsSoon {
			wait = faultPauseLong
		}
		if err := sleep(ctx, wait, flow.FaultSummary); err != nil {
			return out, err
		}
	}
}

// signalParent tells a workflow that waits. It does nothing where that workflow has ended.
func signalParent(ctx workflow.Context, parent, signal string, what any) error {
	err := workflow.SignalExternalWorkflow(ctx, parent, "", signal, what).Get(ctx, nil)
	if _, gone := errors.AsType[*temporal.UnknownExternalWorkflowExecutionError](err); gone {
		return nil
	}
	return err
}

func notPending() error {
	return temporal.NewApplicationError("the run does not wait for this approval", string(fault.CodeApprovalNotPending))
}
