package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
)

// A driver is a workflow that drives a claimed run. Its steps are local activities.
type driver interface {
	govern(ctx workflow.Context) (flow.Step, error)
	send(ctx workflow.Context) (flow.Step, error)
	// wait is called with a step that waits for approval, and returns the step that
	// follows.
	wait(ctx workflow.Context, step flow.Step) (flow.Step, error)
}

// drive takes a claimed run to its end: the run is governed, waits for approval where a
// policy asks for one, and is sent, again while that is known to be safe.
func drive(ctx workflow.Context, d driver) (flow.Step, error) {
	step, err := d.govern(ctx)
	for err == nil && !step.Done {
		if step.ApprovalID != "" {
			step, err = d.wait(ctx, step)
			continue
		}
		// Nothing is under way at the provider: the run is new, or the provider was not
		// reached or asked for a pause. The send step ends the run when its time is over.
		if err = pause(ctx, step); err == nil {
			step, err = d.send(ctx)
		}
	}
	return step, err
}

// pause waits before the next attempt to send. While a call is under way, the signal of its
// end ends the pause.
func pause(ctx workflow.Context, step flow.Step) error {
	switch {
	case step.After <= 0:
		return nil
	case !step.UnderWay:
		workflow.SetCurrentDetails(ctx, flow.PauseDetails(step, workflow.Now(ctx)))
		defer workflow.SetCurrentDetails(ctx, "")
		return sleep(ctx, step.After, flow.RetrySummary)
	}
	workflow.SetCurrentDetails(ctx, flow.PauseDetails(step, workflow.Now(ctx)))
	defer workflow.SetCurrentDetails(ctx, "")
	timing, stop := workflow.WithCancel(ctx)
	defer stop()
	var err error
	workflow.NewSelector(ctx).
		AddFuture(workflow.NewTimerWithOptions(timing, step.After, workflow.TimerOptions{Summary: flow.CallSummary}), func(f workflow.Future) { err = f.Get(ctx, nil) }).
		AddReceive(workflow.GetSignalChannel(ctx, flow.SignalRecheck), func(c workflow.ReceiveChannel, _ bool) { drain(c) }).
		Select(ctx)
	return err
}

// sleep waits for d. Operators read summary at its timer.
func sleep(ctx workflow.Context, d time.Duration, summary string) error {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: summary}).Get(ctx, nil)
}
