package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// AgentTurn takes one message to an agent to its end: the model answers, the calls that it asks for
// are made, each a governed run, and the model answers again, until it replies to the customer. Where
// a call waits for people, the reply says so and the session is free; when they have decided, the
// message gets its turn in the session again, and another reply. Rows have all that is said; the
// workflow knows only numbers and ends. A message that fails is a result, not an error.
func AgentTurn(ctx workflow.Context, in flow.TurnInput) (flow.TurnResult, error) {
	t := &agentTurn{in: in.TurnRef, asks: in.Asks, shows: in.ShowsHold}
	step := flow.TurnStep{Private: flow.IsPrivate(), TurnRef: in.TurnRef}
	if in.Carried != nil {
		step = *in.Carried
		t.answers, t.actions, t.approval, t.late = step.Answer, step.Actions, step.ApprovalID, step.Late
		t.nudged = true // the history before may not have heard of the last news
	}
	// A cancel in the Temporal UI ends the message as one of the API does.
	stopped := ctx.Done()
	workflow.Go(ctx, func(ctx workflow.Context) {
		stopped.Receive(ctx, nil)
		t.cancel()
	})
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err := t.listen(ctx); err != nil {
		return flow.TurnResult{}, err
	}
	for {
		over, err := t.work(ctx, &step)
		if t.full {
			in.Carried = &step
			return flow.TurnResult{}, workflow.NewContinueAsNewError(ctx, flow.WorkflowAgentTurn, in)
		}
		t.tellParent(ctx, in.Parent)
		if err == nil && !over {
			if over, err = t.awaitPeople(ctx); over {
				t.tellParent(ctx, in.Parent)
			}
		}
		if err != nil || over {
			if err == nil {
				err = t.listEnd(ctx)
			}
			return flow.TurnResult{Answers: int32(t.answers), Actions: int32(t.actions)}, err
		}
		step = flow.TurnStep{Private: flow.IsPrivate(), TurnRef: t.in, Part: step.Part + 1}
	}
}

// agentTurn is a message while its workflow is in memory.
type agentTurn struct {
	in   flow.TurnRef
	asks string
	// shows: the list of workflows shows what the message waits for.
	shows bool
	// answers counts those of the model, actions the calls that were sent.
	answers, actions int
	// calls are those that have not ended; late are the ends of those that had waited for people.
	calls []*agentCall
	late  []flow.TurnLate
	// approval is that of the last call that waits for people.
	approval string
	// ended is the status that the message has ended with; "" where that is not known.
	ended stepmachine.Status
	// nudged: the row has news. cancelled: the message is to end.
	nudged, cancelled bool
	// full: a new history goes on with the next step.
	full bool
	// asking ends the answer that is under way; nil where none is.
	asking workflow.CancelFunc
}

// listen registers what comes from outside.
func (t *agentTurn) listen(ctx workflow.Context) error {
	recheck, ended := workflow.GetSignalChannel(ctx, flow.SignalRecheck), workflow.GetSignalChannel(ctx, flow.SignalRunEnded)
	t.listenToOthers(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			recheck.Receive(ctx, nil)
			t.nudged = true
			for _, c := range t.calls {
				c.awake = c.awake || c.isUnknown() // people may have settled it
			}
		}
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var run flow.RunRef
			ended.Receive(ctx, &run)
			for _, c := range t.calls {
				c.awake = c.awake || c.at.Run.RunID == run.RunID
			}
		}
	})
	return workflow.SetUpdateHandler(ctx, flow.UpdateAdmit, func(workflow.Context) error { return nil })
}

// cancel has the message end soon. Calls that were sent go on to their end.
func (t *agentTurn) cancel() {
	t.cancelled = true
	for _, c := range t.calls {
		c.stop()
	}
	if t.asking != nil {
		t.asking()
	}
}

// isLong reports whether a new history should go on. It can where no call is under way.
func (t *agentTurn) isLong(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return len(t.calls) == 0 && !t.nudged && (info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() >= mostEvents)
}

// work has the model answer, and makes the calls that it asks for, until there is a reply, or a new history
// should go on with the step. over: the message has ended.
func (t *agentTurn) work(ctx workflow.Context, step *flow.TurnStep) (over bool, err error) {
	for {
		if err := t.look(ctx); err != nil {
			return false, err
		}
		step.Late, t.late = t.late, nil // a call may have ended during the look
		step.Answer, step.Actions, step.Open, step.ApprovalID = t.answers, t.actions, len(t.calls), t.approval
		step.Running, step.Unsettled = t.running(), t.unsettled()
		if t.cancelled {
			return true, t.end(ctx, *step)
		}
		if t.full = t.isLong(ctx); t.full {
			return false, nil
		}
		next, err := t.answer(ctx, *step)
		switch {
		case t.cancelled && (err != nil || !next.Replied):
			return true, t.end(ctx, *step)
		case err != nil:
			return false, err
		}
		t.answers, t.ended = next.Answers, next.Status
		if next.Over && !next.Replied {
			return true, t.end(ctx, *step) // a person has taken over
		}
		if next.Replied {
			return next.Over, nil
		}
		if step.Ends, err = t.call(ctx, next); err != nil {
			return false, err
		}
	}
}

