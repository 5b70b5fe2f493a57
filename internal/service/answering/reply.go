package answering

import (
	"context"
	"slices"
	"time"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/language"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/tenant/budget"
)

// replyOf returns the reply that the newest answer is; nil where it asks for calls.
func (a *Answerer) replyOf(w *work) *conversation.Reply {
	if w.next.Error != nil {
		return w.failed(w.next.Error, agentloop.ModelError)
	}
	v := agentloop.Judge(w.next.Response)
	switch {
	case v.Failed != "":
		return w.failed(stepmachine.NewError(string(fault.CodeModelError), v.Failed), agentloop.ModelError)
	case v.Calls != nil:
		if why, summary, wants := escalation(v.Calls); wants {
			return w.escalatedBy(why, summary, w.next.Response.Text)
		}
		if len(w.Answers)+1 >= w.Agent.Definition.Limits.MaxTurns {
			return w.stopped(agentloop.MaxTurns) // it was told that this is its last answer
		}
		return nil
	}
	stop := agentloop.FinalAnswer
	if w.blocked() {
		stop = agentloop.Blocked
	}
	return w.reply(v.Reply, stop)
}

// reply ends the part with a text. Where calls wait for people, the message goes on when these have
// decided.
func (w *work) reply(text string, stop agentloop.Stop) *conversation.Reply {
	r := w.ending(conversation.StatusCompleted, stop)
	switch {
	case w.in.Open > 0 && w.in.Open == w.in.Running:
		r.State, r.Status = conversation.Waiting, conversation.StatusRunning
	case w.in.Open > 0:
		r.State, r.Status, r.Governance = conversation.Waiting, conversation.StatusPending, w.waitsFor()
		if stop == agentloop.FinalAnswer || stop == agentloop.Blocked {
			r.Stop = agentloop.PendingApproval
		}
	}
	r.Text = &text
	r.Entries = append(w.kept(), conversation.Entry{Kind: conversation.KindAgent, Message: model.Message{Role: model.Assistant, Text: text}})
	return &r
}

// waitsFor returns the governance status of a message that waits for people. To find out what came of a call
// is no approval.
func (w *work) waitsFor() string {
	if w.in.Open > w.in.Running+w.in.Unsettled {
		return governancePending
	}
	return w.governance()
}

// stopped ends the part without a reply of the model. Where the agent wants it, people are asked.
func (w *work) stopped(stop agentloop.Stop) *conversation.Reply {
	r := w.reply(w.apology(stop), stop)
	if !w.Agent.Definition.Escalation.OnLimit || r.State == conversation.Waiting {
		return r // those who wait for people have some
	}
	return w.escalated("A limit has ended a message: "+string(stop)+".", w.apology(stop)+" "+w.apology(agentloop.Escalated), stop)
}

// failed ends the message without a reply. Where the agent wants it, people are asked. Where calls wait
// for people, only the part ends: what they decide is answered.
func (w *work) failed(why *stepmachine.Error, stop agentloop.Stop) *conversation.Reply {
	if stop == agentloop.ModelError && w.Agent.Definition.Escalation.OnFailure && !w.Turn.DryRun() {
		r := w.escalated("The model has failed.", "", stop)
		r.Error = why
		return r
	}
	if w.in.Open > 0 && w.goal == nil {
		r := w.reply(w.apology(stop), stop)
		r.Error = why
		return r
	}
	r := w.ending(conversation.StatusFailed, stop)
	r.Error = why
	r.FreesKey = w.in.Actions == 0 && w.Turn.Replies == 0 && !w.asked()
	r.Entries = w.said()
	return &r
}

// escalated ends the message because a person is wanted. The text is the reply; "" for the usual one.
// Where calls wait for people, what these decide is another reply.
func (w *work) escalated(why, text string, stop agentloop.Stop) *conversation.Reply {
	if text == "" {
		text = w.apology(agentloop.Escalated)
	}
	r := w.ending(conversation.StatusEscalated, stop)
	if w.in.Open > 0 && w.goal == nil {
		r.State = conversation.Waiting
	}
	r.Text, r.Escalate, r.Summary = &text, why, w.summary("")
	r.Entries = append(w.said(), conversation.Entry{Kind: conversation.KindAgent, Message: model.Message{Role: model.Assistant, Text: text}})
	return &r
}

// escalatedBy ends the message because the model wants a person.
func (w *work) escalatedBy(why, summary, text string) *conversation.Reply {
	r := w.escalated(why, text, agentloop.Escalated)
	r.Summary = w.summary(summary)
	return r
}

// ending returns what all ends have in common.
func (w *work) ending(status conversation.Status, stop agentloop.Stop) conversation.Reply {
	written := language.Says(w.Turn.Message, w.Turn.Language)
	return conversation.Reply{
		Language: written, State: conversation.Ended, Status: status, Stop: stop, Actions: w.in.Actions, ApprovalID: w.in.ApprovalID, Governance: w.governance(),
		Tainted: w.tainted(), Sources: w.sources(), Progress: w.progress(),
	}
}

// The governance statuses of a message.
const (
	governanceApproved = string(governance.ApprovalApproved)
	governancePending  = string(governance.ApprovalPending)
	governanceBlocked  = string(governance.ApprovalBlocked)
	governanceRejected = string(governance.ApprovalRejected)
)

// ends calls fn with the end of each call of the message that is known.
func (w *work) ends(fn func(end flow.MapToolEnd)) {
	for _, answer := range append(slices.Clip(w.Answers), w.next) {
		for _, end := range answer.Ends {
			fn(end)
		}
		for _, late := range answer.Late {
			fn(late.MapToolEnd)
		}
	}
}

