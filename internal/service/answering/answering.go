// Package answering answers the messages to agents: where sessions, models, tools and governed runs
// meet. The activities of the workflow AgentTurn call it. A step can be repeated after a crash at any
// time: what was answered is in a row, and a call always gets the same run.
package answering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/goalloop"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/tenant/budget"
	"agentruntime/internal/tenant/facts"
)

// Models asks the models of a tenant. internal/service/models implements it.
type Models interface {
	// Generate refuses with MODEL_NOT_CONNECTED and the faults of credentials, and returns a *model.Error
	// where the model has failed. The answer has what was used also beside an error.
	Generate(ctx context.Context, ask model.Ask, stream model.Stream) (model.Answer, error)
	// Most is the most that an answer can use.
	Most(choice agentdef.Model, req model.Request) budget.Amount
}

// Offer says whose tools are asked for, and for what.
type Offer struct {
	Tenant     uuid.UUID
	Definition *agentdef.Definition
	// Matched are the slugs of the procedures that fit the message.
	Matched []string
	Message string
	// Said are the customer's messages, the newest first, as far as they tell what to start.
	Said []string
	// Remembers: the message has a customer whom the agent remembers.
	Remembers bool
	// MayAsk: the agent may ask others.
	MayAsk bool
}

// Toolset is what a model is offered.
type Toolset struct {
	// Stored describes the tools, so that each process judges calls alike.
	Stored json.RawMessage
	Tools  []model.Tool
	// Verbs are the tools as planners read them.
	Verbs []goalloop.Verb
	// Advice is what the model is told of what it may start; only Offer sets it.
	Advice string
}

// Tools are what agents may call.
type Tools interface {
	// Offer returns the tools for a message, and Read those that were stored.
	Offer(ctx context.Context, o Offer) (Toolset, error)
	Read(stored json.RawMessage) (Toolset, error)
	// Resolve returns what a call means. The error is a fault of ours.
	Resolve(ctx context.Context, o Offer, set Toolset, call model.ToolCall) (Resolved, error)
}

// Resolved is what a call of a model means.
type Resolved struct {
	// Verb is set where a run is to be made, with Args. Writes: it may change something.
	Verb   verb.Name
	Args   json.RawMessage
	Writes bool
	// Answer is what the model is told where no run is made. Grown, where it is not nil, is what it is
	// offered from then on.
	Answer json.RawMessage
	Grown  json.RawMessage
	// Starts is another execution to start, with Args; nil for none.
	Starts *Start
	// Platform is the name of a tool of the service that is called with Args, "" for none.
	Platform string
	// Escalates: the agent wants a person.
	Escalates bool
	// Failed is why the call cannot be made, for the model to read.
	Failed *stepmachine.Error

	workflow *workflowCall // of an agent of the mode workflow_only
}

// Deps are the collaborators; all are required but Now.
type Deps struct {
	// Maps runs the Maps that messages start.
	Maps          *execution.Service
	Facts         *facts.Service
	Conversations *conversation.Service
	Runs          *run.Service
	Budgets       *budget.Service
	Models        Models
	Tools         Tools
	// Sandbox evaluates the checks of goals.
	Sandbox Sandbox
	Log     *slog.Logger
	Now     func() time.Time
}

// Answerer answers messages.
type Answerer struct {
	d Deps
	// tellers counts the answers that are streamed.
	tellers atomic.Int64
}

// New checks the collaborators.
func New(d Deps) (*Answerer, error) {
	if d.Conversations == nil || d.Runs == nil || d.Budgets == nil || d.Models == nil || d.Tools == nil || d.Maps == nil || d.Facts == nil || d.Sandbox == nil || d.Log == nil {
		return nil, errors.New("answering: conversations, runs, budgets, models, tools, Maps, facts, a sandbox and log are required")
	}
	d.Now = db.Clock(d.Now)
	return &Answerer{d: d}, nil
}

// work is a turn with its next answer.
type work struct {
	conversation.Work

	in flow.TurnStep
	// known opens what is remembered of the customer, where no model has answered yet.
	known func(context.Context) ([]facts.Fact, error)
	// ended: the message ends without a further answer.
	ended bool
	// frame is that of the part, whose first answer has the number from.
	frame conversation.Frame
	from  int
	tools Toolset
	next  conversation.Answer
	// goal is set for an agent in the mode goal.
	goal *goal
}

