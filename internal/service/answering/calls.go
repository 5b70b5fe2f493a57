package answering

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// The tool by which an agent hands over to a person.
const toolEscalate = "escalate"

// escalation returns why the model wants a person, and what people must know; wants is false where it
// does not.
func escalation(calls []model.ToolCall) (why, summary string, wants bool) {
	for _, call := range calls {
		if call.Name == toolEscalate {
			var args struct{ Reason, Summary string }
			_ = json.Unmarshal(call.Args, &args) // without a reason it is one all the same
			return strings.TrimSpace("The agent asks for a person. " + args.Reason), strings.TrimSpace(args.Summary), true
		}
	}
	return "", "", false
}

// follow returns the calls that the workflow has to make for an answer.
func (a *Answerer) follow(ctx context.Context, w *work, calls []model.ToolCall) (flow.TurnNext, error) {
	next := flow.TurnNext{Private: flow.IsPrivate(), Answers: len(w.Answers), Parallel: w.Agent.Definition.Tools.Parallel, Deadline: w.deadline()}
	left := w.Agent.Definition.Tools.MaxPerTurn - w.made()
	if w.runsMap() {
		left = 1
	}
	for i, call := range calls[:min(len(calls), model.MaxCalls)] {
		means, err := a.resolve(ctx, w, call)
		if err != nil {
			return next, err
		}
		if means.Verb == (verb.Name{}) && means.Starts == nil || len(next.Calls) >= left {
			continue
		}
		tool := flow.TurnTool{Number: int32(i)}
		if means.Starts != nil {
			tool.Kind, tool.Patient = means.Starts.Kind, w.runsMap()
		} else {
			tool.Verb = means.Verb.String()
		}
		if means.Writes {
			tool.Lane = means.Verb.Provider
		}
		next.Calls = append(next.Calls, tool)
	}
	return next, nil
}

// made counts the calls that the message has made, besides those of its newest answer. Those that wait
// for people, or have waited, count once.
func (w *work) made() (n int) {
	for _, answer := range w.Answers {
		n += madeOf(answer.Ends)
	}
	return n
}

// madeOf counts the calls of one answer that were made.
func madeOf(ends []flow.MapToolEnd) (n int) {
	for _, end := range ends {
		if end.Error == nil || end.Error.Code != flow.CodeNotMade {
			n++
		}
	}
	return n
}

// resolve returns what a call of the model means, by what it was offered then.
func (a *Answerer) resolve(ctx context.Context, w *work, call model.ToolCall) (Resolved, error) {
	if w.runsMap() {
		return w.workflowMeans(call)
	}
	if w.tools.Tools == nil {
		set, err := a.d.Tools.Read(w.tools.Stored)
		if err != nil {
			return Resolved{}, err
		}
		w.tools = set
	}
	return a.d.Tools.Resolve(ctx, w.offer(), w.tools, call)
}

// What the model is told with the end of a call that had waited for people.
const (
	decided   = "People have decided about the call %s, which had waited for them. Tell the customer what came of it, and go on where that is needed."
	cancelled = "The message was cancelled. Its call %s, which had waited for people, has ended with it."
)

// told returns what the model hears before its next answer: how the calls that it has asked for last
// have ended, and those that had waited for people, each with the words.
func (a *Answerer) told(ctx context.Context, w *work, words string) (messages []model.Message, err error) {
	if last := len(w.Answers) - 1; last >= w.from && w.next.Frame == nil {
		for i, call := range w.Answers[last].Response.Calls {
			end, err := a.endOf(ctx, w, call, i, w.in.Ends)
			if err != nil {
				return nil, err
			}
			messages = append(messages, modelstep.Told(call.ID, end))
		}
	}
	for _, late := range w.in.Late {
		if late.Answer >= len(w.Answers) || late.Number >= len(w.Answers[late.Answer].Response.Calls) {
			return nil, fmt.Errorf("answering: a call %d of answer %d has ended, and there is none", late.Number, late.Answer)
		}
		call := w.Answers[late.Answer].Response.Calls[late.Number]
		end, err := a.endOf(ctx, w, call, late.Number, []flow.MapToolEnd{late.MapToolEnd})
		if err != nil {
			return nil, err
		}
		said := modelstep.Told(call.ID, end)
		messages = append(messages, model.Message{Role: model.User, Text: lateWords(late.MapToolEnd, words, call.Name) + "\n" + said.Text})
	}
	return messages, nil
}

