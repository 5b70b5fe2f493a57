package model

import (
	"github.com/google/uuid"

	"agentruntime/internal/agents/agentdef"
)

// Ask is a request with who asks which model.
type Ask struct {
	Tenant uuid.UUID
	// Key is the API key for whose call the model is asked; nil for none.
	Key *uuid.UUID
	// Choice says which model, and which ones where that fails.
	Choice agentdef.Model
	// Request is asked. Its model, its temperature and how many tokens the answer may have are set
	// by the choice.
	Request Request
}

// Stream is told of an answer while it comes. Both functions may be nil. They are called one at a time.
type Stream struct {
	// Delta has the next piece of the text.
	Delta func(text string)
	// Reset says that all pieces since the begin are void: the answer begins again. The reason is
	// "retry", "fallback" or "reasoning".
	Reset func(reason string)
}

// Says passes a piece on.
func (s Stream) Says(text string) {
	if s.Delta != nil && text != "" {
		s.Delta(text)
	}
}

// Begins passes on that the answer begins again.
func (s Stream) Begins(reason string) {
	if s.Reset != nil {
		s.Reset(reason)
	}
}

// The reasons of a reset.
const (
	ResetRetry     = "retry"
	ResetFallback  = "fallback"
	ResetReasoning = "reasoning" // what was told are thoughts of the model
)

// Attempt is one request to one model.
type Attempt struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// Error is why there is no answer, in words; "" at the one that answered.
	Error     string `json:"error,omitempty"`
	LatencyMS int64  `json:"latency_ms"`
	Usage     Usage  `json:"usage"`
	Finish    Finish `json:"finish,omitempty"`
}

// Answer is the answer of the model that answered.
type Answer struct {
	Response

	Provider string
	// MoneyMicros is what all attempts cost, in millionths of a US dollar, by the table of prices. It
	// is 0 where the table does not have the model.
	MoneyMicros int64
	// Attempts are all requests that were made, the one that answered last.
	Attempts []Attempt
}

// Used returns the tokens and the money, in millionths of a US dollar, that all attempts have used, for
// the budgets.
func (a Answer) Used() (tokens, money int64) {
	for _, attempt := range a.Attempts {
		tokens += attempt.Usage.Total()
	}
	return tokens, a.MoneyMicros
}
