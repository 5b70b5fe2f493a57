package answering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
)

// Start is an execution that a call starts: of a Map, in this version.
type Start struct {
	Kind    flow.Kind
	ID      uuid.UUID
	Version int32
}

// saidMost is how many of the customer's messages tell what to start. A message such as an order's
// number answers what the agent has asked, and the one before says what it is about.
const saidMost = 4

// customerSaid returns the customer's messages, the newest first.
func (w *work) customerSaid() []string {
	said := []string{w.Turn.Message}
	for i := len(w.History) - 1; i >= 0 && len(said) < saidMost; i-- {
		if text, ok := agentloop.CustomerText(w.History[i].Message); ok {
			said = append(said, text)
		}
	}
	return said
}

// joined returns two texts as one.
func joined(a, b string) string { return strings.TrimSpace(a + "\n\n" + b) }

// goesOn reports whether the call had not ended when the agent was told of it.
func goesOn(end flow.MapToolEnd) bool {
	return end.Status == flow.CallPending || end.Status == flow.CallRunning || end.Open
}

// lateWords tells the model why it hears of a call that it has asked for before. words are those about
// a run.
func lateWords(end flow.MapToolEnd, words, name string) string {
	if end.Kind != "" && words == decided {
		words = "What the call %s has started has ended. Tell the customer what came of it, and go on where that is needed."
	}
	return fmt.Sprintf(words, name)
}

// asked returns the work of a turn, with a call that one of its answers asks for.
func (a *Answerer) asked(ctx context.Context, in flow.TurnCall) (*work, Resolved, error) {
	loaded, over, err := a.d.Conversations.Load(ctx, in.TurnRef)
	if err != nil {
		return nil, Resolved{}, err
	}
	w := &work{Work: loaded}
	w.asGoal()
	if over && loaded.Turn.State == conversation.Ended {
		return w, Resolved{Failed: stepmachine.NewError("NOT_MADE", "the message has ended")}, nil
	}
	if in.Answer >= len(w.Answers) || in.Number >= len(w.Answers[in.Answer].Response.Calls) {
		return nil, Resolved{}, fmt.Errorf("answering: the agent has asked for no call %d in answer %d", in.Number, in.Answer)
	}
	w.find(in.Answer)
	means, err := a.resolve(ctx, w, w.Answers[in.Answer].Response.Calls[in.Number])
	return w, means, err
}

// StartOther starts another execution for a message. It can be repeated: the call always gets the same
// one. One that is refused is the end of the call.
func (a *Answerer) StartOther(ctx context.Context, in flow.TurnCall) (flow.TurnOther, error) {
	w, means, err := a.asked(ctx, in)
	if err != nil {
		return flow.TurnOther{}, err
	}
	if means.Failed != nil {
		return notStarted(means.Failed), nil
	}
	if means.Starts == nil {
		return flow.TurnOther{}, errors.New("answering: the call starts nothing")
	}
	begin := a.startMap
	if means.Starts.Kind == flow.KindMessage {
		begin = a.askAgent
	}
	if means.workflow != nil && means.workflow.Start == nil {
		begin = a.answerMap
	}
	tells := a.tellsOf(w, in, means)
	other, err := begin(ctx, w, means, in, tells)
	if f := fault.As(err); f != nil && f.Code != fault.CodeServiceUnavailable && f.Code != fault.CodeInternal {
		tells.refused(ctx, f)
		return notStarted(stepmachine.OfFault(f)), nil
	}
	if err != nil {
		return flow.TurnOther{}, err
	}
	tells.claimed()
	tells.seenOther(ctx, other)
	other.at.Followed = tells != nil
	return other.at, nil
}

// startedOther is another execution that a call has started.
type startedOther struct {
	// at is how far it is, as the workflow of the message takes it, and status what callers see.
	at     flow.TurnOther
	status string
	run    conversation.Run
}

func notStarted(why *stepmachine.Error) flow.TurnOther {
	return flow.TurnOther{Private: flow.IsPrivate(), Done: true, End: stepmachine.CallEnd{Status: stepmachine.CallFailed, Error: why, MayRepeat: true}}
}

// chain returns what stands above an execution that the message starts.
func (w *work) chain() agentloop.Chain {
	limits, above := w.Agent.Definition.Limits, w.Turn.Chain
	self := agentloop.Caller{ID: w.Turn.ID, AgentID: w.Turn.AgentID, Tokens: limits.Tokens, MoneyMicros: limits.MoneyMicros}
	if w.runsMap() {
		self.Drives = w.Turn.Version
	}
	return agentloop.Chain{Turns: append(slices.Clone(above.Turns), self), Maps: above.Maps}
}