// offer says what the message's tools are offered for.
func (w *work) offer() Offer {
	return Offer{Tenant: w.Turn.TenantID, Definition: w.Agent.Definition, Matched: w.frame.Matched, Message: w.Turn.Message, Remembers: w.remembers()}
}

// Answer has the agent's model answer once, and returns what follows. A last answer ends the part of
// the message in the same transaction.
func (a *Answerer) Answer(ctx context.Context, in flow.TurnStep) (flow.TurnNext, error) {
	var known func(context.Context) ([]facts.Fact, error)
	loaded, over, err := a.d.Conversations.Load(ctx, in.TurnRef, func(b *db.Batch) { known = a.d.Facts.QueueOfTurn(b, in.TurnRef) })
	if err != nil {
		return flow.TurnNext{}, err
	}
	if over && loaded.Turn.TakenOver {
		return flow.TurnNext{Private: flow.IsPrivate(), Over: true, Answers: len(loaded.Answers)}, nil
	}
	if over {
		if err := a.retainLate(ctx, &work{Work: loaded, in: in}); err != nil {
			return flow.TurnNext{}, err
		}
		return repliedAs(loaded.Turn.State, loaded.Turn.Status, len(loaded.Answers)), nil
	}
	w := &work{Work: loaded, in: in, known: known}
	w.asGoal()
	switch {
	case in.Answer < len(w.Answers): // it was answered before a crash
		w.find(in.Answer)
		return a.follow(ctx, w, w.Answers[in.Answer].Response.Calls)
	case in.Answer > len(w.Answers):
		return flow.TurnNext{}, fmt.Errorf("answering: answer %d of a model, and there are %d", in.Answer, len(w.Answers))
	}
	if err := a.restart(ctx, w); err != nil {
		return flow.TurnNext{}, err
	}
	if w.goal != nil {
		return a.pursue(ctx, w)
	}
	if w.runsMap() {
		return a.runMap(ctx, w)
	}
	if err := a.prepare(ctx, w); err != nil {
		return flow.TurnNext{}, err
	}
	if w.wantsPerson() {
		return a.end(ctx, w, w.escalated("The customer asks for a person.", "", agentloop.Escalated))
	}
	if w.tools.Tools == nil {
		if w.tools, err = a.d.Tools.Read(w.tools.Stored); err != nil {
			return flow.TurnNext{}, err
		}
	}
	stop, err := a.stopsAny(ctx, w)
	if err != nil {
		return flow.TurnNext{}, err
	}
	if stop != "" {
		return a.stop(ctx, w, stop)
	}
	return a.ask(ctx, w)
}

// prepare sets what the next answer reads.
func (a *Answerer) prepare(ctx context.Context, w *work) (err error) {
	w.next = conversation.Answer{Purpose: model.Reply, BeganAt: a.d.Now(), Ends: w.in.Ends, Late: w.in.Late}
	w.find(len(w.Answers))
	if len(w.Answers) == 0 || w.frame.Part != w.in.Part {
		err = a.begin(ctx, w)
	} else {
		err = a.d.Conversations.ReadHistory(ctx, &w.Work, &w.frame)
	}
	if err != nil {
		return err
	}
	w.next.Added, err = a.told(ctx, w, decided)
	w.next.Added = append(w.next.Added, w.again()...)
	return err
}

// find sets the frame and the tools as they were for the answer with the number.
func (w *work) find(number int) {
	for i, answer := range w.Answers[:min(number+1, len(w.Answers))] {
		if answer.Frame != nil {
			w.from, w.frame = i, *answer.Frame
		}
		if answer.Tools != nil {
			w.tools.Stored = answer.Tools
		}
	}
}

// begin makes the frame of a part.
func (a *Answerer) begin(ctx context.Context, w *work) error {
	if err := a.d.Conversations.ReadHistory(ctx, &w.Work, nil); err != nil {
		return err
	}
	w.from, w.frame = len(w.Answers), conversation.Frame{Part: w.in.Part, Before: max(w.Entries, w.Summary.Upto) + 1}
	if w.wantsPerson() {
		w.frame.Summary = w.Summary.Text
		return nil // no model is asked
	}
	if err := a.recall(ctx, w); err != nil {
		return err
	}
	if err := a.match(ctx, w); err != nil {
		return err
	}
	if err := a.remember(ctx, w); err != nil {
		return err
	}
	offer := w.offer()
	offer.Said, offer.MayAsk = w.customerSaid(), len(w.Turn.Chain.Turns)+1 < agentdef.MaxAgentDepth
	set, err := a.d.Tools.Offer(ctx, offer)
	w.frame.Advice = joined(w.frame.Advice, set.Advice)
	w.tools, w.next.Frame, w.next.Tools = set, &w.frame, set.Stored
	return err
}