// governance returns the governance status of the call that decided the end.
func (w *work) governance() string {
	status := governanceApproved
	w.ends(func(end flow.MapToolEnd) {
		switch {
		case end.Error == nil:
		case end.Error.Type == stepmachine.TypeRejected:
			status = governanceRejected
		case end.Error.Code == string(fault.CodeGovernanceBlocked):
			status = governanceBlocked
		}
	})
	return status
}

// blocked reports whether governance has blocked all calls that the reply is about.
func (w *work) blocked() bool {
	if len(w.next.Ends) == 0 {
		return false
	}
	for _, end := range w.next.Ends {
		if end.Error == nil || end.Error.Code != string(fault.CodeGovernanceBlocked) {
			return false
		}
	}
	return true
}

// asked reports whether people were asked about a call of the message. About one that a dry run has
// intercepted they are.
func (w *work) asked() (yes bool) {
	w.ends(func(end flow.MapToolEnd) {
		yes = yes || end.Status == flow.CallPending || end.Open || end.Status == stepmachine.CallIntercepted
	})
	return yes
}

// tainted reports whether the agent has read what others than the tenant wrote.
func (w *work) tainted() (yes bool) {
	yes = w.Turn.Tainted || w.readUntrusted()
	w.ends(func(end flow.MapToolEnd) { yes = yes || end.Taints() })
	return yes
}

// sources says what.
func (w *work) sources() []string {
	list := taint.Add([]string{}, w.Turn.TaintSources...)
	for _, answer := range append(slices.Clip(w.Answers), w.next) {
		list = taint.Add(list, answer.UntrustedFacts()...)
	}
	w.ends(func(end flow.MapToolEnd) { list = taint.Add(list, end.Sources...) })
	return list
}

// refused ends a message for which no budget has room. Before the first answer it fails.
func (a *Answerer) refused(ctx context.Context, w *work, f *fault.Error) (flow.TurnNext, error) {
	stop := agentloop.TokenBudget
	if budget.OfMoney(f) {
		stop = agentloop.MoneyBudget
	}
	if len(w.Answers) > 0 {
		if w.goal != nil {
			return a.end(ctx, w, w.missed(stop, ""))
		}
		return a.stop(ctx, w, stop)
	}
	why := stepmachine.NewError(string(f.Code), f.Message)
	why.Retryable, why.RetryAfterMS = true, f.RetryAfter.Milliseconds()
	return a.end(ctx, w, w.failed(why, stop))
}

// stop ends the part without another answer.
func (a *Answerer) stop(ctx context.Context, w *work, stop agentloop.Stop) (flow.TurnNext, error) {
	if before := a.anyway(w); before != nil {
		return a.end(ctx, w, before)
	}
	return a.end(ctx, w, w.stopped(stop))
}

func (a *Answerer) end(ctx context.Context, w *work, r *conversation.Reply) (flow.TurnNext, error) {
	w.replaced(r)
	if w.next.Memory != nil { // otherwise it is stored with an answer
		if err := a.d.Conversations.NoteMemory(ctx, w.Work, *w.next.Memory); err != nil {
			return flow.TurnNext{}, err
		}
	}
	return repliedAs(r.State, r.Status, len(w.Answers)), a.d.Conversations.EndPart(ctx, w.Work, *r)
}

// repliedAs returns what follows from a reply after so many answers of the model.
func repliedAs(state conversation.State, status conversation.Status, answers int) flow.TurnNext {
	next := flow.TurnNext{Private: flow.IsPrivate(), Replied: true, Over: state != conversation.Waiting, Answers: answers}
	if next.Over {
		next.Status = stepmachine.Status(status)
	}
	return next
}

// deadline is when the agent's time for the message ends. The time in which it waits does not count.
func (w *work) deadline() time.Time {
	begun := w.Turn.UpdatedAt
	if w.Turn.BegunAt != nil {
		begun = *w.Turn.BegunAt
	}
	return begun.Add(time.Duration(w.Agent.Definition.Limits.WallClock) - time.Duration(w.Turn.WorkedMS)*time.Millisecond)
}

// stops returns why the model is not asked again; "" where it is.
func (a *Answerer) stops(w *work) agentloop.Stop {
	limits := w.Agent.Definition.Limits
	switch {
	case a.d.Now().After(w.deadline()):
		return agentloop.WallClock
	case w.goal == nil && len(w.Answers) >= limits.MaxTurns && (w.next.Frame == nil || len(w.in.Late) == 0): // what people have decided gets an answer
		return agentloop.MaxTurns
	case limits.Tokens > 0 && w.Turn.Tokens >= limits.Tokens:
		return agentloop.TokenBudget
	case limits.MoneyMicros > 0 && w.Turn.MoneyMicros >= limits.MoneyMicros:
		return agentloop.MoneyBudget
	}
	if _, loops := agentloop.Loops(w.calls()); loops && w.goal == nil { // goals look at more than calls
		return agentloop.LoopDetected
	}
	return ""
}

// calls returns the calls since the part began with what the model
// was told of them.
func (w *work) calls() (list []agentloop.Call) {
	for i, answer := range w.Answers[w.from:] {
		after := w.next.Added
		if next := w.from + i + 1; next < len(w.Answers) {
			after = w.Answers[next].Added
		}
		for _, call := range answer.Response.Calls {
			made := agentloop.Call{Name: call.Name, Args: call.Args}
			for _, m := range after {
				if m.CallID == call.ID {
					made.Result = []byte(m.Text)
				}
			}
			list = append(list, made)
		}
	}
	return list
}
