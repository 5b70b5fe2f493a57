package workflows

import (
	"cmp"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// agentCall is a call that an agent has asked for, from its claim to its end.
type agentCall struct {
	t      *agentTurn
	answer int
	tool   flow.TurnTool
	at     flow.MapCallEnd
	// held: people have to decide, and the agent does not wait for them. told: the agent was told so.
	held, told bool
	done       bool
	failed     error
	// awake: there may be news of the call. stopped: it is to end soon.
	awake, stopped bool
	// patience is how long the agent waits for an execution that the call has started, tainted what it
	// is told of that, and people whether it waits for people.
	patience time.Duration
	// approval is the one that people have to decide; "" for none.
	approval        string
	tainted, people bool
	sources         []string
}

// stop asks for an early end. What was sent goes on to its end.
func (c *agentCall) stop() { c.stopped, c.awake = true, true }

// begin makes a call beside the conversation.
func (t *agentTurn) begin(ctx workflow.Context, tool flow.TurnTool, deadline time.Time) *agentCall {
	c := &agentCall{t: t, answer: t.answers - 1, tool: tool}
	t.calls = append(t.calls, c)
	workflow.Go(ctx, func(ctx workflow.Context) {
		c.failed = c.driveAny(ctx, deadline)
		c.done = true
		t.countActions(c.at.End)
		if c.told {
			t.late = append(t.late, flow.TurnLate{Answer: c.answer, MapToolEnd: c.end()})
		}
		t.forget(c)
	})
	return c
}

// countActions counts what was sent for a call.
func (t *agentTurn) countActions(end stepmachine.CallEnd) {
	if end.Sent {
		t.actions++
	}
	t.actions += end.Actions
}

func (t *agentTurn) forget(c *agentCall) {
	for i := range t.calls {
		if t.calls[i] == c {
			t.calls = append(t.calls[:i:i], t.calls[i+1:]...)
			return
		}
	}
}

// drive takes the call to its end. One that waits for people is handed to a workflow of its own.
func (c *agentCall) drive(ctx workflow.Context, deadline time.Time) (err error) {
	self := workflow.GetInfo(ctx).WorkflowExecution.ID
	ref := func() flow.MapCallRef {
		return flow.MapCallRef{MapRef: flow.MapRef{TenantID: c.t.in.TenantID}, Run: c.at.Run, Parent: self, Look: c.at.HandedOver}
	}
	call := flow.TurnCall{TurnRef: c.t.in, Answer: c.answer, Number: int(c.tool.Number), Workflow: self, Deadline: deadline}
	c.at, err = callFromTurn(ctx, call, c.tool.Verb)
	pauses := time.Duration(0)
	for err == nil && !c.at.Step.Done {
		handOver := c.at.Step.ApprovalID != "" && !c.at.HandedOver
		c.approval = c.at.Step.Asked(c.approval)
		switch {
		case handOver:
			c.t.approval = c.approval
		case c.at.HandedOver:
			c.held = true
			pauses = min(max(2*pauses, lookAfter), lookMost)
			err = c.pause(ctx, pauses)
		default:
			err = c.pause(ctx, c.at.Step.After)
		}
		if err != nil {
			return err
		}
		next := ref()
		next.HandOver, next.Turn, next.SwitchedOff = handOver, &c.t.in, c.at.Step.SwitchedOff
		if c.at.Followed {
			next.Followed = &call
		}
		if c.stopped {
			c.at, err = stopCallOfMap(ctx, next)
		} else {
			c.at, err = goOnWithCall(ctx, next)
		}
	}
	if err == nil && c.isUnknown() && !c.stopped {
		return c.settle(ctx, ref())
	}
	return err
}

// isUnknown reports whether the call was sent, and nobody knows what came of it.
func (c *agentCall) isUnknown() bool { return c.at.End.Status == stepmachine.CallUnknown }

// settle waits until people have found out what came of the call. The agent does not wait for them: it is
// told that the outcome is unknown, and hears the end as that of a call that was approved.
func (c *agentCall) settle(ctx workflow.Context, ref flow.MapCallRef) (err error) {
	c.held, c.approval = true, ""
	c.t.countActions(c.at.End) // the message says before its end what was sent
	ref.Look = true
	for pauses := time.Duration(0); err == nil && c.isUnknown() && !c.stopped; {
		pauses = min(max(2*pauses, lookAfter), settleMost)
		if err = c.pause(ctx, pauses); err == nil && !c.stopped {
			c.at, err = goOnWithCall(ctx, ref)
		}
	}
	c.at.End.Sent = false // it is counted
	return err
}

// settleMost is the longest pause between two looks at a call of unknown outcome. Nothing ends this wait but
// people, and a history has room for a bounded number of looks.
const settleMost = 24 * time.Hour

// lookMost is the longest pause between two looks at a run that waits for people. Its workflow
// signals the end; a look makes up for a signal that is lost.
const lookMost = time.Hour

// awaits returns what the call waits for; "" for its provider.
func (c *agentCall) awaits() stepmachine.Waiting {
	switch {
	case c.tool.Kind == "":
		return c.at.Awaits(c.approval)
	case c.approval != "":
		return stepmachine.WaitsApproval
	case c.people:
		return stepmachine.WaitsResolve
	default:
		return stepmachine.WaitsMap
	}
}

// execution returns the id of the call's run, or of what the call has started; "" where there is none yet.
func (c *agentCall) execution() string {
	if c.at.Run.RunID == uuid.Nil {
		return ""
	}
	return flow.ExecutionID(c.at.Run.RunID)
}

// pause returns when there may be news of the call.
func (c *agentCall) pause(ctx workflow.Context, after time.Duration) error {
	if after > 0 {
		summary := flow.WaitSummary(c.awaits(), cmp.Or(c.tool.Verb, c.execution()), c.approval)
		_, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: after, TimerOptions: workflow.TimerOptions{Summary: summary}}, func() bool { return c.awake })
		if err != nil {
			return err
		}
	}
	c.awake = false
	return nil
}

// end returns how the call has ended for the agent, or that it waits.
func (c *agentCall) end() flow.MapToolEnd {
	end := flow.MapToolEnd{
		Private: flow.IsPrivate(), Number: int(c.tool.Number), Status: c.at.End.Status, Run: c.at.Run.RunID, Error: c.at.End.Error, Kind: c.tool.Kind, Tainted: c.tainted,
		Weighed: c.at.Weighed, Sources: c.at.Reads,
	}
	if c.tool.Kind != "" {
		end.Sources = c.sources
	}
	switch {
	case c.done:
	case c.tool.Kind == "" && c.isUnknown():
		c.told, end.Open = true, true
	case c.tool.Kind != "" && !c.people:
		c.told, end.Status = true, flow.CallRunning
	default:
		c.told, end.Status = true, flow.CallPending
	}
	return end
}

// notMade is the end of a call that was not begun.
func notMade(tool flow.TurnTool, why string) flow.MapToolEnd {
	return flow.MapToolEnd{
		Private: flow.IsPrivate(), Number: int(tool.Number), Status: stepmachine.CallFailed,
		Error: stepmachine.NewError(flow.CodeNotMade, why),
	}
}