// request returns what the model is asked: what is the same for all messages first, then what changes
// rarely, so that makers of models can cache it.
func (w *work) request() model.Request {
	d := w.Agent.Definition
	req := model.Request{
		Purpose: model.Reply, Instructions: agentloop.Instructions(d.Instructions), Advice: w.frame.Advice, Tools: w.tools.Tools,
		Limits: model.Limits{OutputTokens: agentloop.OutputTokens},
	}
	if w.frame.Summary != "" {
		req.Messages = append(req.Messages, agentloop.SummaryMessage(w.frame.Summary))
	}
	for _, e := range w.History {
		req.Messages = append(req.Messages, e.Message)
	}
	if len(w.frame.Remembered) > 0 { // after what stays the same from one message to the next
		req.Messages = append(req.Messages, agentloop.MemoryMessage(w.frame.Remembered))
	}
	for _, e := range w.said() {
		req.Messages = append(req.Messages, e.Message)
	}
	req.NoCalls = w.repeats() // only the words are to change
	if len(w.Answers)+1 >= d.Limits.MaxTurns {
		req.NoCalls = true
		req.Messages = append(req.Messages, agentloop.LastAnswer())
	}
	return req
}

// said returns what was said since the part began, without the answer that follows.
func (w *work) said() (list []conversation.Entry) {
	if w.frame.Part == 0 {
		list = append(list, conversation.Entry{Kind: conversation.KindCustomer, Message: agentloop.Customer(w.Turn.Message)})
	}
	for _, answer := range w.Answers[w.from:] {
		list = append(list, conversation.Added(answer.Added)...)
		r := answer.Response
		if answer.Purpose == model.Plan {
			if r.Text = ""; len(r.Calls) == 0 {
				continue // what a planner thinks is said to no one
			}
		}
		list = append(list, conversation.Entry{Kind: conversation.KindCalls, Message: model.Message{Role: model.Assistant, Text: r.Text, Calls: r.Calls}})
	}
	return append(list, conversation.Added(w.next.Added)...)
}

// ask has the model answer, and stores the answer. The budgets are asked before, and settled with the
// answer in one transaction.
func (a *Answerer) ask(ctx context.Context, w *work) (flow.TurnNext, error) {
	ask := model.Ask{Tenant: w.Turn.TenantID, Key: w.Turn.KeyID, Choice: *w.Agent.Definition.Models.Worker}
	if w.goal != nil {
		ask.Choice, ask.Request = *or(w.Agent.Definition.Models.Planner, w.Agent.Definition.Models.Worker), w.planRequest()
	} else {
		ask.Request = w.request()
	}
	if kept, has := w.AsideFor(len(w.Answers), model.Unjudged); has {
		kept.Response.Usage = model.Usage{} // it was counted when it was kept
		return a.answered(ctx, w, model.Answer{Response: kept.Response}, nil, false, a.teller(w), budget.Reservation{})
	}
	reserved, err := a.d.Budgets.Reserve(ctx, w.Turn.TenantID, w.Turn.KeyID, a.d.Models.Most(ask.Choice, ask.Request))
	if f := fault.As(err); f != nil && f.Code == fault.CodeBudgetExceeded {
		return a.refused(ctx, w, f)
	}
	if err != nil {
		return flow.TurnNext{}, err
	}
	told := a.teller(w)
	stream := told.stream(ctx)
	if w.goal != nil {
		stream = model.Stream{} // a plan is no reply
	}
	given, failed, late, err := a.generate(ctx, ask, stream, w.deadline())
	if err != nil {
		told.end(w.next, nil, false)
		return flow.TurnNext{}, err // the lease of what was reserved ends
	}
	return a.answered(ctx, w, given, failed, late, told, reserved)
}