// answer has the model answer once. It can be cancelled.
func (t *agentTurn) answer(ctx workflow.Context, step flow.TurnStep) (flow.TurnNext, error) {
	asking, stop := workflow.WithCancel(ctx)
	t.asking = stop
	answered := answerTurn(asking, step, t.asks)
	for {
		err := workflow.Await(ctx, func() bool { return answered.IsReady() || t.nudged })
		if err == nil && !answered.IsReady() {
			err = t.look(ctx)
		}
		if err != nil {
			return flow.TurnNext{}, err
		}
		if answered.IsReady() {
			break
		}
	}
	t.asking = nil
	stop()
	var next flow.TurnNext
	err := answered.Get(ctx, &next)
	return next, err
}

// look reads what others want of the message, where there is news of it.
func (t *agentTurn) look(ctx workflow.Context) error {
	if !t.nudged {
		return nil
	}
	t.nudged = false
	news, err := lookAtTurn(ctx, t.in)
	if err == nil && (news.Cancel || news.Over) {
		t.cancel()
	}
	return err
}

// end ends the message without a further answer. unheard has what the model was to hear before it.
func (t *agentTurn) end(ctx workflow.Context, unheard flow.TurnStep) error {
	t.cancel()
	if err := workflow.Await(ctx, func() bool { return len(t.calls) == 0 }); err != nil {
		return err
	}
	news, err := endTurn(ctx, flow.TurnEnd{
		Private: flow.IsPrivate(), TurnRef: t.in, Reason: flow.TurnCancelled, Actions: t.actions,
		Answer: unheard.Answer, Ends: unheard.Ends, Late: append(unheard.Late, t.late...),
	})
	t.ended = news.Status
	return err
}

// awaitPeople waits until all calls that wait for people have ended, and then until it is the
// message's turn in its session. over: it has ended meanwhile.
func (t *agentTurn) awaitPeople(ctx workflow.Context) (over bool, err error) {
	defer workflow.SetCurrentDetails(ctx, "")
	for len(t.calls) > 0 && !t.cancelled {
		held := t.waitsFor()
		if err := t.showHold(ctx, held); err != nil {
			return false, err
		}
		news := func() bool {
			return t.nudged || t.cancelled || len(t.calls) == 0 || !slices.Equal(held, t.waitsFor())
		}
		if err := workflow.Await(ctx, news); err != nil {
			return false, err
		}
		if err := t.look(ctx); err != nil {
			return false, err
		}
	}
	if t.cancelled {
		return true, t.end(ctx, flow.TurnStep{})
	}
	news, err := resumeTurn(ctx, t.in)
	// A person who has taken over may keep the session for days.
	for pause := lookAfter; err == nil && !news.Over && !news.Working && !news.Cancel; pause = min(2*pause, lookMost) {
		if _, err = workflow.AwaitWithTimeout(ctx, pause, func() bool { return t.nudged || t.cancelled }); err == nil {
			t.nudged = false
			news, err = lookAtTurn(ctx, t.in)
		}
		if t.cancelled {
			break
		}
	}
	if err == nil && (news.Cancel || t.cancelled) {
		return true, t.end(ctx, flow.TurnStep{})
	}
	if t.ended = news.Status; err == nil && !news.Over {
		err = t.listRunning(ctx)
	}
	return news.Over, err
}

// waitsFor returns the calls that wait for people: to decide, or to find out what came of them.
func (t *agentTurn) waitsFor() (held []flow.HeldCall) {
	for _, c := range t.calls {
		if awaits := c.awaits(); awaits == stepmachine.WaitsApproval || awaits == stepmachine.WaitsResolve {
			held = append(held, flow.HeldCall{Verb: c.tool.Verb, ApprovalID: c.approval, Execution: c.execution()})
		}
	}
	return held
}

