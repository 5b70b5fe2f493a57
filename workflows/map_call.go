package workflows

import (
	"strconv"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/maps/stepmachine"
)

// mapCall is the call of a step, from its claim to its end.
type mapCall struct {
	m   *mapRun
	key string
	ref stepmachine.Ref
	// verb is what is called, "" where that is not known; approval is the one that people have to decide, ""
	// for none.
	verb, approval string
	// seq is the number of the kept call that this is, 0 for a step. undoes says which step it undoes.
	seq    int
	undoes *flow.MapUndoing
	// awake: there may be news of the call.
	awake   bool
	stopped bool
	// held: the call has waited, for people or for a kill switch. onHold is told when it begins to;
	// nil where nobody wants to know.
	held   bool
	onHold func(since time.Time)
	// keptSince is when the first of the records was given to an activity that the call may write.
	keptSince time.Time
	// cancel ends the activity that is under way; nil where it is not to be ended.
	cancel workflow.CancelFunc
}

func compensationKey(c stepmachine.Compensate) string { return "compensate " + strconv.Itoa(c.Seq) }

// stop asks for an early end. What was sent goes on to its end.
func (c *mapCall) stop() {
	c.stopped = true
	c.awake = true
	if c.cancel != nil {
		c.cancel()
	}
}

// startCall makes the call of a step beside the loop. What was done until now is written with the
// claim of its run. event makes the event of the call's end.
func (m *mapRun) startCall(ctx workflow.Context, key string, in flow.MapCall, event func(stepmachine.CallEnd) stepmachine.Event) {
	c := &mapCall{m: m, key: key, ref: in.Call.Ref, verb: in.Call.Verb, seq: in.Compensates}
	m.calls[c.key] = c
	in.Later, c.keptSince = m.mayKeep(ctx)
	in.MapWrites, in.Workflow, in.Tainted, in.Sources = m.takeWrites(ctx), workflow.GetInfo(ctx).WorkflowExecution.ID, m.tainted, m.sources
	m.busy++ // by the first activity of the call
	workflow.Go(ctx, func(ctx workflow.Context) {
		at, err := c.drive(ctx, in)
		if err != nil {
			return // the workflow ends
		}
		m.wrote = m.wrote || mayHaveWritten(at.End)
		m.reads = taint.Add(m.reads, at.ReadsOf(in.Call.Verb)...)
		m.tell(event(at.End))
		if at.End.Status == stepmachine.CallUnknown && in.Compensates == 0 {
			if at, err = c.settle(ctx, at); err != nil {
				return
			}
			m.reads = taint.Add(m.reads, at.ReadsOf(in.Call.Verb)...)
			m.tell(stepmachine.Resolved{CallEnd: at.End})
		}
		delete(m.calls, c.key)
		m.answered(c.key)
	})
}

// mayHaveWritten reports whether the call may have changed something.
func mayHaveWritten(end stepmachine.CallEnd) bool {
	return end.Wrote || end.Status == stepmachine.CallUnknown || end.Status == stepmachine.CallFailed && end.Sent && !end.MayRepeat
}