// stopsAny is stops, also by the limits of the messages above.
func (a *Answerer) stopsAny(ctx context.Context, w *work) (agentloop.Stop, error) {
	if stop := a.stops(w); stop != "" {
		return stop, nil
	}
	tokens, money, err := a.d.Conversations.Spent(ctx, w.Turn.TenantID, w.Turn.Chain)
	switch {
	case tokens:
		return agentloop.TokenBudget, err
	case money:
		return agentloop.MoneyBudget, err
	}
	return "", err
}

// askAgent writes a message to another agent.
func (a *Answerer) askAgent(ctx context.Context, w *work, means Resolved, in flow.TurnCall, tells *callTeller) (startedOther, error) {
	var args struct{ Message string }
	if json.Unmarshal(means.Args, &args) != nil || strings.TrimSpace(args.Message) == "" {
		return startedOther{}, fault.New(fault.CodeInvalidArgs, "message is a text: what the agent is to do.")
	}
	t, id := w.Turn, means.Starts.ID
	asked, err := a.d.Conversations.Ask(ctx, t.Starter(), conversation.Call{
		AgentID: id, Version: means.Starts.Version, Message: args.Message, Execution: t.ExecutionID, Workflow: in.Workflow, Step: stepOf(in.Answer, in.Number),
		By: agentActor(t), Chain: w.chain(), Customer: t.Customer, CustomerName: t.CustomerName, Metadata: t.Metadata, Tainted: w.tainted(), TaintSources: w.sources(),
		Also: func(b *db.Batch, executionID string) {
			a.d.Conversations.QueueRun(b, t, in.Answer, in.Number, conversation.Run{AgentID: &id, ExecutionID: executionID})
			tells.queueBegin(b)
		},
	})
	if err != nil {
		return startedOther{}, err
	}
	return ofAsked(asked), nil
}

// ofAsked returns how far a message to another agent is.
func ofAsked(t conversation.Turn) startedOther {
	return startedOther{endOfAsked(t), string(t.Status), conversation.Run{AgentID: &t.AgentID, ExecutionID: t.ExecutionID}}
}

// ofMap returns how far a Map is.
func ofMap(e execution.Execution) startedOther {
	return startedOther{endOfMap(e), string(e.Status), conversation.Run{MapID: &e.MapID, ExecutionID: e.ExecutionID}}
}

// agentActor returns the agent of a message as who does something.
func agentActor(t conversation.Turn) actor.Actor {
	return actor.Actor{Kind: actor.Agent, TenantID: t.TenantID, ID: t.AgentID, RequestID: t.RequestID, SourceAddr: t.SourceAddr}
}

// endOfAsked returns how far a message to another agent is, as the workflow of the message takes it.
func endOfAsked(t conversation.Turn) flow.TurnOther {
	out := flow.TurnOther{Private: flow.IsPrivate(), Other: t.ID, Tainted: t.Tainted, Sources: t.TaintSources, Done: t.State == conversation.Ended}
	if !out.Done {
		if out.Rests = t.State == conversation.Waiting; out.Rests && t.Status != conversation.StatusRunning {
			out.ApprovalID, out.People = t.ApprovalID, true
		}
		return out
	}
	out.End = stepmachine.CallEnd{Status: stepmachine.CallExecuted, Actions: int(t.Actions), Error: t.Error}
	if t.Status == conversation.StatusFailed {
		out.End.Status = stepmachine.CallFailed
	}
	if t.Status == conversation.StatusCancelled {
		out.End.Status = stepmachine.CallCancelled
	}
	return out
}

// endOfMessage returns how far a message to another agent is, as the model hears it.
func (a *Answerer) endOfMessage(ctx context.Context, w *work, end flow.MapToolEnd) (modelstep.ToolEnd, error) {
	told := modelstep.ToolEnd{Status: string(end.Status), Error: end.Error}
	t, err := a.d.Conversations.ReadForCaller(ctx, flow.TurnRef{TenantID: w.Turn.TenantID, ID: end.Run}, actor.Actor{}, false)
	if err != nil {
		return told, err
	}
	about := map[string]any{"execution_id": t.ExecutionID, "status": t.Status, "stop_reason": t.Stop}
	switch {
	case t.Stop == agentloop.MapCompleted:
		e, err := a.d.Maps.ReadByName(ctx, t.TenantID, t.MapExecution)
		if err == nil {
			about["message"], err = a.saidOfMap(ctx, w, e)
		}
		if err != nil {
			return told, err
		}
	case t.Reply != nil:
		about["message"] = *t.Reply
	}
	told.Result, err = exactjson.Encode(about)
	return told, err
}

