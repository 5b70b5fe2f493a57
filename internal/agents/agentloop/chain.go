package agentloop

import "github.com/google/uuid"

// Chain is what stands above an execution: messages to agents and Maps that have started each other.
type Chain struct {
	// Turns are the messages, the first one first.
	Turns []Caller `json:"turns,omitempty"`
	// Maps is how many Maps are among them.
	Maps int32 `json:"maps,omitempty"`
}

// Caller is a message that others have followed from. What they use counts for it too.
type Caller struct {
	ID      uuid.UUID `json:"id"`
	AgentID uuid.UUID `json:"agent_id"`
	// Tokens and MoneyMicros are the most that the message may use; 0 for no bound.
	Tokens      int64 `json:"tokens,omitempty"`
	MoneyMicros int64 `json:"money_micros,omitempty"`
	// Drives is the version of an agent of the mode workflow_only: it does the steps of its Map that name no
	// agent. 0 for other agents.
	Drives int32 `json:"drives,omitempty"`
}

// Driver returns the message to an agent of the mode workflow_only that has started the Map above which
// nothing else stands; nil for none.
func (c Chain) Driver() *Caller {
	if n := len(c.Turns); n > 0 && c.Turns[n-1].Drives > 0 {
		return &c.Turns[n-1]
	}
	return nil
}
