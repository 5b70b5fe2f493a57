package tooling

import (
	"encoding/json"

	"agentruntime/internal/models/model"
)

// The names of the tools by which an agent reads and writes what is remembered of its customer.
const (
	MemoryWrite = "tool:memory_write"
	MemoryRead  = "tool:memory_read"
)

// MemoryTools are offered for messages that have a customer and an agent that remembers.
func MemoryTools() []model.Tool {
	return []model.Tool{
		{
			Name: MemoryWrite, Description: "Remembers a fact about this customer for their next conversations: what they say about themselves, prefer or ask to have remembered. Never passwords, codes, or what only this conversation is about.",
			Schema: json.RawMessage(`{"properties":{"fact":{"description":"One short sentence about the customer.","maxLength":512,"type":"string"},` +
				`"profile":{"description":"It says who the customer is: name, language, address, standing preferences.","type":"boolean"},` +
				`"supersedes":{"description":"The id of the known fact whose place it takes.","type":"string"}},"required":["fact"],"type":"object"}`),
		},
		{
			Name: MemoryRead, Description: "Finds what is remembered about this customer by words. What fits their message is known already.",
			Schema: json.RawMessage(`{"properties":{"query":{"description":"A few words, such as: delivery address","type":"string"}},"required":["query"],"type":"object"}`),
		},
	}
}