// drive takes the call to its end. A call that waits for people, or whose provider takes long, is
// not waited for by an activity: the workflow has a timer and listens to signals meanwhile.
func (c *mapCall) drive(ctx workflow.Context, in flow.MapCall) (flow.MapCallEnd, error) {
	var at flow.MapCallEnd
	err := c.m.inTurn(ctx, func() (err error) {
		in.Patience = c.m.patience(ctx)
		at, err = callFromMap(ctx, in, c.verb)
		return err
	})
	if at.Unwritten {
		run := at.Run.RunID
		if in.Tool != nil {
			run = uuid.Nil // its runs are shown with the answers of the model
		}
		c.m.keepWrites(in.MapWrites, c.ref, run, c.keptSince)
	}
	c.m.busy--
	c.undoes = at.Undoes
	waits, off := false, false
	for err == nil && !at.Step.Done {
		c.approval = at.Step.Asked(c.approval)
		if at.Step.SwitchedOff != off && !waits {
			off = at.Step.SwitchedOff
			c.switched(ctx, off)
		}
		if at.Step.ApprovalID != "" && !waits {
			waits = true
			c.hold(ctx)
			c.tellWait(stepmachine.WaitsApproval)
		}
		if !waits || at.HandedOver {
			if err = c.pause(ctx, at, at.HandedOver); err != nil {
				break
			}
		}
		next := flow.MapCallRef{MapRef: c.m.in.MapRef, Run: at.Run, Ref: c.ref, Parent: in.Workflow, HandOver: waits && !at.HandedOver, Look: at.HandedOver}
		c.m.busy++
		err = c.m.inTurn(ctx, func() (err error) {
			next.Patience = c.m.patience(ctx)
			if c.stopped {
				at, err = stopCallOfMap(ctx, next)
			} else {
				at, err = goOnWithCall(ctx, next)
			}
			return err
		})
		c.m.busy--
	}
	return at, err
}

func (c *mapCall) hold(ctx workflow.Context) {
	c.held = true
	if c.onHold != nil {
		c.onHold(workflow.Now(ctx))
	}
}

// switched tells the machine that the call waits for a kill switch to be lifted, or no longer does.
func (c *mapCall) switched(ctx workflow.Context, off bool) {
	if off {
		c.hold(ctx)
		c.tellWait(stepmachine.WaitsKillSwitch)
		return
	}
	c.tellWait("")
}

// tellWait tells the machine what the call waits for; "" for nothing any longer.
func (c *mapCall) tellWait(what stepmachine.Waiting) {
	switch {
	case c.undoes == nil && what == "":
		c.m.tell(stepmachine.CallGoesOn{Ref: c.ref})
	case c.undoes == nil:
		c.m.tell(stepmachine.CallWaits{Ref: c.ref, For: what})
	case what == "":
		c.m.tell(stepmachine.CompensationGoesOn{Seq: c.seq, Attempt: c.ref.Attempt})
	default:
		c.m.tell(stepmachine.CompensationWaits{Seq: c.seq, Attempt: c.ref.Attempt, For: what, Ref: c.undoes.Ref, Call: c.undoes.Call})
	}
}

// lookAfter is how often the workflow looks at a run that another workflow drives. The end of such
// a run may not be signalled, because an operator may have terminated its workflow.
const lookAfter = time.Minute

// pause returns when there may be news of the call. Where the history is the last one, all calls that wait
// for long are looked at once an hour together, but each at half of the time that it has left. The end of a
// run ends the pause, by a signal. That a kill switch was lifted is only seen by looking.
func (c *mapCall) pause(ctx workflow.Context, at flow.MapCallEnd, handedOver bool) error {
	step := at.Step
	after := step.After
	if handedOver {
		after = lookAfter
	}
	if c.m.tooLarge && (handedOver || step.SwitchedOff && after >= lookAfter) {
		// No new history begins, and this one has room for a bounded number of looks.
		rarely := lookAfterMost * time.Duration(len(c.m.calls))
		if step.Left > 0 {
			rarely = min(rarely, step.Left/2)
		}
		after = max(after, rarely)
	}
	if after > 0 {
		summary := flow.WaitSummary(at.Awaits(c.approval), c.verb, c.approval)
		_, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: after, TimerOptions: workflow.TimerOptions{Summary: summary}}, func() bool { return c.awake })
		if err != nil {
			return err
		}
	}
	c.awake = false
	return nil
}

// settle waits until it is known what came of a call whose outcome was not.
func (c *mapCall) settle(ctx workflow.Context, at flow.MapCallEnd) (flow.MapCallEnd, error) {
	var err error
	for err == nil && at.End.Status == stepmachine.CallUnknown {
		if err = c.pause(ctx, at, true); err == nil {
			c.m.busy++
			at, err = goOnWithCall(ctx, flow.MapCallRef{MapRef: c.m.in.MapRef, Run: at.Run, Ref: c.ref, Look: true})
			c.m.busy--
		}
	}
	return at, err
}
