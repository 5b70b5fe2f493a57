package workflows

import (
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// obey has the machine's commands done, in their order.
func (m *mapRun) obey(ctx workflow.Context, commands []stepmachine.Command) {
	for _, command := range commands {
		switch c := command.(type) {
		case stepmachine.StartVerb:
			m.startStep(ctx, c)
		case stepmachine.StartModel:
			m.startModel(ctx, c)
		case stepmachine.TakeInput:
			m.takeInput(c)
		case stepmachine.StartMap:
			m.startMap(ctx, c)
		case stepmachine.Compensate:
			m.compensate(ctx, c)
		case stepmachine.Evaluate:
			m.evaluate(ctx, c)
		case stepmachine.StartTimer:
			m.keep(timerKey(c.Ref, c.Timer), c)
			m.startTimer(ctx, c)
		case stepmachine.CancelTimer:
			m.answered(timerKey(c.Ref, c.Timer))
			m.cancelTimer(c)
		case stepmachine.AwaitEvent:
			m.await(c)
		case stepmachine.StopAwaiting:
			m.stopAwaiting(ctx, c)
		case stepmachine.StopCall:
			m.stopCall(c)
		case stepmachine.AskApproval:
			m.ask(ctx, c)
		case stepmachine.CloseApproval:
			m.closeAsk(ctx, c)
		case stepmachine.Continue:
			m.begun++
			m.tell(stepmachine.Continued{})
		case stepmachine.Finish:
			m.finish = &c
		default:
			// What is only written goes with the next activity that writes.
			m.written = append(m.written, command)
		}
	}
}

// keep notes that the command has no answer yet, so that a new history takes it up again.
func (m *mapRun) keep(key string, c stepmachine.Command) {
	if _, known := m.open[key]; !known {
		m.keys = append(m.keys, key)
	}
	m.open[key] = c
}

// answered notes that the command has its answer.
func (m *mapRun) answered(key string) {
	delete(m.open, key)
	m.keys = slices.DeleteFunc(m.keys, func(other string) bool { return other == key })
}

func timerKey(ref stepmachine.Ref, timer stepmachine.Timer) string {
	return "timer " + ref.String() + " " + string(timer)
}

// startTimer tells the machine when the time has come.
func (m *mapRun) startTimer(ctx workflow.Context, c stepmachine.StartTimer) {
	key := timerKey(c.Ref, c.Timer)
	timing, stop := workflow.WithCancel(ctx)
	m.timers[key] = stop
	workflow.Go(timing, func(timing workflow.Context) {
		summary := flow.MapTimerSummary(c)
		timer := workflow.NewTimerWithOptions(timing, max(c.At.Sub(workflow.Now(timing)), time.Millisecond), workflow.TimerOptions{Summary: summary})
		if timer.Get(timing, nil) != nil {
			return // cancelled
		}
		m.answered(key)
		delete(m.timers, key)
		m.tell(stepmachine.TimerFired{Ref: c.Ref, Timer: c.Timer})
	})
}

func (m *mapRun) cancelTimer(c stepmachine.CancelTimer) {
	key := timerKey(c.Ref, c.Timer)
	if stop := m.timers[key]; stop != nil {
		stop()
		delete(m.timers, key)
	}
}

// evaluate has an expression evaluated outside of the workflow.
func (m *mapRun) evaluate(ctx workflow.Context, c stepmachine.Evaluate) {
	key := "evaluate " + strconv.Itoa(c.Number)
	m.keep(key, c)
	if m.full {
		return
	}
	m.busy++
	ctx, m.evaluations[key] = workflow.WithCancel(ctx)
	in := flow.MapEvaluation{MapRef: m.in.MapRef, Ask: c, Unwritten: slices.Clone(m.written)}
	workflow.Go(ctx, func(ctx workflow.Context) {
		evaluated, left, err := m.evaluated(ctx, in)
		m.busy--
		delete(m.evaluations, key)
		if err != nil && !temporal.IsCanceledError(err) || left {
			return // the workflow ends, or goes on in a new history
		}
		m.answered(key)
		if err == nil && evaluated.Later == 0 {
			m.tell(evaluated.Evaluated)
		}
	})
}

// dropEvaluations ends the activities of evaluations that the machine waits for no longer, so that a
// cancellation does not wait for them.
func (m *mapRun) dropEvaluations() {
	if len(m.evaluations) == 0 {
		return
	}
	for _, key := range m.keys {
		if c, is := m.open[key].(stepmachine.Evaluate); is && m.evaluations[key] != nil && !m.wants(c) {
			m.evaluations[key]()
		}
	}
}

// wants reports whether the machine waits for the value.
func (m *mapRun) wants(c stepmachine.Evaluate) bool {
	return !m.over && m.finish == nil && m.machine.Asks(c)
}

// evaluated makes an evaluation when few others are made, and again where its tenant has too many. Later
// of the result is not 0 where the machine waits for the value no longer, because its step was given up.
// left: the history has become long before the turn came, so the next one makes the evaluation.
func (m *mapRun) evaluated(ctx workflow.Context, in flow.MapEvaluation) (out flow.MapEvaluated, left bool, err error) {
	out.Later = time.Millisecond // until there is a value
	wanted := func() bool { return m.wants(in.Ask) }
	if m.evaluating >= mostEvaluating {
		left, err = m.rest(wanted, func(until func() bool) error {
			return workflow.Await(ctx, func() bool { return m.evaluating < mostEvaluating || until() })
		})
		if err != nil || left || !wanted() {
			return out, left, err
		}
	}
	m.evaluating++
	defer func() { m.evaluating-- }()
	err = m.inTurn(ctx, func() error {
		for {
			if out, err = evaluateInMap(ctx, in); err != nil || out.Later == 0 {
				return err
			}
			options := workflow.AwaitOptions{Timeout: out.Later, TimerOptions: workflow.TimerOptions{Summary: flow.CrowdSummary}}
			over := false
			left, err = m.rest(wanted, func(until func() bool) (err error) {
				over, err = workflow.AwaitWithOptions(ctx, options, until)
				return err
			})
			if err != nil || left || over {
				return err
			}
		}
	})
	return out, left, err
}

// rest waits, and does not count as an activity under way meanwhile. The wait ends early where the
// evaluation is not wanted any more. left: the history has become long, so the evaluation is left to the
// next one. If it counted, what other branches have done would not be written until its turn.
func (m *mapRun) rest(wanted func() bool, wait func(until func() bool) error) (left bool, err error) {
	m.busy--
	err = wait(func() bool { return m.full || !wanted() })
	m.busy++
	return m.full && wanted(), err
}

// startStep calls the verb of a step.
func (m *mapRun) startStep(ctx workflow.Context, c stepmachine.StartVerb) {
	key := c.Ref.String()
	m.keep(key, c)
	if m.full {
		return
	}
	m.startCall(ctx, key, flow.MapCall{Call: c}, func(end stepmachine.CallEnd) stepmachine.Event {
		return stepmachine.VerbEnded{CallEnd: end}
	})
}

// stopCall asks for an early end of a call. One that waits for the next history had no effect, also
// where there is none.
func (m *mapRun) stopCall(c stepmachine.StopCall) {
	key := c.Ref.String()
	if call := m.calls[key]; call != nil {
		call.stop()
		return
	}
	if !m.full && !m.tooLarge {
		return
	}
	end := stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallCancelled, MayRepeat: true}
	switch m.open[key].(type) {
	case stepmachine.StartVerb:
		m.answered(key)
		m.tell(stepmachine.VerbEnded{CallEnd: end})
	case stepmachine.StartModel:
		m.answered(key)
		m.tell(stepmachine.ModelEnded{CallEnd: end})
	case stepmachine.StartMap:
		m.answered(key)
		m.tell(stepmachine.MapEnded{CallEnd: end})
	}
}

// compensate makes a kept call, which undoes a step.
func (m *mapRun) compensate(ctx workflow.Context, c stepmachine.Compensate) {
	key := compensationKey(c)
	m.keep(key, c)
	if m.full {
		return
	}
	call := stepmachine.StartVerb{Ref: stepmachine.Ref{Attempt: c.Attempt}, Deadline: c.Deadline}
	m.startCall(ctx, key, flow.MapCall{Call: call, Compensates: c.Seq}, func(end stepmachine.CallEnd) stepmachine.Event {
		return stepmachine.CompensationEnded{
			Seq: c.Seq, Attempt: c.Attempt, Status: end.Status, Error: end.Error, Sent: end.Sent, MayRepeat: end.MayRepeat, Call: end.Call,
		}
	})
}
