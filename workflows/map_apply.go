package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
)

// ApplyChanges applies the approved changes of a dry run of a Map, one after the other. Rows say
// which one is next, and each change is a governed run with a fence of its own. So a repeat goes on
// where a crash has stopped it. A change that fails or has drifted ends it; that is a result.
func ApplyChanges(ctx workflow.Context, in flow.ApplyRef) (flow.ApplyResult, error) {
	a := &applying{in: in}
	if err := a.listen(ctx); err != nil {
		return flow.ApplyResult{}, err
	}
	var done flow.ApplyResult
	for {
		over, err := a.applyNext(ctx)
		if err != nil || over {
			return done, err
		}
		done.Changes++
		if info := workflow.GetInfo(ctx); info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() >= mostEvents {
			return done, workflow.NewContinueAsNewError(ctx, flow.WorkflowApplyChanges, in)
		}
	}
}

// applying is the apply while its workflow is in memory.
type applying struct {
	in flow.ApplyRef
	// approval is the one that people have to decide about the change under way; "" for none.
	approval string
	// awake: there may be news of the call under way.
	awake bool
}

// listen registers what comes from outside. A signal only says that the run of a change has news.
func (a *applying) listen(ctx workflow.Context) error {
	for _, signal := range []string{flow.SignalRecheck, flow.SignalRunEnded} {
		news := workflow.GetSignalChannel(ctx, signal)
		workflow.Go(ctx, func(ctx workflow.Context) {
			for news.Receive(ctx, nil) {
				drain(news)
				a.awake = true
			}
		})
	}
	return workflow.SetUpdateHandler(ctx, flow.UpdateAdmit, func(workflow.Context) error { return nil })
}

// applyNext takes the next change to its end. over: there is none.
func (a *applying) applyNext(ctx workflow.Context) (over bool, err error) {
	at, err := persistWith(ctx, flow.BeginChange, applyOptions(), a.in)
	for err == nil && !at.Over && !at.Step.Done {
		waits := at.Step.ApprovalID != ""
		a.approval = at.Step.Asked(a.approval)
		if !waits || at.HandedOver {
			if err = a.pause(ctx, at); err != nil {
				break
			}
		}
		next := flow.ApplyCall{ApplyRef: a.in, Change: at.Change, Run: at.Run, HandOver: waits && !at.HandedOver, Look: at.HandedOver}
		at, err = persistWith(ctx, flow.GoOnWithChange, applyOptions(), next)
	}
	return at.Over, err
}

// pause returns when there may be news of the call.
func (a *applying) pause(ctx workflow.Context, at flow.ApplyStep) error {
	after := at.Step.After
	if at.HandedOver {
		after = lookAfter
	}
	if after > 0 {
		summary := flow.WaitSummary(flow.MapCallEnd{Step: at.Step}.Awaits(a.approval), at.Verb, a.approval)
		_, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: after, TimerOptions: workflow.TimerOptions{Summary: summary}}, func() bool { return a.awake })
		if err != nil {
			return err
		}
	}
	a.awake = false
	return nil
}

// applyOptions are for the steps of a change. Around its call they may read twice what the change
// is about, five seconds each, and rebuild its arguments from what others have brought.
func applyOptions() workflow.LocalActivityOptions {
	opts := faultOptions()
	opts.StartToCloseTimeout, opts.ScheduleToCloseTimeout = time.Minute, 150*time.Second
	return opts
}
