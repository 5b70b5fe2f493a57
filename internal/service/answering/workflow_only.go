package answering

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// workflowTool is the name of the one call of a message to an agent of the mode workflow_only. No model
// asks for it: it starts the agent's Map, or answers what that asks.
const workflowTool = "workflow"

// workflowCall are the arguments of that call.
type workflowCall struct {
	// Start is the trigger_data of the Map; nil where the message answers the Question of the Execution.
	Start     json.RawMessage `json:"start,omitempty"`
	Execution uuid.UUID       `json:"execution,omitzero"`
	Question  string          `json:"question,omitempty"`
	// Actions are those that the execution had made before.
	Actions int32 `json:"actions,omitempty"`
}

// runsMap reports whether the agent works by its Map alone.
func (w *work) runsMap() bool { return w.Agent.Definition.ExecutionMode == agentdef.WorkflowOnly }

// runMap is Answer for an agent of the mode workflow_only.
func (a *Answerer) runMap(ctx context.Context, w *work) (flow.TurnNext, error) {
	if len(w.Answers) > 0 {
		return a.endMap(ctx, w)
	}
	if w.wantsPerson() {
		if err := a.prepare(ctx, w); err != nil {
			return flow.TurnNext{}, err
		}
		return a.end(ctx, w, w.escalated("The customer asks for a person.", "", agentloop.Escalated))
	}
	call, err := a.workflowOf(ctx, w)
	if f := fault.As(err); f != nil && f.Code == fault.CodeSessionBusy {
		return a.end(ctx, w, w.failed(stepmachine.OfFault(f), agentloop.MapRunning))
	}
	if err != nil {
		return flow.TurnNext{}, err
	}
	args, err := exactjson.Encode(call)
	if err != nil {
		return flow.TurnNext{}, fmt.Errorf("answering: %w", err)
	}
	w.next = conversation.Answer{
		Purpose: model.Reply, Frame: &conversation.Frame{Part: w.in.Part}, BeganAt: a.d.Now(),
		Response: model.Response{Calls: []model.ToolCall{{ID: workflowTool, Name: workflowTool, Args: args}}, Finish: model.Calling},
	}
	stored, err := a.d.Conversations.EndAnswer(ctx, w.Work, w.next, nil, func(*db.Batch, bool) {})
	if err != nil {
		return flow.TurnNext{}, err
	}
	if !stored {
		return a.Answer(ctx, w.in) // another attempt was first
	}
	w.Answers = append(w.Answers, w.next)
	return a.follow(ctx, w, w.next.Response.Calls)
}

// workflowOf returns what the message does: it answers the Map of the session that asks, or starts one.
// It refuses with SESSION_BUSY where that Map runs and asks nothing.
func (a *Answerer) workflowOf(ctx context.Context, w *work) (call workflowCall, err error) {
	t := w.Turn
	last, err := a.d.Conversations.MapOfSession(ctx, t)
	if err != nil {
		return call, err
	}
	if last != "" {
		e, err := a.d.Maps.ReadByName(ctx, t.TenantID, last)
		switch asks := e.Waits(); {
		case fault.HasCode(err, fault.CodeExecutionNotFound): // it was forgotten
		case err != nil:
			return call, err
		case e.Ended():
		case asks != nil && asks.For == stepmachine.WaitsInput && asks.Question() != "":
			return workflowCall{Execution: e.ID, Question: asks.Question(), Actions: e.Actions}, nil
		default:
			return call, fault.New(fault.CodeSessionBusy, "The workflow of this session is at work and asks nothing.")
		}
	}
	call.Start, err = exactjson.Encode(map[string]any{
		"message": t.Message, "session_id": db.Optional(t.SessionID), "customer_id": t.Customer, "metadata": t.Metadata,
	})
	return call, err
}

// means returns what the call of a message does.
func (w *work) workflowMeans(call model.ToolCall) (Resolved, error) {
	c := &workflowCall{}
	if err := strictjson.Decode(call.Args, c, strictjson.Options{}); err != nil {
		return Resolved{}, fmt.Errorf("answering: the call of a workflow: %w", err)
	}
	return Resolved{Starts: &Start{Kind: flow.KindMap, ID: *w.Agent.Definition.MapID}, Args: c.Start, workflow: c}, nil
}

