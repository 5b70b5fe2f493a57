package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// ActionRun takes one claimed run to its end: it has the run governed, waits for people
// where a policy asks for them, and has it sent, again while that is known to be safe. The
// run's row says what is decided and what is safe. After a crash at any point the step is
// repeated, and the row shows it what has happened. A blocked, rejected or failed call is a
// result, not an error.
func ActionRun(ctx workflow.Context, in flow.ActionRunInput) (flow.RunResult, error) {
	r := actionRun{in: in.RunRef, showsState: in.ShowsState, mu: workflow.NewMutex(ctx)}
	if err := r.listen(ctx); err != nil {
		return flow.RunResult{}, err
	}
	out, err := r.execute(ctx)
	if err == nil && in.Parent != "" {
		err = signalParent(ctx, in.Parent, flow.SignalRunEnded, in.RunRef)
	}
	return out, err
}

type actionRun struct {
	in flow.RunRef
	// governed: the row was read, and waiting agrees with it. waiting is the approval that
	// the run waits for, "" while it waits for none.
	governed bool
	waiting  string
	// showsState: the run may set flow.AttributeState. shown is its value, "" before the first.
	showsState bool
	shown      flow.State
	// underWay: the last step to send said that the call is at the provider.
	underWay bool
	// mu lets one decision at a time be counted; decided wakes the run after each.
	mu      workflow.Mutex
	decided workflow.Channel
	reject  workflow.ReceiveChannel
	recheck workflow.ReceiveChannel
}

func (r *actionRun) execute(ctx workflow.Context) (flow.RunResult, error) {
	step, err := drive(ctx, r)
	r.waiting = ""
	if err == nil {
		err = workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
	}
	// Most runs are executed at once. They show no state: it would cost each of them a
	// twentieth of its CPU.
	if err == nil && (step.State != flow.StateExecuted || r.shown != "") {
		err = r.show(ctx, step.State)
	}
	return flow.RunResult{State: step.State}, err
}

// show sets the state that operators filter by. It costs an event and a write of the list, so
// a run shows it only where it waits and where it ends.
func (r *actionRun) show(ctx workflow.Context, state flow.State) error {
	if !r.showsState || r.shown == state {
		return nil
	}
	r.shown = state
	return listState(ctx, string(state))
}

func (r *actionRun) govern(ctx workflow.Context) (flow.Step, error) {
	step, err := governRun(ctx, r.in)
	r.governed, r.waiting = true, step.ApprovalID
	return step, err
}

// send sends the run. The step may say instead that policies or approvals have changed and
// that the run waits for an approval.
func (r *actionRun) send(ctx workflow.Context) (flow.Step, error) {
	step, err := sendRun(ctx, r.in)
	r.waiting = step.ApprovalID
	if err == nil && step.UnderWay && r.underWay {
		// The call has not ended in the time of a pause, so it is one to look at.
		err = r.show(ctx, flow.StateSending)
	}
	r.underWay = step.UnderWay
	return step, err
}

// wait waits for news about the approval and returns the step that follows from the row.
func (r *actionRun) wait(ctx workflow.Context, step flow.Step) (flow.Step, error) {
	if err := r.show(ctx, step.State); err != nil {
		return step, err
	}
	workflow.SetCurrentDetails(ctx, step.Details)
	defer workflow.SetCurrentDetails(ctx, "")
	if err := r.awaitHuman(ctx, step); err != nil {
		return step, err
	}
	return r.govern(ctx)
}

// awaitHuman returns when there may be news about the approval: a decision was counted, an
// operator rejected the run by signal, its time is over, or something that it is bound to
// has changed. The row says which.
func (r *actionRun) awaitHuman(ctx workflow.Context, step flow.Step) error {
	timing, stop := workflow.WithCancel(ctx)
	defer stop()
	var err error
	rejected := false
	summary := workflow.TimerOptions{Summary: flow.HoldSummary(step.ApprovalID)}
	workflow.NewSelector(ctx).
		AddFuture(workflow.NewTimerWithOptions(timing, step.After, summary), func(f workflow.Future) { err = f.Get(ctx, nil) }).
		AddReceive(r.decided, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
		AddReceive(r.recheck, func(c workflow.ReceiveChannel, _ bool) { drain(c) }).
		AddReceive(r.reject, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); rejected = true }).
		Select(ctx)
	if temporal.IsCanceledError(err) {
		// The workflow was cancelled in the Temporal UI: nothing will wait for the approval.
		lasting, _ := workflow.NewDisconnectedContext(ctx)
		if failed := rejectRun(lasting, r.in); failed != nil {
			return failed
		}
	}
	if rejected {
		return rejectRun(ctx, r.in)
	}
	return err
}

// drain takes everything from a channel: many changes are one reason to look.
func drain(c workflow.ReceiveChannel) {
	for c.ReceiveAsync(nil) {
	}
}

// listen registers what comes from outside: the update of a split-lane start, the decisions
// of approvers, and signals.
func (r *actionRun) listen(ctx workflow.Context) error {
	r.decided = workflow.NewBufferedChannel(ctx, 1)
	r.reject = workflow.GetSignalChannel(ctx, flow.SignalReject)
	r.recheck = workflow.GetSignalChannel(ctx, flow.SignalRecheck)
	if err := workflow.SetUpdateHandler(ctx, flow.UpdateAdmit, func(workflow.Context) error { return nil }); err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, flow.UpdateDecide, r.decide,
		workflow.UpdateHandlerOptions{Validator: r.mayDecide})
}

// mayDecide refuses a decision about an approval that the run does not wait for. As a
// validator it does so without a write to the history.
func (r *actionRun) mayDecide(_ workflow.Context, d flow.Decision) error {
	if r.governed && d.ApprovalID != r.waiting {
		return notPending()
	}
	return nil
}

// decide counts one decision. The rows say who may decide, and whether that is enough.
func (r *actionRun) decide(ctx workflow.Context, d flow.Decision) (flow.Decided, error) {
	if err := workflow.Await(ctx, func() bool { return r.governed }); err != nil {
		return flow.Decided{}, err
	}
	if err := r.mu.Lock(ctx); err != nil {
		return flow.Decided{}, err
	}
	defer r.mu.Unlock()
	if r.mayDecide(ctx, d) != nil {
		// While this decision waited for the lock, the last decision that is needed was counted.
		return flow.Decided{Code: fault.CodeApprovalNotPending, Closed: true}, nil
	}
	out, err := decideRun(ctx, flow.DecisionInput{Run: r.in, Decision: d})
	if err != nil {
		// It is not known here whether the decision was counted: the run reads its row.
		r.decided.SendAsync(true)
		return flow.Decided{}, err
	}
	if out.Closed && r.waiting == d.ApprovalID {
		// A new approval may have taken its place while the decision was counted.
		r.waiting = ""
	}
	if out.Code == "" {
		r.decided.SendAsync(true)
	}
	return out, nil
}