// endOf returns how a call has ended, as the model hears it: without secrets that the tenant has stored.
func (a *Answerer) endOf(ctx context.Context, w *work, call model.ToolCall, number int, ends []flow.MapToolEnd) (modelstep.ToolEnd, error) {
	end, err := a.cameOf(ctx, w, call, number, ends)
	if err == nil {
		err = a.d.Maps.HideEnds(ctx, w.Turn.TenantID, &end)
	}
	return end, err
}

// cameOf is endOf in the clear, but for the output of another Map.
func (a *Answerer) cameOf(ctx context.Context, w *work, call model.ToolCall, number int, ends []flow.MapToolEnd) (end modelstep.ToolEnd, err error) {
	i := slices.IndexFunc(ends, func(e flow.MapToolEnd) bool { return e.Number == number })
	if i >= 0 && ends[i].Kind != "" {
		return a.endOfOther(ctx, w, ends[i])
	}
	if i >= 0 {
		end = modelstep.ToolEnd{Status: string(ends[i].Status), Error: ends[i].Error}
		if ends[i].Run == uuid.Nil || end.Error == nil && ends[i].Status != stepmachine.CallExecuted {
			return end, nil
		}
		at, err := a.d.Runs.Seen(ctx, flow.RunRef{TenantID: w.Turn.TenantID, RunID: ends[i].Run})
		if err != nil {
			return end, err
		}
		if end.Error == nil {
			end.Result, end.Headers = at.Run.Note.Told(at.Run.Result), at.Run.Note.Headers
		} else if f := at.Run.Fault(); f != nil { // the row has the words, the history only the code
			end.Error = stepmachine.OfFault(f)
			end.Error.ProviderError = at.Run.ProviderError.Brief()
		}
		return end, nil
	}
	if number >= model.MaxCalls {
		return modelstep.ToolEnd{Status: string(stepmachine.CallFailed), Error: stepmachine.NewError(flow.CodeNotMade, model.NotMade)}, nil
	}
	means, err := a.resolve(ctx, w, call)
	switch {
	case err != nil:
		return end, err
	case means.Failed != nil:
		return modelstep.ToolEnd{Status: string(stepmachine.CallFailed), Error: means.Failed}, nil
	case means.Platform != "":
		return a.platform(ctx, w, means, number)
	case means.Answer != nil:
		if means.Grown != nil {
			w.next.Tools, w.tools = means.Grown, Toolset{Stored: means.Grown}
		}
		return modelstep.ToolEnd{Status: string(stepmachine.CallExecuted), Result: means.Answer}, nil
	default:
		return modelstep.ToolEnd{Status: string(stepmachine.CallFailed), Error: stepmachine.NewError(flow.CodeNotMade, "the agent may make no further calls for this message")}, nil
	}
}

// stepOf is the place of a call in its message.
func stepOf(answer, number int) string { return fmt.Sprintf("answers/%d/calls/%d", answer, number) }

// Call claims the run of a call that the agent has asked for, and takes it as far as it goes without
// waiting. It can be repeated: the call always gets the same run.
func (a *Answerer) Call(ctx context.Context, in flow.TurnCall) (flow.MapCallEnd, error) {
	w, means, err := a.asked(ctx, in)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	t := w.Turn
	if means.Failed != nil {
		return refused(means.Failed), nil
	}
	metadata, err := a.metadata(ctx, w, means.Args)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	tells := a.tellsOf(w, in, means)
	step, who := stepOf(in.Answer, in.Number), t.Starter()
	req := run.Request{
		Verb: means.Verb.String(), Args: means.Args, SessionID: t.SessionID, Metadata: metadata, DryRun: t.DryRun(),
		Origin: run.Origin{
			Kind: actor.Agent, KeyID: who.KeyID(), AgentID: &t.AgentID, CustomerID: t.Customer, ParentID: &t.ExecutionID, Step: &step, WorkflowID: in.Workflow, Driver: flow.DriverMessage,
		},
		StepKey: run.StepKey(t.ExecutionID, step, 0, 0), Unsettled: run.UnsettledOfChain,
		ExpiresIn: run.StepDeadline(in.Deadline, a.d.Now()), Claimed: tells.claimed,
	}
	at, err := a.d.Runs.Step(ctx, who, req, func(b *db.Batch, execution string) {
		a.d.Conversations.QueueRun(b, t, in.Answer, in.Number, conversation.Run{Verb: req.Verb, ExecutionID: execution})
		tells.queueBegin(b)
	})
	if f := fault.As(err); f != nil && f.Code != fault.CodeServiceUnavailable && f.Code != fault.CodeInternal {
		tells.refused(ctx, f)
		return refused(stepmachine.OfFault(f)), nil
	}
	if err == nil && at.Run.State == run.StateIntercepted {
		return a.intercepted(ctx, at, in.Workflow)
	}
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	tells.seen(ctx, at)
	end := endOfRun(at)
	end.Followed = tells != nil
	return end, a.pause(ctx, &in.TurnRef, false, at.Step.SwitchedOff)
}