// answerMap gives the message to the Map that asks. It can be repeated: the Map gets it once.
func (a *Answerer) answerMap(ctx context.Context, w *work, means Resolved, in flow.TurnCall, tells *callTeller) (startedOther, error) {
	t, call := w.Turn, means.workflow
	if _, sent := w.Answers[in.Answer].Runs[in.Number]; !sent {
		data, err := exactjson.Encode(t.Message)
		if err != nil {
			return startedOther{}, fmt.Errorf("answering: %w", err)
		}
		metadata, err := mapMetadata(t)
		if err != nil {
			return startedOther{}, err
		}
		err = a.d.Maps.AnswerForTurn(ctx, agentActor(t), execution.TurnAnswer{
			ID: call.Execution, Workflow: in.Workflow, Chain: w.chain(), Tainted: w.tainted(), TaintSources: w.sources(), Metadata: metadata, Data: data,
			Also: func(b *db.Batch, executionID string) {
				a.d.Conversations.QueueRun(b, t, in.Answer, in.Number, conversation.Run{MapID: &means.Starts.ID, ExecutionID: executionID})
				tells.queueBegin(b)
			},
		})
		if err != nil {
			return startedOther{}, err
		}
	}
	e, err := a.d.Maps.ReadForTurn(ctx, t.TenantID, call.Execution, false)
	if err != nil {
		return startedOther{}, err
	}
	other := ofMap(e)
	other.at.Answered = call.Question
	other.at = asksOf(e, other.at, call.Question)
	return other, nil
}

// asksOf returns how far a Map is of an agent of the mode workflow_only: one that asks is at its end for
// the message. answered is the question that the message has answered.
func asksOf(e execution.Execution, at flow.TurnOther, answered string) flow.TurnOther {
	waits := e.Waits()
	if e.Chain.Driver() == nil || e.Ended() || waits == nil || waits.For != stepmachine.WaitsInput || waits.Question() == "" {
		return at
	}
	at.Rests = false
	if waits.Question() != answered {
		at.Done, at.End = true, stepmachine.CallEnd{Status: flow.CallAsks, Actions: int(e.Actions)}
	}
	return at
}

// endMap ends the message, or a part of it, with what its Map has done.
func (a *Answerer) endMap(ctx context.Context, w *work) (flow.TurnNext, error) {
	ends := slices.Clone(w.in.Ends)
	for _, late := range w.in.Late {
		ends = append(ends, late.MapToolEnd)
	}
	calls := w.Answers[0].Response.Calls
	if len(ends) == 0 || len(calls) == 0 {
		return flow.TurnNext{}, fmt.Errorf("answering: the workflow of %s has no end", w.Turn.ID)
	}
	w.find(len(w.Answers))
	w.next.Ends = ends
	means, err := w.workflowMeans(calls[0])
	if err != nil {
		return flow.TurnNext{}, err
	}
	end := ends[len(ends)-1]
	if end.Run == uuid.Nil {
		return a.end(ctx, w, w.failed(notStartedError(end.Error), agentloop.MapFailed))
	}
	e, err := a.d.Maps.ReadForTurn(ctx, w.Turn.TenantID, end.Run, false)
	if err != nil {
		return flow.TurnNext{}, err
	}
	r, err := a.replyOfMap(ctx, w, e, end)
	if err != nil {
		return flow.TurnNext{}, err
	}
	if r.Error != nil { // the caller gets the reply. All that see the message read its error
		shown, err := a.d.Maps.Shown(ctx, e)
		if err != nil {
			return flow.TurnNext{}, err
		}
		r.Error = shown.Error
	}
	r.Actions = int(e.Actions - means.workflow.Actions)
	r.Governance = e.Governance
	r.Entries = nil
	if w.in.Part == 0 {
		r.Entries = append(r.Entries, conversation.Entry{Kind: conversation.KindCustomer, Message: agentloop.Customer(w.Turn.Message)})
	}
	said := *r.Text
	if r.Stop == agentloop.MapCompleted { // a model reads the session where the agent changes its mode
		if said, err = a.saidOfMap(ctx, w, e); err != nil {
			return flow.TurnNext{}, err
		}
	}
	r.Entries = append(r.Entries, conversation.Entry{Kind: conversation.KindAgent, Message: model.Message{Role: model.Assistant, Text: said}})
	return a.end(ctx, w, r)
}