func (a *Answerer) startMap(ctx context.Context, w *work, means Resolved, in flow.TurnCall, tells *callTeller) (startedOther, error) {
	t, id := w.Turn, means.Starts.ID
	metadata, err := mapMetadata(t)
	if err != nil {
		return startedOther{}, err
	}
	start := execution.TurnStart{
		MapID: id, Version: means.Starts.Version, Payload: means.Args, Message: t.ExecutionID, Workflow: in.Workflow, AgentID: t.AgentID,
		Step: stepOf(in.Answer, in.Number), Chain: w.chain(), SessionID: t.SessionID, Tainted: w.tainted(), TaintSources: w.sources(), Metadata: metadata,
		Also: func(b *db.Batch, executionID string) {
			a.d.Conversations.QueueRun(b, t, in.Answer, in.Number, conversation.Run{MapID: &id, ExecutionID: executionID})
			tells.queueBegin(b)
		},
	}
	if t.Customer != nil {
		start.Customer = t.Customer.String()
	}
	e, err := a.d.Maps.StartForTurn(ctx, t.Starter(), start)
	if err != nil {
		return startedOther{}, err
	}
	return ofMap(e), nil
}

// mapMetadata returns the metadata of a Map that a message starts, or goes on with.
func mapMetadata(t conversation.Turn) (json.RawMessage, error) {
	return withWords(t, map[string]any{"agent_id": t.AgentID, "customer": nil, "message": struct{}{}})
}

// endOfMap returns how far a Map is, as the workflow of the message takes it.
func endOfMap(e execution.Execution) flow.TurnOther {
	out := flow.TurnOther{Private: flow.IsPrivate(), Other: e.ID, Tainted: e.Tainted, Sources: e.Others(), Done: e.Ended()}
	if w := e.Waits(); w != nil && !out.Done {
		out.Rests = w.For != stepmachine.WaitsTimer
		out.ApprovalID, out.People = approvalOf(e), w.For == stepmachine.WaitsResolve
	}
	if !out.Done {
		return out
	}
	out.End = stepmachine.CallEnd{Status: stepmachine.CallFailed, Actions: int(e.Actions), Wrote: e.Wrote, Error: e.Error}
	if e.Status == stepmachine.StatusCompleted {
		out.End.Status = stepmachine.CallExecuted
	}
	if e.Status == stepmachine.StatusCancelled {
		out.End.Status = stepmachine.CallCancelled
	}
	return out
}

// approvalOf returns the approval that an execution waits for; "" for none.
func approvalOf(e execution.Execution) string {
	var w struct {
		ApprovalID string `json:"approval_id"`
	}
	_ = json.Unmarshal(e.WaitingFor, &w) // ours
	return w.ApprovalID
}

// LookAtOther returns how far an execution is that a message has started, and ends it where that is
// asked for.
func (a *Answerer) LookAtOther(ctx context.Context, in flow.TurnOtherRef) (flow.TurnOther, error) {
	other, err := a.other(ctx, in)
	if err != nil {
		return flow.TurnOther{}, err
	}
	tells, err := a.tellsAgain(ctx, in.Followed)
	if err != nil {
		return flow.TurnOther{}, err
	}
	tells.seenOther(ctx, other)
	return other.at, nil
}

// other reads an execution that a message has started.
func (a *Answerer) other(ctx context.Context, in flow.TurnOtherRef) (startedOther, error) {
	if in.Kind == flow.KindMessage {
		t, err := a.d.Conversations.ReadForCaller(ctx, flow.TurnRef{TenantID: in.TenantID, ID: in.Other}, actor.Actor{Kind: actor.System, TenantID: in.TenantID}, in.Stop)
		return ofAsked(t), err
	}
	e, err := a.d.Maps.ReadForTurn(ctx, in.TenantID, in.Other, in.Stop)
	if err != nil {
		return startedOther{}, err
	}
	other := ofMap(e)
	other.at = asksOf(e, other.at, in.Answered)
	return other, nil
}

// endOfOther returns how far an execution is that a call has started, as the model hears it.
func (a *Answerer) endOfOther(ctx context.Context, w *work, end flow.MapToolEnd) (modelstep.ToolEnd, error) {
	told := modelstep.ToolEnd{Status: string(end.Status), Error: end.Error}
	if end.Run == uuid.Nil {
		return told, nil
	}
	if end.Kind == flow.KindMessage {
		return a.endOfMessage(ctx, w, end)
	}
	e, err := a.d.Maps.ReadForTurn(ctx, w.Turn.TenantID, end.Run, false)
	if err != nil {
		return told, err
	}
	about := map[string]any{"execution_id": e.ExecutionID}
	switch {
	case goesOn(end):
		if waits := e.WaitsFor(); waits != "" {
			about["waiting_for"] = waits
		}
	case end.Status == stepmachine.CallExecuted:
		if about["output"], err = a.d.Maps.OutputForModel(ctx, e); err != nil {
			return told, err
		}
	}
	told.Result, err = exactjson.Encode(about)
	return told, err
}