// pause shows that a message waits because a kill switch covers a call of it, or no longer does.
func (a *Answerer) pause(ctx context.Context, turn *flow.TurnRef, was, is bool) error {
	if was == is || turn == nil {
		return nil
	}
	return a.d.Conversations.Pause(ctx, *turn, is)
}

// intercepted gives a write of a dry run to a workflow of its own, which sends it where people approve
// it, also after the end of the goal.
func (a *Answerer) intercepted(ctx context.Context, at run.Progress, driver string) (flow.MapCallEnd, error) {
	ref := flow.RunRef{TenantID: at.Run.TenantID, RunID: at.Run.ID, Attempt: at.Run.Attempt}
	if _, err := a.d.Runs.HandOver(ctx, ref, driver); err != nil {
		return flow.MapCallEnd{}, err
	}
	at, err := a.d.Runs.Seen(ctx, ref)
	end := endOfRun(at)
	end.HandedOver = true
	return end, err
}

// unnamed returns the first address in the arguments of a call that neither the tenant nor the customer
// has named, in a session that has read what others wrote; "" where there is none.
func (a *Answerer) unnamed(ctx context.Context, w *work, args json.RawMessage) (string, error) {
	if !w.tainted() || taint.Unnamed(args) == "" {
		return "", nil
	}
	tenant, err := json.Marshal(w.Agent.Definition)
	if err != nil {
		return "", fmt.Errorf("answering: %w", err)
	}
	named := taint.Texts(tenant)
	said, frame := w.Work, &w.frame
	if chain := w.Turn.Chain.Turns; w.Turn.ParentID != "" {
		// Another model has written the message. People have written the first one above it.
		if len(chain) == 0 {
			return taint.Unnamed(args, named...), nil
		}
		if said, _, err = a.d.Conversations.Load(ctx, flow.TurnRef{TenantID: w.Turn.TenantID, ID: chain[0].ID}); err != nil {
			return "", err
		}
		if frame = nil; said.Turn.ID != chain[0].ID || said.Turn.ParentID != "" { // it is erased
			return taint.Unnamed(args, named...), nil
		}
	}
	if named = append(named, said.Turn.Message); taint.Unnamed(args, named...) == "" {
		return "", nil
	}
	if err := a.d.Conversations.ReadHistory(ctx, &said, frame); err != nil {
		return "", err
	}
	for _, e := range said.History {
		if e.Kind == conversation.KindCustomer || e.Kind == conversation.KindPerson {
			named = append(named, e.Message.Text)
		}
	}
	return taint.Unnamed(args, named...), nil
}

// metadata is what policies and people see of a call besides its arguments.
func (a *Answerer) metadata(ctx context.Context, w *work, args json.RawMessage) (json.RawMessage, error) {
	t := w.Turn
	unnamed, err := a.unnamed(ctx, w, args)
	if err != nil {
		return nil, err
	}
	about := map[string]any{
		"agent_id": t.AgentID, "tainted": w.tainted(), "taint_sources": w.sources(),
		"agent": map[string]any{"name": w.Agent.Definition.Name, "version": t.Version, "executionMode": w.Agent.Definition.ExecutionMode},
	}
	if unnamed != "" {
		about[governance.MemberUnnamed] = unnamed
	}
	if t.SessionID != "" {
		about["session_id"] = t.SessionID
	}
	if t.Customer != nil {
		about["customer_id"] = t.Customer
	}
	return withWords(t, about)
}

// withWords returns metadata of what a message leads to, with what its caller has written.
func withWords(t conversation.Turn, about map[string]any) (json.RawMessage, error) {
	words := governance.Words{Metadata: t.Metadata}
	if t.Customer != nil { // otherwise the key's messages are for nobody, whatever they say
		words.Customer = t.CustomerName
	}
	words.Write(about)
	raw, err := json.Marshal(about)
	if err != nil {
		return nil, fmt.Errorf("answering: %w", err)
	}
	return raw, nil
}

// refused is the end of a call that has no run.
func refused(why *stepmachine.Error) flow.MapCallEnd {
	// The words are ours, so they taint nothing.
	return flow.MapCallEnd{Private: flow.IsPrivate(), Weighed: true, Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Status: stepmachine.CallFailed, Error: why, MayRepeat: true}}
}

