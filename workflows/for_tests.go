//go:build chaos

package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
)

// mostEvents is after how many events of its history a Map or a message continues in a new one:
// so few that each of the crash rig does, in the middle of its steps.
const mostEvents = 40

// InlineSteps makes its calls one after the other, each as a run that this workflow claims
// and drives by the activities of ActionRun. A run that waits for approval is handed to an
// ActionRun workflow of its own. It exists only in the builds of the crash rig.
func InlineSteps(ctx workflow.Context, in flow.InlineSteps) ([]flow.State, error) {
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	ended := workflow.GetSignalChannel(ctx, flow.SignalRunEnded)
	var states []flow.State
	for i, call := range in.Calls {
		step := flow.InlineStep{TenantID: in.TenantID, KeyID: in.KeyID, WorkflowID: id, Index: i, Call: call}
		ref, err := callLocal(ctx, flow.ClaimRun, stepOptions(), step)
		if err != nil {
			return nil, err
		}
		last, err := drive(ctx, &inlineRun{ref: ref, id: id, ended: ended})
		if err != nil {
			return nil, err
		}
		states = append(states, last.State)
	}
	return states, nil
}

// inlineRun is a run that its caller's workflow drives.
type inlineRun struct {
	ref   flow.RunRef
	id    string
	ended workflow.ReceiveChannel
}

func (r *inlineRun) govern(ctx workflow.Context) (flow.Step, error) { return governRun(ctx, r.ref) }

func (r *inlineRun) send(ctx workflow.Context) (flow.Step, error) { return sendRun(ctx, r.ref) }

// lookEvery is how often the workflow reads a run that it handed over. Its end may not be
// signalled, because an operator may have terminated its workflow.
const lookEvery = time.Minute

// wait hands the run over and returns when it has ended.
func (r *inlineRun) wait(ctx workflow.Context, _ flow.Step) (flow.Step, error) {
	step, err := callLocal(ctx, flow.HandOverRun, stepOptions(), flow.HandOver{RunRef: r.ref, Parent: r.id})
	for err == nil && !step.Done {
		timing, stop := workflow.WithCancel(ctx)
		workflow.NewSelector(ctx).
			AddFuture(workflow.NewTimer(timing, lookEvery), func(workflow.Future) {}).
			AddReceive(r.ended, func(c workflow.ReceiveChannel, _ bool) { drain(c) }).
			Select(ctx)
		stop()
		step, err = callLocal(ctx, flow.LookAtRun, stepOptions(), r.ref)
	}
	return step, err
}
