package governance

import (
	"encoding/json"
	"time"
)

// Made says how a call is made, for the fields of conditions. Times and ids are those of its run.
type Made struct {
	// Own: a Map or an agent of ours makes the call, and the service has written its metadata.
	// Otherwise a caller has, and says in it for whom the call is.
	Own                                   bool
	AgentID, CustomerID, SessionID, KeyID *string
	DryRun                                bool
	Metadata                              json.RawMessage
	Now                                   time.Time
}

// Context returns what conditions can ask about the call. For a call of our own agents and Maps
// the run names agent and customer. For a call over HTTP the metadata does.
func (m Made) Context() Context {
	if !m.Own {
		c := ContextOf(m.Metadata)
		c.SessionID, c.KeyID, c.DryRun, c.Metadata, c.Now = m.SessionID, m.KeyID, &m.DryRun, m.Metadata, m.Now
		return c
	}
	var written struct {
		Tainted    *bool           `json:"tainted"`
		CustomerID *string         `json:"customer_id"`
		SessionID  *string         `json:"session_id"`
		Agent      json.RawMessage `json:"agent"`
		Message    json.RawMessage `json:"message"` // what the caller has written about the message
	}
	_ = json.Unmarshal(m.Metadata, &written) // what does not fit stays absent
	c := Context{
		AgentID: m.AgentID, CustomerID: m.CustomerID, SessionID: m.SessionID, KeyID: m.KeyID, DryRun: &m.DryRun, Now: m.Now,
		Tainted: written.Tainted, Agent: written.Agent, Metadata: written.Message,
	}
	if c.SessionID == nil {
		c.SessionID = written.SessionID
	}
	if c.CustomerID == nil {
		// The metadata has the name by which the trigger's caller knows the customer.
		c.CustomerID = written.CustomerID
	}
	return c
}

// ContextOf returns for whom a call is made, by its metadata: agent_id and customer_id,
// where they are strings. The caller writes them, as they write the arguments.
func ContextOf(metadata json.RawMessage) Context {
	var m map[string]json.RawMessage
	if json.Unmarshal(metadata, &m) != nil {
		return Context{}
	}
	return Context{AgentID: textOf(m["agent_id"]), CustomerID: textOf(m["customer_id"])}
}

func textOf(raw json.RawMessage) *string {
	var s *string
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return s
}
