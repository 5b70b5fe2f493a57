package workflows

import (
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// otherPatience is how long an agent waits for an execution that it has started. One that lasts longer
// goes on in the background, and its end is another reply.
const otherPatience = 10 * time.Second

// otherEnds is how long a message that is cancelled waits for the end of what it has started. That is
// cancelled too, and may have to undo things first.
const otherEnds = 30 * time.Second

// listenToOthers registers what comes from executions that the message has started.
func (t *agentTurn) listenToOthers(ctx workflow.Context) {
	ended := workflow.GetSignalChannel(ctx, flow.SignalMapEnded)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var other uuid.UUID
			ended.Receive(ctx, &other)
			for _, c := range t.calls {
				c.awake = c.awake || c.at.Run.RunID == other
			}
		}
	})
}

// tellParent tells the execution that has asked for this message how far it is. One that is lost is made
// up for, because that looks now and then.
func (t *agentTurn) tellParent(ctx workflow.Context, parent string) {
	if parent == "" {
		return
	}
	if err := signalParent(ctx, parent, flow.SignalMapEnded, t.in.ID); err != nil {
		workflow.GetLogger(ctx).Warn("the caller was not told", "error", err)
	}
}

// running counts the calls that have not ended and wait for no person.
func (t *agentTurn) running() (n int) {
	for _, c := range t.calls {
		if c.tool.Kind != "" && !c.people {
			n++
		}
	}
	return n
}

// unsettled counts the calls of unknown outcome, which wait for people and for no approval.
func (t *agentTurn) unsettled() (n int) {
	for _, c := range t.calls {
		if c.held && c.tool.Kind == "" && c.isUnknown() {
			n++
		}
	}
	return n
}

// driveAny takes the call to its end, whatever it is.
func (c *agentCall) driveAny(ctx workflow.Context, deadline time.Time) error {
	if c.tool.Kind == "" {
		return c.drive(ctx, deadline)
	}
	c.patience = otherPatience
	if c.tool.Kind == flow.KindMessage || c.tool.Patient {
		c.patience = max(deadline.Sub(workflow.Now(ctx)), time.Second) // its time is part of the agent's
	}
	return c.driveOther(ctx, deadline)
}

// driveOther starts another execution and waits for its end. Its workflow signals each change; a
// signal that is lost is made up for by looking now and then. What outlasts the patience of the agent,
// or waits, is held: the agent goes on without.
func (c *agentCall) driveOther(ctx workflow.Context, deadline time.Time) error {
	began, pauses := workflow.Now(ctx), lookAfter
	call := flow.TurnCall{
		TurnRef: c.t.in, Answer: c.answer, Number: int(c.tool.Number), Workflow: workflow.GetInfo(ctx).WorkflowExecution.ID, Deadline: deadline,
	}
	at, err := startFromTurn(ctx, call)
	c.note(at)
	ref := flow.TurnOtherRef{TurnRef: c.t.in, Kind: c.tool.Kind, Other: at.Other, Answered: at.Answered}
	if at.Followed {
		ref.Followed = &call
	}
	for err == nil && !at.Done {
		left := c.patience - workflow.Now(ctx).Sub(began)
		switch {
		case c.stopped && !ref.Stop:
			ref.Stop, began, c.awake = true, workflow.Now(ctx), true
			c.patience, left = otherEnds, otherEnds
		case ref.Stop && left <= 0:
			c.at.End.Status = stepmachine.CallCancelled // it ends by itself
			return nil
		case at.Rests || left <= 0:
			c.held = true
		}
		if c.held && !ref.Stop {
			err = c.pause(ctx, pauses)
			pauses = min(2*pauses, lookMost)
		} else {
			err = c.pause(ctx, min(left, lookAfter))
		}
		if err != nil {
			return err
		}
		at, err = lookFromTurn(ctx, ref)
		c.note(at)
	}
	return err
}

// note keeps how far the other execution is.
func (c *agentCall) note(at flow.TurnOther) {
	c.at.Run.RunID, c.at.End, c.tainted, c.sources = at.Other, at.End, at.Tainted, at.Sources
	c.people, c.approval = at.ApprovalID != "" || at.People, at.ApprovalID
	if at.ApprovalID != "" {
		c.t.approval = at.ApprovalID
	}
}
