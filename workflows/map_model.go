package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// mapModel is a step that a model does: answer by answer, with the calls that an agent asks for in
// between. Rows have what the model reads and writes; the workflow knows how many answers there
// were, and how the calls have ended.
type mapModel struct {
	*mapCall

	// start is the command, which a new history takes up as it is then.
	start stepmachine.StartModel
	turn  int
	end   stepmachine.CallEnd // what the calls have done so far
}

// startModel has a model do a step beside the loop. What was done until now is written first, with
// what the model is to do.
func (m *mapRun) startModel(ctx workflow.Context, c stepmachine.StartModel) {
	key := c.Ref.String()
	m.keep(key, c)
	if m.full {
		return
	}
	s := &mapModel{mapCall: &mapCall{m: m, key: key, ref: c.Ref}, start: c, end: stepmachine.CallEnd{Ref: c.Ref, MayRepeat: true}}
	s.onHold = s.heldSince
	m.calls[key], m.models[key] = s.mapCall, s
	m.written = append(m.written, c)
	writes := m.takeWrites(ctx)
	m.busy++ // by the write
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := s.drive(ctx, writes); err != nil {
			return // the workflow ends
		}
		m.wrote = m.wrote || mayHaveWritten(s.end)
		m.tell(stepmachine.ModelEnded{CallEnd: s.end})
		delete(m.calls, key)
		delete(m.models, key)
		m.answered(key)
	})
}

// drive sets the end of the step.
func (s *mapModel) drive(ctx workflow.Context, writes flow.MapWrites) error {
	news, err := writeMap(ctx, writes)
	s.m.busy--
	if err != nil {
		return err
	}
	s.m.heed(news)
	in := flow.MapModelCall{Private: flow.IsPrivate(), MapRef: s.m.in.MapRef, Ref: s.ref}
	for ; ; in.Turn++ {
		turn, done, err := s.ask(ctx, in)
		if err != nil || done {
			return err
		}
		in.Input = nil
		if turn.Waits != "" {
			in.Ends = nil
			if err := s.awaitInput(ctx, turn.Waits); err != nil || s.end.Status != "" {
				return err
			}
			in.Input, s.start.Given = s.start.Given, nil
			s.m.keep(s.key, s.start)
			continue
		}
		if in.Ends, done, err = s.call(ctx, in.Turn, turn); err != nil || done {
			return err
		}
	}
}

// ask has the model answer once. done: the step has ended.
func (s *mapModel) ask(ctx workflow.Context, in flow.MapModelCall) (turn flow.MapModelTurn, done bool, err error) {
	if s.stopped {
		s.ended(stepmachine.CallCancelled, nil)
		return turn, true, nil
	}
	s.turn, in.Reads = in.Turn, s.m.reads
	left := s.left(ctx)
	if left <= 0 {
		s.ended(stepmachine.CallFailed, stepmachine.NewError(mapdef.CodeStepTimeout, "the model has not come to an end in time"))
		return turn, true, nil
	}
	asking, stop := workflow.WithCancel(ctx)
	s.cancel = stop
	s.m.busy++
	turn, err = askModel(asking, in, left)
	s.m.busy--
	s.cancel = nil
	stop()
	s.m.tainted, s.m.sources = s.m.tainted || turn.Tainted, taint.Add(s.m.sources, turn.Sources...)
	switch {
	case err != nil && ctx.Err() != nil:
		return turn, true, err
	case err != nil && s.stopped:
		s.ended(stepmachine.CallCancelled, nil)
		return turn, true, nil
	case temporal.IsCanceledError(err):
		return turn, true, err
	case err != nil:
		// A fault of ours is made again until the time is over, so it is the time that has ended.
		s.ended(stepmachine.CallFailed, stepmachine.NewError(mapdef.CodeStepTimeout, "no worker got an answer of the model in time"))
		return turn, true, nil //nolint:nilerr // it is the end of the step
	case turn.Done:
		s.end.Result = turn.End.Result
		s.ended(turn.End.Status, turn.End.Error)
		return turn, true, nil
	}
	return turn, false, nil
}

// heldSince notes that a call has begun to wait. The time until its turn is over does not count
// against the deadline, also where another history begins meanwhile.
func (s *mapModel) heldSince(since time.Time) {
	if s.start.HeldSince.IsZero() {
		s.start.HeldSince, s.start.HeldTurn = since, s.turn
		s.m.keep(s.key, s.start)
	}
}

// left returns how much time the step has for the next answer.
func (s *mapModel) left(ctx workflow.Context) time.Duration {
	now := workflow.Now(ctx)
	if since := s.start.HeldSince; !since.IsZero() {
		if s.turn <= s.start.HeldTurn {
			return s.start.Deadline.Sub(since) // the answer is there: a new history reads it again
		}
		s.start.Deadline, s.start.HeldSince, s.start.HeldTurn = s.start.Deadline.Add(now.Sub(since)), time.Time{}, 0
		s.m.keep(s.key, s.start)
		s.m.tell(stepmachine.CallGoesOn{Ref: s.ref})
	}
	return s.start.Deadline.Sub(now)
}

// deadline is until when a call may be sent. What has passed since an earlier call of the same answer has
// begun to wait does not count.
func (s *mapModel) deadline(ctx workflow.Context) time.Time {
	if since := s.start.HeldSince; !since.IsZero() {
		return s.start.Deadline.Add(workflow.Now(ctx).Sub(since))
	}
	return s.start.Deadline
}