// showHold has operators read what the message waits for, and find it in Temporal's list by that.
func (t *agentTurn) showHold(ctx workflow.Context, held []flow.HeldCall) error {
	if len(held) == 0 { // nobody has to do anything
		workflow.SetCurrentDetails(ctx, "")
		return t.listRunning(ctx)
	}
	workflow.SetCurrentDetails(ctx, flow.TurnDetails(held))
	if !t.shows {
		return nil
	}
	listed, named := workflow.GetTypedSearchAttributes(ctx), temporal.NewSearchAttributeKeyKeyword(string(flow.AttributeVerb))
	state, _ := listed.GetKeyword(stateKey())
	was, _ := listed.GetKeyword(named)
	verb := held[0].Verb
	switch {
	case state == string(flow.StatePending) && was == verb:
		return nil
	case verb == was:
		return listState(ctx, string(flow.StatePending))
	case verb == "": // an execution that the message has started waits
		return workflow.UpsertTypedSearchAttributes(ctx, stateKey().ValueSet(string(flow.StatePending)), named.ValueUnset())
	default:
		return workflow.UpsertTypedSearchAttributes(ctx, stateKey().ValueSet(string(flow.StatePending)), named.ValueSet(verb))
	}
}

// listRunning has the list show that the message no longer waits for people, where it showed that.
func (t *agentTurn) listRunning(ctx workflow.Context) error {
	was, listed := workflow.GetTypedSearchAttributes(ctx).GetKeyword(stateKey())
	if !t.shows || !listed || was == string(stepmachine.StatusRunning) {
		return nil
	}
	return listState(ctx, string(stepmachine.StatusRunning))
}

// listEnd has the list show how the message ended.
func (t *agentTurn) listEnd(ctx workflow.Context) error {
	end := stepmachine.StatusCompleted
	if t.cancelled {
		end = stepmachine.StatusCancelled
	}
	if !t.shows {
		return nil
	}
	return listEnd(ctx, cmp.Or(t.ended, end))
}

// call makes the calls that an answer asks for: those that change nothing at once, those that write
// to one provider one after the other. It returns when each has ended or waits for people.
func (t *agentTurn) call(ctx workflow.Context, next flow.TurnNext) ([]flow.MapToolEnd, error) {
	c := &agentCalls{t: t, deadline: next.Deadline, places: workflow.NewSemaphore(ctx, int64(max(1, next.Parallel)))}
	for _, lane := range lanes(next.Calls) {
		c.open++
		workflow.Go(ctx, func(ctx workflow.Context) {
			c.makeLane(ctx, lane)
			c.open--
		})
	}
	ended := func() bool { return c.open == 0 || t.nudged }
	err := t.look(ctx)
	for err == nil && c.open > 0 {
		if c.stopped {
			err = workflow.Await(ctx, ended)
		} else if inTime, failed := workflow.AwaitWithTimeout(ctx, max(next.Deadline.Sub(workflow.Now(ctx)), time.Second), ended); failed != nil {
			err = failed
		} else if !inTime {
			c.stopped = true
			t.stopCalls() // what was not sent is not sent any more
		}
		if err == nil {
			err = t.look(ctx)
		}
	}
	if err == nil {
		err = c.failed
	}
	return c.ends, err
}

// stopCalls asks the calls that do not wait for people for an early end.
func (t *agentTurn) stopCalls() {
	for _, c := range t.calls {
		switch {
		case c.held:
		case c.tool.Kind == flow.KindMap:
			c.patience, c.awake = 0, true // it goes on in the background
		default:
			c.stop()
		}
	}
}

// agentCalls are the calls of one answer.
type agentCalls struct {
	t        *agentTurn
	deadline time.Time
	places   workflow.Semaphore
	ends     []flow.MapToolEnd
	// open counts the lanes that are under way. failed is why the workflow ends.
	open   int
	failed error
	// stopped: the agent's time is over.
	stopped bool
}

// makeLane makes calls one after the other. Those after one that waits for people are not made, and
// neither are those that have not begun when the message is cancelled or its time is over.
func (c *agentCalls) makeLane(ctx workflow.Context, lane []flow.TurnTool) {
	waits := false
	for _, tool := range lane {
		if waits {
			c.ends = append(c.ends, notMade(tool, "an earlier call to the same provider waits for a person"))
			continue
		}
		if err := c.places.Acquire(ctx, 1); err != nil {
			c.failed = err
			return
		}
		if c.stopped || c.t.cancelled {
			c.places.Release(1)
			c.ends = append(c.ends, notMade(tool, "the message was cancelled, or its time was over"))
			continue
		}
		one := c.t.begin(ctx, tool, c.deadline)
		err := workflow.Await(ctx, func() bool { return one.done || one.held })
		c.places.Release(1)
		if err != nil || one.failed != nil {
			c.failed = cmp.Or(err, one.failed)
			return
		}
		waits = !one.done
		c.ends = append(c.ends, one.end())
	}
}

// lanes divides calls into those that are made one after the other.
func lanes(calls []flow.TurnTool) (list [][]flow.TurnTool) {
	at := map[string]int{}
	for _, c := range calls {
		i, known := at[c.Lane]
		if c.Lane == "" || !known {
			i = len(list)
			list = append(list, nil)
			at[c.Lane] = i
		}
		list[i] = append(list[i], c)
	}
	return list
}