// endOfRun returns the progress of a run as the workflow takes it.
func endOfRun(at run.Progress) flow.MapCallEnd {
	r := at.Run
	out := flow.MapCallEnd{Private: flow.IsPrivate(), Run: flow.RunRef{TenantID: r.TenantID, RunID: r.ID, Attempt: r.Attempt}, Step: at.Step}
	if !at.Step.Done {
		return out
	}
	out.End = stepmachine.CallEnd{Sent: r.Sends > 0, Wrote: at.Writes && r.State == run.StateExecuted}
	switch r.State {
	case run.StateExecuted:
		out.End.Status = stepmachine.CallExecuted
	case run.StateIntercepted:
		out.End.Status = stepmachine.CallIntercepted
	case run.StateOutcomeUnknown:
		out.End.Status = stepmachine.CallUnknown
	case run.StateCancelled:
		out.End.Status = stepmachine.CallCancelled
	default:
		out.End.Status = stepmachine.CallFailed
	}
	if f := r.Fault(); f != nil {
		out.End.Error = stepmachine.OfFault(f)
		out.End.Error.Detail = "" // people's words are in the row
		if r.State == run.StateRejected {
			out.End.Error.Type = stepmachine.TypeRejected
		}
		if r.State == run.StateExpired {
			out.End.Error.Type = stepmachine.TypeExpired
		}
	}
	out.Weigh(r.Verb.String(), r.Trusted)
	return out
}

// GoOn takes the run of a call further, or reads how far it is.
func (a *Answerer) GoOn(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	handedOver := in.Look
	if in.HandOver {
		if _, err := a.d.Runs.HandOver(ctx, in.Run, in.Parent); err != nil {
			return flow.MapCallEnd{}, err
		}
		handedOver = true
	}
	look := a.d.Runs.GoOn
	if handedOver {
		look = a.d.Runs.Seen
	}
	at, err := look(ctx, in.Run)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	tells, err := a.tellsAgain(ctx, in.Followed)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	tells.seen(ctx, at)
	end := endOfRun(at)
	end.HandedOver, end.Followed = handedOver, in.Followed != nil
	return end, a.pause(ctx, in.Turn, in.SwitchedOff, at.Step.SwitchedOff)
}

// Stop ends the run of a call that was not sent, and returns how far it is then.
func (a *Answerer) Stop(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	if err := a.d.Runs.Stop(ctx, in.Run); err != nil {
		return flow.MapCallEnd{}, err
	}
	at, err := a.d.Runs.Seen(ctx, in.Run)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	if !at.Step.Done && !in.Look {
		return a.GoOn(ctx, in)
	}
	tells, err := a.tellsAgain(ctx, in.Followed)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	tells.seen(ctx, at)
	end := endOfRun(at)
	end.HandedOver, end.Followed = in.Look, in.Followed != nil
	return end, a.pause(ctx, in.Turn, in.SwitchedOff, false)
}

// Look returns what others want of a message.
func (a *Answerer) Look(ctx context.Context, ref flow.TurnRef) (flow.TurnNews, error) {
	return a.d.Conversations.News(ctx, ref)
}

// Resume asks for the session again.
func (a *Answerer) Resume(ctx context.Context, ref flow.TurnRef) (flow.TurnNews, error) {
	return a.d.Conversations.Resume(ctx, ref)
}

// End ends a message without a further answer.
func (a *Answerer) End(ctx context.Context, in flow.TurnEnd) (flow.TurnNews, error) {
	loaded, _, err := a.d.Conversations.Load(ctx, in.TurnRef)
	if err != nil {
		return flow.TurnNews{}, err
	}
	w := &work{Work: loaded, in: flow.TurnStep{Actions: in.Actions, Late: in.Late}, ended: true}
	w.asGoal()
	if w.Turn.State == conversation.Ended {
		return flow.TurnNews{Over: true, Status: stepmachine.Status(w.Turn.Status)}, a.afterTakeOver(ctx, w, in)
	}
	w.find(len(w.Answers))
	if len(w.Answers) == in.Answer { // otherwise the model has answered once more, and heard of them
		w.in.Ends = in.Ends
	}
	written := w.frame.Part != int(w.Turn.Replies) // all was written with the last reply
	if written {
		w.from = len(w.Answers)
	}
	w.next.Ends, w.next.Late = w.in.Ends, w.in.Late
	if w.next.Added, err = a.told(ctx, w, cancelled); err != nil {
		return flow.TurnNews{}, err
	}
	r := w.ending(conversation.StatusCancelled, agentloop.Cancelled)
	if r.Entries = conversation.Added(w.next.Added); !written {
		r.Entries = w.said()
	}
	if err := a.d.Conversations.EndPart(ctx, w.Work, r); err != nil {
		return flow.TurnNews{}, err
	}
	return flow.TurnNews{Over: true, Status: stepmachine.StatusCancelled}, nil
}
