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
	written := readOwn(m.Metadata)
	c := Context{
		AgentID: m.AgentID, OwnAgentID: m.AgentID, MapID: notEmpty(written.MapID), SessionID: m.SessionID, KeyID: m.KeyID, DryRun: &m.DryRun, Now: m.Now,
		Tainted: written.Tainted, TaintSources: written.TaintSources, UnnamedAddress: written.Unnamed, Agent: written.Agent, Metadata: written.Message,
	}
	if c.SessionID == nil {
		c.SessionID = written.SessionID
	}
	known := m.CustomerID
	if known == nil {
		known = written.CustomerID
	}
	if c.CustomerID = notEmpty(known); notEmpty(written.Customer) != nil {
		c.CustomerID, c.CustomerRef = written.Customer, c.CustomerID
	}
	return c
}

// ownMetadata is the metadata that the service writes of a call that an agent or a Map of ours makes.
type ownMetadata struct {
	Tainted *bool `json:"tainted"`
	// TaintSources say what of: see Context.
	TaintSources []string `json:"taint_sources"`
	Unnamed      string   `json:"unnamed_address"`
	// CustomerID names the customer: the id of their record where an agent has led to the call, otherwise
	// what the caller of the trigger has written.
	CustomerID *string `json:"customer_id"`
	SessionID  *string `json:"session_id"`
	// MapID is there for the calls of steps of Maps.
	MapID *string         `json:"map_id"`
	Agent json.RawMessage `json:"agent"`
	// Message and Customer are the Words of the caller. They are members of their own, so that a caller
	// cannot write the others.
	Message  json.RawMessage `json:"message"`
	Customer *string         `json:"customer"`
}

// readOwn reads such metadata. What does not fit stays absent.
func readOwn(metadata json.RawMessage) (written ownMetadata) {
	_ = json.Unmarshal(metadata, &written) // see above
	return written
}

// Words are what the caller has written about the message, the goal or the trigger of a Map that has led
// to a call. Conditions see them, whichever part of the service makes the call.
type Words struct {
	// Metadata is an object; nil for none.
	Metadata json.RawMessage
	// Customer is the customer_id of a message or a goal, "" for none. That of a trigger is in the
	// customer_id of what it leads to.
	Customer string
}

// WordsOf returns the words of the caller in the metadata of a call or of an execution. own: the service
// has written that metadata.
func WordsOf(own bool, metadata json.RawMessage) (w Words) {
	if !own {
		return Words{Metadata: metadata}
	}
	written := readOwn(metadata)
	if w.Metadata = written.Message; written.Customer != nil {
		w.Customer = *written.Customer
	}
	return w
}

// MemberUnnamed is the member of metadata that the service writes which has Context.UnnamedAddress.
const MemberUnnamed = "unnamed_address"

// MessageMember is the member of metadata that the service writes which has Words.Metadata.
const MessageMember = "message"

// Write adds the words to metadata that the service writes.
func (w Words) Write(about map[string]any) {
	if text := string(w.Metadata); text != "" && text != "{}" && text != "null" {
		about[MessageMember] = w.Metadata
	}
	if w.Customer != "" {
		about["customer"] = w.Customer
	}
}

// ContextOf returns for whom a call is made, by its metadata: agent_id and customer_id,
// where they are strings. The caller writes them, as they write the arguments. An empty customer_id
// names nobody: otherwise all who have none would count as one customer.
func ContextOf(metadata json.RawMessage) Context {
	var m map[string]json.RawMessage
	if json.Unmarshal(metadata, &m) != nil {
		return Context{}
	}
	return Context{AgentID: textOf(m["agent_id"]), CustomerID: notEmpty(textOf(m["customer_id"]))}
}

func textOf(raw json.RawMessage) *string {
	var s *string
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return s
}

func notEmpty(s *string) *string {
	if s != nil && *s == "" {
		return nil
	}
	return s
}