// awaitInput waits until there is an answer to the question of the last turn. Where the step is to stop,
// or nobody answers in time, it sets the end of the step. The wait does not count against the deadline.
func (s *mapModel) awaitInput(ctx workflow.Context, waits stepmachine.Waiting) error {
	inTime, answered := true, func() bool { return s.start.Given != nil || s.stopped }
	if !answered() {
		s.hold(ctx)
		asks := stepmachine.CallWaits{Ref: s.ref, For: waits, Ask: s.turn + 1}
		asks.Until = s.start.HeldSince.Add(mapdef.AnswerTime.Std())
		s.m.tell(asks)
		var err error
		inTime, err = workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
			Timeout: max(asks.Until.Sub(workflow.Now(ctx)), time.Second), TimerOptions: workflow.TimerOptions{Summary: flow.AnswerSummary},
		}, answered)
		if err != nil {
			return err
		}
	}
	switch {
	case s.stopped:
		s.ended(stepmachine.CallCancelled, nil)
	case !inTime:
		s.ended(stepmachine.CallFailed, stepmachine.NewError(mapdef.CodeWaitTimeout, "nobody has answered the manager within seven days"))
	}
	return nil
}

// takeInput keeps what a signal has brought for the step that waits for it.
func (m *mapRun) takeInput(c stepmachine.TakeInput) {
	key := c.Ref.String()
	if s := m.models[key]; s != nil {
		s.start.Given = &c.Data
	}
	if start, is := m.open[key].(stepmachine.StartModel); is {
		start.Given = &c.Data
		m.keep(key, start)
	}
}

// ended notes how the step has ended.
func (s *mapModel) ended(status stepmachine.CallStatus, failed *stepmachine.Error) {
	s.end.Status, s.end.Error = status, failed
}

// call makes the calls that an answer asks for, one after the other. Each is a governed run. done:
// the step has ended.
func (s *mapModel) call(ctx workflow.Context, turn int, asks flow.MapModelTurn) (ends []flow.MapToolEnd, done bool, err error) {
	for i, number := range asks.Calls {
		if s.verb = ""; i < len(asks.Verbs) {
			s.verb = asks.Verbs[i]
		}
		switch {
		case s.stopped:
			s.ended(stepmachine.CallCancelled, nil)
			return nil, true, nil
		case s.start.ActionsLeft != nil && s.end.Actions >= *s.start.ActionsLeft:
			s.ended(stepmachine.CallFailed, stepmachine.NewError(mapdef.CodeActionsLimit, "a call of the agent would be more than limits.max_actions allows"))
			return nil, true, nil
		}
		at, err := s.callTool(ctx, flow.MapTool{Turn: turn, Number: number})
		if err != nil {
			return nil, true, err
		}
		end := flow.MapToolEnd{Private: flow.IsPrivate(), Number: number, Status: at.End.Status, Run: at.Run.RunID, Error: at.End.Error, Weighed: at.Weighed, Sources: at.Reads}
		ends = append(ends, end)
		if at.End.Status == stepmachine.CallUnknown {
			s.ended(stepmachine.CallUnknown, at.End.Error)
			return nil, true, nil
		}
	}
	return ends, false, nil
}

// callTool makes one call and waits for its end.
func (s *mapModel) callTool(ctx workflow.Context, tool flow.MapTool) (flow.MapCallEnd, error) {
	in := flow.MapCall{
		MapWrites: s.m.takeWrites(ctx), Call: stepmachine.StartVerb{Ref: s.ref, Deadline: s.deadline(ctx), DryRun: s.start.DryRun},
		Workflow: workflow.GetInfo(ctx).WorkflowExecution.ID, Tool: &tool, Tainted: s.m.tainted, Sources: s.m.sources,
	}
	s.held = false
	s.m.busy++ // by the first activity of the call
	at, err := s.mapCall.drive(ctx, in)
	if err == nil && at.End.Status == stepmachine.CallUnknown {
		at, err = s.resolved(ctx, at)
	}
	if err != nil {
		return at, err
	}
	if s.held {
		s.m.tell(stepmachine.CallGoesOn{Ref: s.ref})
	}
	if at.End.Sent {
		s.end.Actions++
	}
	if mayHaveWritten(at.End) {
		s.end.Wrote, s.end.MayRepeat = true, false
	}
	return at, nil
}

// resolved waits until people have found out what came of a call, or the step is given up.
func (s *mapModel) resolved(ctx workflow.Context, at flow.MapCallEnd) (flow.MapCallEnd, error) {
	s.hold(ctx)
	s.m.tell(stepmachine.CallWaits{Ref: s.ref, For: stepmachine.WaitsResolve})
	sent := at.End.Sent // false where it waits for an equal call, which counts where it was made
	var err error
	for err == nil && at.End.Status == stepmachine.CallUnknown && !s.stopped {
		if err = s.pause(ctx, at, true); err == nil {
			s.m.busy++
			at, err = goOnWithCall(ctx, flow.MapCallRef{MapRef: s.m.in.MapRef, Run: at.Run, Ref: s.ref, Look: true})
			s.m.busy--
		}
	}
	at.End.Sent = sent
	return at, err
}
