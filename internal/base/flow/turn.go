package flow

import (
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/maps/stepmachine"
)

// QueueTurns is the task queue of the messages to agents.
const QueueTurns = "turns"

// KindMessage is one message to an agent.
const KindMessage Kind = "message"

// KindGoal is one goal of an agent, which is driven as a message is.
const KindGoal Kind = "goal"

// Names under which the workflow of a message and its activities are registered. Calls go on by
// GoOnWithCall and StopCallOfMap, as those of the steps of Maps.
const (
	WorkflowAgentTurn = "AgentTurn"

	// AnswerTurn has the agent's model answer once, and ends the message with the last answer.
	AnswerTurn Activity[TurnStep, TurnNext] = "AnswerTurn"
	// CallFromTurn claims the run of a call that the agent asks for, governs and sends it.
	CallFromTurn Activity[TurnCall, MapCallEnd] = "CallFromTurn"
	// LookAtTurn reads what others want of a message.
	LookAtTurn Activity[TurnRef, TurnNews] = "LookAtTurn"
	// ResumeTurn asks for the session again, after a wait.
	ResumeTurn Activity[TurnRef, TurnNews] = "ResumeTurn"
	// EndTurn ends a message without a further answer.
	EndTurn Activity[TurnEnd, TurnNews] = "EndTurn"
)

// TurnRef names a message. Its row has everything else.
type TurnRef struct {
	TenantID uuid.UUID `json:"tenant_id"`
	ID       uuid.UUID `json:"id"`
}

// TurnInput starts an AgentTurn workflow.
type TurnInput struct {
	TurnRef
	// ShowsState: AttributeState is registered, so the workflow may set it.
	ShowsState bool `json:"shows_state,omitempty"`
	// ShowsHold: AttributeVerb is registered too, so a message whose call waits for people is found by
	// state and verb.
	ShowsHold bool `json:"shows_hold,omitempty"`
	// Parent is the workflow that hears of each reply and of the end; "" for none.
	Parent string `json:"parent,omitempty"`
	// Asks is the model that replies, as provider:model, for operators to read.
	Asks string `json:"asks,omitempty"`
	// Carried is the next step, where the history before had become too long; nil in the first one.
	Carried *TurnStep `json:"carried,omitempty"`
}

// TurnStep asks for the next answer.
type TurnStep struct {
	Private
	TurnRef
	// Answer is its number, from 0. Part counts how often the message waited before.
	Answer int `json:"answer"`
	Part   int `json:"part,omitempty"`
	// Attempt is that of the activity, which sets it itself.
	Attempt int32 `json:"-"`
	// Ends are the ends of the calls that the answer before has asked for, so far.
	Ends []MapToolEnd `json:"ends,omitempty"`
	// Late are those of the calls that had waited for people when the part before ended.
	Late []TurnLate `json:"late,omitempty"`
	// Actions counts the calls that were sent, Open those that have not ended, Running those of them that
	// wait for no person, Unsettled those whose outcome people must find out, and ApprovalID is that of the
	// last one that waits for an approval.
	Actions    int    `json:"actions,omitempty"`
	Open       int    `json:"open,omitempty"`
	Running    int    `json:"running,omitempty"`
	Unsettled  int    `json:"unsettled,omitempty"`
	ApprovalID string `json:"approval_id,omitempty"`
}

// TurnLate is the end of a call that had waited for people.
type TurnLate struct {
	Answer int `json:"answer"`
	MapToolEnd
}

// TurnNext is what follows from an answer.
type TurnNext struct {
	Private
	// Replied: the message has a reply, or ended without one. Over: nothing follows by itself. Over
	// alone: a person has taken over.
	Replied bool `json:"replied,omitempty"`
	Over    bool `json:"over,omitempty"`
	// Status is that of a message that is over, as callers see it.
	Status stepmachine.Status `json:"status,omitempty"`
	// Answers is how many answers of the model the message has then. A message can stop without a
	// further one.
	Answers int `json:"answers,omitempty"`
	// Calls are those to make, where there is no reply yet.
	Calls []TurnTool `json:"calls,omitempty"`
	// Parallel is how many of them may be under way at once.
	Parallel int `json:"parallel,omitempty"`
	// Deadline is when the agent's time for the message ends.
	Deadline time.Time `json:"deadline,omitzero"`
}

// TurnTool is a call that an answer asks for.
type TurnTool struct {
	Number int32  `json:"number"`
	Verb   string `json:"verb,omitempty"`
	// Kind is that of the execution that the call starts; "" for a run.
	Kind Kind `json:"kind,omitempty"`
	// Patient: the message waits for the execution until its deadline.
	Patient bool `json:"patient,omitempty"`
	// Lane is "" for a call that changes nothing. Those of one lane are made one after the other.
	Lane string `json:"lane,omitempty"`
}

// TurnCall is a call to make.
type TurnCall struct {
	TurnRef
	Answer   int       `json:"answer"`
	Number   int       `json:"number"`
	Workflow string    `json:"workflow"`
	Deadline time.Time `json:"deadline"`
}

// TurnNews is what others want of a message.
type TurnNews struct {
	// Over: it has ended. Working: it is its turn in the session.
	Over    bool `json:"over,omitempty"`
	Working bool `json:"working,omitempty"`
	Cancel  bool `json:"cancel,omitempty"`
	// Status is that of a message that is over, as callers see it.
	Status stepmachine.Status `json:"status,omitempty"`
}

// CallPending is the status of a call that waits for people, as the agent is told.
const CallPending stepmachine.CallStatus = "pending_approval"

// CodeNotMade is the code of a call that was not made, although the agent has asked for it.
const CodeNotMade = "NOT_MADE"

// TurnCancelled is the reason of an end that was asked for.
const TurnCancelled = "cancelled"

// TurnEnd ends a message.
type TurnEnd struct {
	Private
	TurnRef
	// Reason is the stop reason.
	Reason  string `json:"reason"`
	Actions int    `json:"actions,omitempty"`
	// Ends are the ends of the calls that the answer before Answer has asked for, and Late those of calls
	// that had waited for people: what the model has not heard.
	Answer int          `json:"answer,omitempty"`
	Ends   []MapToolEnd `json:"ends,omitempty"`
	Late   []TurnLate   `json:"late,omitempty"`
}

// TurnResult is the result of the workflow.
type TurnResult struct {
	// Answers counts those of the model, Actions the calls that were sent.
	Answers int32 `json:"answers"`
	Actions int32 `json:"actions"`
}

// TurnWorkflowID returns the id of the workflow of a message.
func TurnWorkflowID(ref TurnRef) string {
	return workflowID("message", ExecutionID(ref.ID), ref.TenantID, ref.ID.String(), 1)
}