// answered stores an answer, and returns what follows. It is paid for: where a fault of ours keeps it from
// being judged, it is kept, and a repeat judges it without asking again.
func (a *Answerer) answered(
	ctx context.Context, w *work, given model.Answer, failed *stepmachine.Error, late bool, told *teller, reserved budget.Reservation,
) (flow.TurnNext, error) {
	var used budget.Amount
	used.Tokens, used.Money = given.Used()
	w.next.Response, w.next.Error, w.next.Money = unique(given.Bounded()), failed, used.Money
	reply, err := a.meaning(ctx, w, late)
	if err != nil {
		told.end(w.next, nil, false)
		kept := conversation.Answer{Purpose: model.Unjudged, BeganAt: w.next.BeganAt, Response: given.Response, Money: used.Money}
		_, keeping := a.d.Conversations.EndAside(ctx, w.Work, kept, func(b *db.Batch, counts bool) { reserved.QueueEnd(b, used, counts) })
		return flow.TurnNext{}, errors.Join(err, keeping)
	}
	if before := a.anyway(w); before != nil && !improves(w.next, reply, late) {
		reply = before
	}
	misspoke := w.misspeaks(given, reply)
	if misspoke {
		reply = nil
	}
	w.next.Writer, w.next.Tellings = writer(len(w.Answers), writersOfAnswer), told.end(w.next, reply, misspoke)
	settle := func(b *db.Batch, counts bool) {
		reserved.QueueEnd(b, used, counts)
		if ids := w.recalled(); len(ids) > 0 {
			a.d.Facts.QueueUsed(b, w.Turn.TenantID, *w.Turn.Customer, ids)
		}
	}
	stored, err := a.d.Conversations.EndAnswer(ctx, w.Work, w.next, reply, settle)
	if db.IsNotChanged(err) {
		// The message has ended meanwhile, because a person took over. What the model used still counts.
		_, err = a.d.Conversations.EndAnswer(ctx, w.Work, w.next, nil, settle)
		return flow.TurnNext{Private: flow.IsPrivate(), Over: true, Answers: len(w.Answers) + 1}, err
	}
	switch {
	case err != nil:
		return flow.TurnNext{}, err
	case !stored:
		return a.Answer(ctx, w.in) // another attempt was first
	case reply != nil:
		w.Answers = append(w.Answers, w.next)
		if err := a.retain(ctx, w, *reply); err != nil {
			return flow.TurnNext{}, err
		}
		return repliedAs(reply.State, reply.Status, len(w.Answers)), nil
	}
	w.Answers = append(w.Answers, w.next)
	return a.follow(ctx, w, w.next.Response.Calls)
}

// meaning returns the end of the part that the newest answer leads to; nil where the agent goes on. late:
// the time was over before it came.
func (a *Answerer) meaning(ctx context.Context, w *work, late bool) (*conversation.Reply, error) {
	switch {
	case late && w.goal != nil:
		return w.missed(agentloop.WallClock, ""), nil
	case late:
		return w.stopped(agentloop.WallClock), nil
	case w.goal != nil:
		return a.planned(ctx, w)
	default:
		return a.replyOf(w), nil
	}
}

// generate asks a model, at most until the given time. failed is why it has not answered; late: because
// the time was over.
func (a *Answerer) generate(ctx context.Context, ask model.Ask, stream model.Stream, until time.Time) (given model.Answer, failed *stepmachine.Error, late bool, err error) {
	within, stop := context.WithTimeout(ctx, until.Sub(a.d.Now()))
	defer stop()
	given, err = a.d.Models.Generate(within, ask, stream)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return given, stepmachine.NewError(string(fault.CodeModelError), "the model has not answered within limits.wall_clock"), true, nil
	}
	failed, err = a.failure(ctx, err)
	return given, failed, false, err
}

// failure returns why a model has not answered, as callers see it. The error is a fault of ours.
func (a *Answerer) failure(ctx context.Context, err error) (*stepmachine.Error, error) {
	var failed *model.Error
	f := fault.As(err)
	switch {
	case err == nil:
		return nil, nil //nolint:nilnil // it has answered
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &failed):
		out := stepmachine.NewError(string(fault.CodeModelError), redact.Text(failed.Words()))
		out.Retryable = failed.Retryable
		return out, nil
	case f != nil && f.Code != fault.CodeInternal && f.Code != fault.CodeServiceUnavailable:
		out := stepmachine.NewError(string(f.Code), f.Message)
		out.Retryable, out.RetryAfterMS = f.Retryable, f.RetryAfter.Milliseconds()
		return out, nil
	}
	return nil, err
}

// unique returns the answer with an id at each call.
func unique(r model.Response) model.Response {
	seen := map[string]bool{}
	for i := range r.Calls {
		call := &r.Calls[i]
		for n := i; call.ID == "" || seen[call.ID]; n++ {
			call.ID = fmt.Sprintf("call_%d", n)
		}
		seen[call.ID] = true
	}
	return r
}
