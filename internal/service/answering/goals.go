package answering

import (
	"context"
	"slices"
	"time"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/goalloop"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// Sandbox shares out the evaluation of checks.
type Sandbox interface {
	// For returns the part of one party, so that none takes all.
	For(party string) expression.Sandbox
}

// goal is what a message has that is a goal: the planner stands in the place of the model that replies.
type goal struct {
	criteria []agentdef.Criterion
	// facts are all that are known, steps what each usable answer of the planner has brought.
	facts []goalloop.Fact
	steps []goalloop.Step
}

// asGoal sets what a message of an agent in the mode goal has beside others. Its limits take the place
// of the agent's where they are lower.
func (w *work) asGoal() {
	if w.Agent.Definition == nil || w.Agent.Definition.ExecutionMode != agentdef.Goal {
		return
	}
	d := *w.Agent.Definition
	w.goal = &goal{criteria: conversation.Criteria(&d, w.Turn.Goal, w.Turn.Message)}
	if given := w.Turn.Goal; given != nil {
		l := given.Limits
		d.Limits.GoalSteps, d.Limits.Tokens = lower(d.Limits.GoalSteps, l.Steps), lower(d.Limits.Tokens, l.Tokens)
		d.Limits.MoneyMicros = lower(d.Limits.MoneyMicros, l.MoneyMicros)
		d.Limits.WallClock = lower(d.Limits.WallClock, agentdef.Duration(time.Duration(l.WallClockMS)*time.Millisecond))
	}
	if w.Turn.DryRun() { // only calls of verbs can be intercepted
		d.Maps, d.Tools = nil, d.Tools.OnlyVerbs()
	}
	d.Limits.GoalSteps = min(d.Limits.GoalSteps, goalloop.MaxSteps)
	w.Agent.Definition = &d
}

// lower returns the lower one of two limits; zero is none.
func lower[N int | int64 | agentdef.Duration](a, b N) N {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// pursue asks the planner for the next step to a goal, and returns what follows.
func (a *Answerer) pursue(ctx context.Context, w *work) (flow.TurnNext, error) {
	if err := a.prepareGoal(ctx, w); err != nil {
		return flow.TurnNext{}, err
	}
	if w.wantsPerson() {
		return a.end(ctx, w, w.escalated("The customer asks for a person.", "", agentloop.Escalated))
	}
	if w.tools.Tools == nil {
		var err error
		if w.tools, err = a.d.Tools.Read(w.tools.Stored); err != nil {
			return flow.TurnNext{}, err
		}
	}
	if w.in.Open > 0 {
		return a.end(ctx, w, w.rests())
	}
	if _, kept := w.AsideFor(len(w.Answers), model.Unjudged); kept {
		return a.ask(ctx, w) // it is paid for
	}
	stop, err := a.stopsGoal(ctx, w)
	if err != nil {
		return flow.TurnNext{}, err
	}
	if stop != "" {
		return a.end(ctx, w, w.missed(stop, ""))
	}
	return a.ask(ctx, w)
}

// prepareGoal sets what the planner reads next.
func (a *Answerer) prepareGoal(ctx context.Context, w *work) (err error) {
	w.next = conversation.Answer{Purpose: model.Plan, BeganAt: a.d.Now(), Ends: w.in.Ends, Late: w.in.Late}
	w.find(len(w.Answers))
	if len(w.Answers) == 0 {
		err = a.begin(ctx, w)
	} else {
		err = a.d.Conversations.ReadHistory(ctx, &w.Work, &w.frame)
		if w.frame.Part != w.in.Part { // what the goal was begun with stays
			w.from, w.frame.Part = len(w.Answers), w.in.Part
			w.next.Frame = &w.frame
		}
	}
	if err != nil {
		return err
	}
	return a.learn(ctx, w)
}

// learn sets the facts and steps so far. Those that are new are told with the next answer.
func (a *Answerer) learn(ctx context.Context, w *work) error {
	if last := len(w.Answers) - 1; last >= 0 && w.next.Frame == nil {
		for i := range w.Answers[last].Response.Calls {
			if err := a.learnEnd(ctx, w, last, i, w.in.Ends, false); err != nil {
				return err
			}
		}
	}
	for _, late := range w.in.Late {
		if late.Answer >= len(w.Answers) || late.Number >= len(w.Answers[late.Answer].Response.Calls) {
			continue
		}
		if err := a.learnEnd(ctx, w, late.Answer, late.Number, []flow.MapToolEnd{late.MapToolEnd}, true); err != nil {
			return err
		}
	}
	w.keep()
	for _, answer := range w.Answers {
		if answer.Wrong != "" {
			continue
		}
		step := goalloop.Step{}
		for _, call := range answer.Response.Calls {
			if i := slices.IndexFunc(w.goal.facts, func(f goalloop.Fact) bool { return f.ID == call.ID }); i >= 0 {
				step.Fact = &w.goal.facts[i]
			}
		}
		w.goal.steps = append(w.goal.steps, step)
	}
	return nil
}

// keep sets the facts so far, with the results for which there is room.
func (w *work) keep() {
	var all []*goalloop.Fact
	var of []int
	for i := range w.Answers {
		for n := range w.Answers[i].Facts {
			all, of = append(all, &w.Answers[i].Facts[n]), append(of, i)
		}
	}
	for n := range w.next.Facts {
		all, of = append(all, &w.next.Facts[n]), append(of, len(w.Answers))
	}
	goalloop.MakeRoom(all, func(i int) {
		if of[i] < len(w.Answers) && !slices.Contains(w.Shortened, of[i]) {
			w.Shortened = append(w.Shortened, of[i])
		}
	})
	w.goal.facts = nil
	for _, f := range all {
		w.goal.facts = append(w.goal.facts, *f)
	}
}

// learnEnd adds what came of a call to what is told with the next answer: a fact where it has ended. late:
// the planner was told before that the call waits.
func (a *Answerer) learnEnd(ctx context.Context, w *work, answer, number int, ends []flow.MapToolEnd, late bool) error {
	call := w.Answers[answer].Response.Calls[number]
	end, err := a.endOf(ctx, w, call, number, ends)
	if err != nil {
		return err
	}
	told := modelstep.Told(call.ID, end)
	at := slices.IndexFunc(ends, func(e flow.MapToolEnd) bool { return e.Number == number })
	if late {
		told = model.Message{Role: model.User, Text: lateWords(ends[at], decided, call.Name) + "\n" + told.Text}
	}
	w.next.Added = append(w.next.Added, told)
	if at >= 0 && goesOn(ends[at]) {
		return nil
	}
	f := goalloop.Fact{
		ID: call.ID, Verb: call.Name, Args: call.Args, Status: end.Status, Result: exactjson.Plain(end.Result), Headers: end.Headers, Error: end.Error,
	}
	f.Shorten()
	f.LookUp = at < 0 && end.Error == nil || at >= 0 && ends[at].Kind == flow.KindMessage
	f.Rejected = at >= 0 && ends[at].Kind == "" && notApproved(ends[at].Error)
	w.next.Facts = append(w.next.Facts, f)
	return nil
}

// notApproved reports whether people were asked about a call, and it was not approved.
func notApproved(why *stepmachine.Error) bool {
	return why != nil && (why.Type == stepmachine.TypeRejected || why.Type == stepmachine.TypeExpired)
}

// stopsGoal returns why the planner is not asked again; "" where it is.
func (a *Answerer) stopsGoal(ctx context.Context, w *work) (agentloop.Stop, error) {
	if stop := goalloop.Stops(w.goal.steps); stop == goalloop.ApprovalRejected {
		return stop, nil // more than any limit, it says why
	}
	if stop, err := a.stopsAny(ctx, w); stop != "" || err != nil {
		return stop, err
	}
	if w.stepsLeft() < 0 {
		return goalloop.StepCap, nil
	}
	return goalloop.Stops(w.goal.steps), nil
}

// stepsLeft is how many calls the planner may still ask for: within the steps of the goal, and within the
// calls of a message. One answer more judges the last of them.
func (w *work) stepsLeft() int {
	calls := max(0, w.Agent.Definition.Tools.MaxPerTurn-w.made()-madeOf(w.next.Ends))
	return min(w.Agent.Definition.Limits.GoalSteps-len(w.goal.steps), calls)
}

// planRequest returns what the planner is asked.
func (w *work) planRequest() model.Request {
	ask := goalloop.Ask{
		Instructions: w.Agent.Definition.Instructions, Advice: w.frame.Advice, Goal: w.Turn.Message, Criteria: w.goal.criteria, Facts: w.goal.facts,
		Verbs: w.tools.Verbs, StepsLeft: w.stepsLeft(), Summary: w.frame.Summary, DryRun: w.Turn.DryRun(),
	}
	if len(w.frame.Remembered) > 0 {
		ask.Remembered = agentloop.MemoryMessage(w.frame.Remembered).Text
	}
	for _, e := range w.History {
		if said, is := saidBefore(e); is {
			ask.Before = append(ask.Before, said)
		}
	}
	ask.Before = ask.Before[max(0, len(ask.Before)-w.Agent.Definition.Memory.WindowMessages):]
	if last := len(w.Answers) - 1; last >= 0 {
		ask.Refused = goalloop.Refused(w.Answers[last].Criteria)
		ask.Unusable, ask.Wrong = w.Answers[last].Response.Text, w.Answers[last].Wrong
	}
	return goalloop.Request(ask)
}

// saidBefore returns what customer, agent or a person have said to each other.
func saidBefore(e conversation.Entry) (goalloop.Said, bool) {
	switch e.Kind {
	case conversation.KindCustomer:
		text, is := agentloop.CustomerText(e.Message)
		return goalloop.Said{From: "customer", Text: text}, is
	case conversation.KindPerson:
		text, is := agentloop.PersonText(e.Message)
		return goalloop.Said{From: "person", Text: text}, is
	case conversation.KindAgent:
		return goalloop.Said{From: "agent", Text: e.Message.Text}, true
	case conversation.KindCalls, conversation.KindResult, conversation.KindNote:
	}
	return goalloop.Said{}, false
}

// planned returns the end of the goal that the planner's answer leads to; nil where the agent goes on.
// Only a call that the answer names in its own form is made, and never one by another way.
func (a *Answerer) planned(ctx context.Context, w *work) (*conversation.Reply, error) {
	if w.next.Error != nil {
		return w.failed(w.next.Error, agentloop.ModelError), nil
	}
	plan, wrong := goalloop.Read(w.next.Response, w.goal.criteria)
	w.next.Response.Calls = nil
	if wrong != "" {
		w.next.Wrong = wrong
		if last := len(w.Answers) - 1; last >= 0 && w.Answers[last].Wrong != "" {
			return w.failed(stepmachine.NewError(string(fault.CodeModelError), "the answer of the planner cannot be used: "+wrong), agentloop.ModelError), nil
		}
		return nil, nil //nolint:nilnil // it is asked for again
	}
	var err error
	if w.next.Criteria, err = goalloop.Judge(ctx, a.d.Sandbox.For(w.Turn.TenantID.String()), w.goal.criteria, plan.Claims, w.goal.facts); err != nil {
		return nil, err
	}
	switch {
	case plan.Status == goalloop.Done && goalloop.AllMet(w.next.Criteria):
		r := w.pursued(conversation.StatusCompleted, goalloop.CriteriaMet, plan.Reason)
		return &r, nil
	case plan.Status == goalloop.Blocked:
		return w.missed(goalloop.PlannerBlocked, plan.Reason), nil
	case w.stepsLeft() <= 0:
		return w.missed(goalloop.StepCap, ""), nil
	case plan.Status == goalloop.Act:
		w.next.Response.Calls = []model.ToolCall{{ID: goalloop.FactID(w.called()), Name: plan.Next.Verb, Args: plan.Next.Args}}
	}
	return nil, nil //nolint:nilnil // it goes on
}

// called counts the calls that the planner has asked for.
func (w *work) called() (n int) {
	for _, answer := range w.Answers {
		n += len(answer.Response.Calls)
	}
	return n
}

// missed ends a goal that is not reached. Where the agent wants it, people are asked; a dry run asks
// nobody.
func (w *work) missed(stop agentloop.Stop, reason string) *conversation.Reply {
	r := w.pursued(conversation.StatusFailed, stop, reason)
	if w.Agent.Definition.Escalation.OnLimit && !w.Turn.DryRun() && stop != goalloop.PlannerBlocked && stop != goalloop.ApprovalRejected {
		r.Escalate, r.Summary = "A limit has ended a goal: "+string(stop)+".", w.summary("")
	}
	return &r
}

// pursued ends a goal.
func (w *work) pursued(status conversation.Status, stop agentloop.Stop, reason string) conversation.Reply {
	text := goalloop.Reply(stop, reason)
	r := w.ending(status, stop)
	r.Text = &text
	r.Entries = append(w.said(), conversation.Entry{Kind: conversation.KindAgent, Message: model.Message{Role: model.Assistant, Text: text}})
	return r
}

// rests has the goal wait for what was begun: for people, or for an execution that takes long.
func (w *work) rests() *conversation.Reply {
	r := w.pursued(conversation.StatusPending, agentloop.PendingApproval, "")
	r.State, r.Governance = conversation.Waiting, w.waitsFor()
	text := ""
	switch w.in.Open {
	case w.in.Running:
		text = "I wait for something that takes longer. I go on when it has ended."
		r.Status, r.Stop = conversation.StatusRunning, ""
	case w.in.Running + w.in.Unsettled:
		text = "The outcome of a call is not known. I go on when a person has found out what came of it."
	}
	if text != "" {
		r.Text, r.Entries[len(r.Entries)-1].Message.Text = &text, text
	}
	return &r
}

// progress returns how the criteria of a goal stand; nil for a message of another mode.
func (w *work) progress() *conversation.Progress {
	var p *conversation.Progress
	if w.goal != nil {
		p = &conversation.Progress{Criteria: goalloop.Unmet(w.goal.criteria)}
	}
	for _, answer := range append(slices.Clip(w.Answers), w.next) {
		if answer.Criteria != nil {
			p = &conversation.Progress{Criteria: answer.Criteria, Plan: goalloop.Remaining(answer.Response)}
		}
	}
	return p
}
