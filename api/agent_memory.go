package api

import (
	"github.com/google/uuid"

	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/recall"
	"agentruntime/internal/base/redact"
)

// memoryUse is what a message has read and written of what is remembered of its customer. Texts are for
// owners who ask for prompts, and masked.
type memoryUse struct {
	Used    []factUsed    `json:"used"`
	Written []factWritten `json:"written"`
}

type factUsed struct {
	FactID uuid.UUID  `json:"fact_id"`
	Why    recall.Why `json:"why"`
	Words  []string   `json:"words"`
	Text   *string    `json:"text,omitempty"`
}

type factWritten struct {
	FactID uuid.UUID `json:"fact_id"`
	By     string    `json:"by"`
	Text   *string   `json:"text,omitempty"`
}

// viewMemory returns nil for a message that reads and writes no memory.
func viewMemory(t conversation.Turn, texts bool) *memoryUse {
	if !t.Remembers {
		return nil
	}
	shown := func(text string) *string {
		if !texts {
			return nil
		}
		return new(redact.Text(text))
	}
	v := &memoryUse{Used: []factUsed{}, Written: []factWritten{}}
	for _, u := range t.Memory.Used {
		one := factUsed{FactID: u.ID, Why: u.Why, Words: []string{}, Text: shown(u.Text)}
		for _, word := range u.Words {
			one.Words = append(one.Words, redact.Text(word))
		}
		v.Used = append(v.Used, one)
	}
	for _, w := range t.Memory.Written {
		v.Written = append(v.Written, factWritten{FactID: w.ID, By: w.By, Text: shown(w.Text)})
	}
	return v
}
