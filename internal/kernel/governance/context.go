package governance

import "encoding/json"

// ContextOf returns for whom a call is made, by its metadata: agent_id and customer_id,
// where they are strings. The caller writes them, as they write the arguments.
func ContextOf(metadata json.RawMessage) Context {
	var m map[string]json.RawMessage
	if json.Unmarshal(metadata, &m) != nil {
		return Context{}
	}
	return Context{AgentID: textOf(m["agent_id"]), CustomerID: textOf(m["customer_id"])}
}

// TaintedOf returns session.tainted of a call of an agent of ours, or of a Map that one has started, by
// the metadata that the service has written; nil where it does not say.
func TaintedOf(metadata json.RawMessage) *bool {
	var m struct{ Tainted *bool }
	if json.Unmarshal(metadata, &m) != nil {
		return nil
	}
	return m.Tainted
}

func textOf(raw json.RawMessage) *string {
	var s *string
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return s
}
