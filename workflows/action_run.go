package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
)

// ActionRun takes one claimed run to its end: it is governed, waits for a human where
// a policy asks for one, and is sent, again for as long as that is known to be safe.
// What is decided and what is safe stands in the run's row, not here; a crash at any
// point repeats the step, and the row tells the repeat what has happened. A blocked,
// rejected or failed call is a result, not an error.
func ActionRun(ctx workflow.Context, in flow.ActionRunInput) (flow.RunResult, error) {
	r := actionRun{in: in.RunRef, mu: workflow.NewMutex(ctx)}
	if err := r.listen(ctx); err != nil {
		return flow.RunResult{}, err
	}
	out, err := r.execute(ctx)
	if err == nil && in.Parent != "" {
		err = tellParent(ctx, in)
	}
	return out, err
}

// tellParent signals the workflow that handed the run over. A parent that has ended
// itself has nobody to be told.
func tellParent(ctx workflow.Context, in flow.ActionRunInput) error {
	err := workflow.SignalExternalWorkflow(ctx, in.Parent, "", flow.SignalRunEnded, in.RunRef).Get(ctx, nil)
	if _, gone := errors.AsType[*temporal.UnknownExternalWorkflowExecutionError](err); gone {
		return nil
	}
	return err
}

type actionRun struct {
	in flow.RunRef
	// governed: the row has been looked at, and waiting is true to it: the approval that
	// the run waits for, "" while it waits for none.
	governed bool
	waiting  string
	// mu has one decision at a time counted; decided wakes the run after each.
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
	return flow.RunResult{State: step.State}, err
}

func (r *actionRun) govern(ctx workflow.Context) (flow.Step, error) {
	step, err := governRun(ctx, r.in)
	r.governed, r.waiting = true, step.ApprovalID
	return step, err
}

// send may find that what the run was judged by has changed, and that it has to wait.
func (r *actionRun) send(ctx workflow.Context) (flow.Step, error) {
	step, err := sendRun(ctx, r.in)
	r.waiting = step.ApprovalID
	return step, err
}

// wait returns when the run no longer waits for approval, or waits for another one.
func (r *actionRun) wait(ctx workflow.Context, step flow.Step) (flow.Step, error) {
	if err := r.awaitHuman(ctx, step); err != nil {
		return step, err
	}
	return r.govern(ctx)
}

// awaitHuman returns when there may be something new about the approval: a decision
// was counted, an operator rejected the run by signal, its time is over, or something
// it hangs on has changed. The row says which.
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
		// Cancelled in the Temporal UI: nobody will wait for the approval any more.
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

// drain takes all that a channel holds: many changes are one reason to look.
func drain(c workflow.ReceiveChannel) {
	for c.ReceiveAsync(nil) {
	}
}

// listen takes what comes from outside: the update that travels with a split-lane
// start, decisions of approvers, and signals.
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

// mayDecide turns a decision away, without a write to the history, that is about an
// approval the run does not wait for.
func (r *actionRun) mayDecide(_ workflow.Context, d flow.Decision) error {
	if r.governed && d.ApprovalID != r.waiting {
		return notPending()
	}
	return nil
}

// decide counts one decision. Who may decide, and whether it is enough, is settled in
// the row.
func (r *actionRun) decide(ctx workflow.Context, d flow.Decision) (flow.Decided, error) {
	if err := workflow.Await(ctx, func() bool { return r.governed }); err != nil {
		return flow.Decided{}, err
	}
	if err := r.mu.Lock(ctx); err != nil {
		return flow.Decided{}, err
	}
	defer r.mu.Unlock()
	if r.mayDecide(ctx, d) != nil {
		// Another decision, counted while this one stood in line, was the last.
		return flow.Decided{Code: fault.CodeApprovalNotPending, Closed: true}, nil
	}
	out, err := decideRun(ctx, flow.DecisionInput{Run: r.in, Decision: d})
	if err != nil {
		// Whether it was counted is not known here: the row is.
		r.decided.SendAsync(true)
		return flow.Decided{}, err
	}
	if out.Closed && r.waiting == d.ApprovalID {
		// Unless the run was asked about anew while the decision was under way.
		r.waiting = ""
	}
	if out.Code == "" {
		r.decided.SendAsync(true)
	}
	return out, nil
}