// saidOfMap returns the reply that the output of a Map leads to, as models read it. The caller gets it in
// the clear, as the caller of a trigger does.
func (a *Answerer) saidOfMap(ctx context.Context, w *work, e execution.Execution) (string, error) {
	output, err := a.d.Maps.OutputForModel(ctx, e)
	return cmp.Or(shortened(textOf(output)), w.apology(agentloop.MapCompleted)), err
}

// notStartedError is why a Map was not started, as callers of a message see it.
func notStartedError(why *stepmachine.Error) *stepmachine.Error {
	switch {
	case why == nil:
		return stepmachine.NewError(string(fault.CodeConflict), "The workflow of the agent was not started.")
	case why.Code == string(fault.CodeInvalidArgs):
		return why
	}
	return stepmachine.NewError(string(fault.CodeConflict), "The workflow of the agent was not started: "+why.Detail)
}

// replyOfMap returns the reply that a Map leads to: its output, its question, or that it goes on.
func (a *Answerer) replyOfMap(ctx context.Context, w *work, e execution.Execution, end flow.MapToolEnd) (*conversation.Reply, error) {
	text := ""
	var r conversation.Reply
	switch {
	case end.Status == flow.CallAsks && !e.Ended(): // an answer may have come since: then it goes on, or has ended
		question, err := a.d.Maps.Question(ctx, e)
		if err != nil {
			return nil, err
		}
		if r, text = w.ending(conversation.StatusCompleted, agentloop.NeedsInput), question; question == "" {
			r, text = w.ending(conversation.StatusCompleted, agentloop.MapRunning), w.apology(agentloop.MapRunning)
		}
	case e.Status == stepmachine.StatusCompleted:
		r, text = w.ending(conversation.StatusCompleted, agentloop.MapCompleted), cmp.Or(shortened(textOf(e.Output)), w.apology(agentloop.MapCompleted))
	case e.Ended() && w.Agent.Definition.Escalation.OnFailure:
		failed := w.escalated("The workflow has failed.", "", agentloop.MapFailed)
		failed.Error = e.Error
		return failed, nil
	case e.Ended():
		r, text = w.ending(conversation.StatusFailed, agentloop.MapFailed), w.apology(agentloop.MapFailed)
		r.Error = e.Error
	case e.Status == stepmachine.StatusEscalated:
		r, text = w.ending(conversation.StatusEscalated, agentloop.Escalated), w.apology(agentloop.Escalated)
		r.State = conversation.Waiting
	case e.Status == stepmachine.StatusPending:
		r, text = w.ending(conversation.StatusPending, agentloop.PendingApproval), w.apology(agentloop.PendingApproval)
		r.State = conversation.Waiting
	default:
		r, text = w.ending(conversation.StatusRunning, agentloop.MapRunning), w.apology(agentloop.MapRunning)
		r.State = conversation.Waiting
	}
	r.Text = &text
	return &r, nil
}

// shortened returns the beginning of a reply that is longer than one of a model may be: sessions, events
// and lists have replies in full. The execution of the Map has all of its output.
func shortened(text string) string {
	if len(text) <= agentloop.MaxAnswer {
		return text
	}
	return strings.ToValidUTF8(text[:agentloop.MaxAnswer-len(more)], "") + more
}

// more is at the end of what was shortened.
const more = "…"

// textOf returns the reply that an output is: a text, its member message, or else its JSON; "" for none.
func textOf(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil && text != "" {
		return text
	}
	var about struct{ Message *string }
	if json.Unmarshal(output, &about) == nil && about.Message != nil {
		return *about.Message
	}
	if len(output) == 0 || string(output) == "null" || string(output) == `""` {
		return ""
	}
	return string(output)
}
