package flow

import (
	"github.com/google/uuid"

	"agentruntime/internal/maps/stepmachine"
)

// Activities by which a message starts other executions: of Maps, and messages to other agents.
const (
	// StartFromTurn starts the other execution of a call, or finds the one that it has.
	StartFromTurn Activity[TurnCall, TurnOther] = "StartFromTurn"
	// LookFromTurn returns how far it is, and ends it where that is asked for.
	LookFromTurn Activity[TurnOtherRef, TurnOther] = "LookFromTurn"
)

// TurnOtherRef names an execution that a message has started.
type TurnOtherRef struct {
	TurnRef
	Kind  Kind      `json:"kind"`
	Other uuid.UUID `json:"other"`
	// Stop: it is to end soon.
	Stop bool `json:"stop,omitempty"`
	// Answered is the question that the message has answered.
	Answered string `json:"answered,omitempty"`
	// Followed is the call that has started it, where its end is streamed; nil where it is not.
	Followed *TurnCall `json:"followed,omitempty"`
}

// TurnOther is how far an execution is that a message has started.
type TurnOther struct {
	Private
	Other uuid.UUID `json:"other,omitzero"`
	// Done: End is its end. Rests: it waits for something that may take long, so nobody waits for it.
	Done  bool                `json:"done,omitempty"`
	Rests bool                `json:"rests,omitempty"`
	End   stepmachine.CallEnd `json:"end"`
	// ApprovalID is the approval that it waits for.
	ApprovalID string `json:"approval_id,omitempty"`
	// People: it waits for people to settle an outcome.
	People bool `json:"people,omitempty"`
	// Tainted: what the agent is told of it has texts of others than the tenant.
	Tainted bool     `json:"tainted,omitempty"`
	Sources []string `json:"sources,omitempty"`
	// Followed: what becomes of it is streamed. Answered is the question that the message has answered.
	// Only a start says so.
	Followed bool   `json:"followed,omitempty"`
	Answered string `json:"answered,omitempty"`
}

// CallAsks is the status of a Map of an agent of the mode workflow_only that asks the customer something.
const CallAsks stepmachine.CallStatus = "needs_input"

// CallRunning is the status of a call that goes on in the background, as the agent is told.
const CallRunning stepmachine.CallStatus = "running"
