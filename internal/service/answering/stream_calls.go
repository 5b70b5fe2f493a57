package answering

import (
	"context"

	"agentruntime/db"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// callTeller streams what becomes of a call. Its methods do nothing where it is nil.
type callTeller struct {
	a    *Answerer
	w    conversation.Work
	call conversation.ToldCall
}

// noText is the writer of what is no text.
const noText = 0

// tellsOf returns what streams a call of a message; nil where nobody follows that.
func (a *Answerer) tellsOf(w *work, in flow.TurnCall, means Resolved) *callTeller {
	if !w.follows() {
		return nil
	}
	call := conversation.ToldCall{CallID: stepOf(in.Answer, in.Number)}
	switch starts := means.Starts; {
	case starts == nil:
		call.Verb = means.Verb.String()
	case starts.Kind == flow.KindMessage:
		call.AgentID = &starts.ID
	default:
		call.MapID = &starts.ID
	}
	return &callTeller{a, w.Work, call}
}

func (t *callTeller) begun() conversation.Telling {
	return conversation.Telling{Event: conversation.ToldStarted, Body: t.call, About: "started " + t.call.CallID}
}

func (t *callTeller) ended(status string, executionID *string) conversation.Telling {
	call := t.call
	call.Status, call.ExecutionID = status, executionID
	return conversation.Telling{Event: conversation.ToldFinished, Body: call, About: "finished " + call.CallID}
}

// queueBegin tells with the claim of what the call starts, and claimed when that is committed.
func (t *callTeller) queueBegin(b *db.Batch) {
	if t != nil {
		t.a.d.Conversations.QueueTellings(b, t.w, noText, t.begun())
	}
}

func (t *callTeller) claimed() {
	if t != nil {
		t.a.d.Conversations.Wake(t.w.Turn)
	}
}

// refused tells of a call that has started nothing. It may not have begun.
func (t *callTeller) refused(ctx context.Context, f *fault.Error) {
	if t == nil {
		return
	}
	status := run.StateRefused.Status()
	if f.Code == fault.CodeGovernanceBlocked {
		status = string(run.StateBlocked)
	}
	t.tell(ctx, t.begun(), t.ended(status, nil))
}

// seen tells how far the run of the call is, where that is its end, or that people are asked.
func (t *callTeller) seen(ctx context.Context, at run.Progress) {
	switch {
	case t == nil:
	case at.Step.Done:
		t.call.Verb = at.Run.Verb.String()
		t.tell(ctx, t.ended(at.Run.State.Status(), &at.Run.ExecutionID))
	default:
		t.asked(ctx, at.Step.ApprovalID)
	}
}

// seenOther is seen for another execution that the call has started.
func (t *callTeller) seenOther(ctx context.Context, other startedOther) {
	switch {
	case t == nil:
	case other.at.Done:
		t.call.MapID, t.call.AgentID = other.run.MapID, other.run.AgentID
		t.tell(ctx, t.ended(other.status, &other.run.ExecutionID))
	default:
		t.asked(ctx, other.at.ApprovalID)
	}
}

// asked tells that people are asked; approval is "" where they are not.
func (t *callTeller) asked(ctx context.Context, approval string) {
	if approval != "" {
		t.tell(ctx, conversation.Telling{Event: conversation.ToldApproval, Body: conversation.ToldAsked{ApprovalID: approval}, About: "asked " + approval})
	}
}

// tell streams. What cannot be streamed does not hold the call up.
func (t *callTeller) tell(ctx context.Context, tellings ...conversation.Telling) {
	if err := t.a.d.Conversations.Stream(ctx, t.w, noText, tellings...); err != nil {
		t.a.d.Log.WarnContext(ctx, "a call was not streamed", "turn", t.w.Turn.ID, "error", err)
	}
}

// tellsAgain returns what streams a call that goes on; nil where nobody follows its message.
func (a *Answerer) tellsAgain(ctx context.Context, in *flow.TurnCall) (*callTeller, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // see above
	}
	w, err := a.d.Conversations.Followed(ctx, in.TurnRef)
	return &callTeller{a, w, conversation.ToldCall{CallID: stepOf(in.Answer, in.Number)}}, err
}
