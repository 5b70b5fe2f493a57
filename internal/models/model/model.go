// Package model says what the service asks of a language model, and what it gets back. The models
// of all vendors are behind the interface Model. internal/service/models asks them, for agents and for
// the steps of Maps. The package knows no vendor, and does no I/O.
package model

import (
	"context"
	"encoding/json"
	"time"
)

// Model answers requests.
type Model interface {
	// Generate returns the answer to a request. It tells stream of each piece of the text as it
	// comes; the pieces since the last reset together are the text of the answer. The error is an
	// *Error where the model failed, or that of ctx.
	Generate(ctx context.Context, req Request, stream Stream) (Response, error)
}

// Purpose says what a request is for.
type Purpose string

// The purposes: those of agents, then those of the model steps of Maps.
const (
	Reply   Purpose = "reply"   // the next answer or calls in a conversation
	Summary Purpose = "summary" // what older messages of a conversation say
	SOP     Purpose = "sop"     // which operating procedures fit a message
	Memory  Purpose = "memory"  // what to remember of a message
	Plan    Purpose = "plan"    // the next step to a goal
	// Unjudged is a plan that is kept because a fault came before it was judged. No model is asked for it.
	Unjudged Purpose = "unjudged"
	Manager  Purpose = "manager" // whether a step of work has reached its goal

	Agent     Purpose = "agent"
	Extract   Purpose = "extract"
	Classify  Purpose = "classify"
	Summarize Purpose = "summarize"
	Reason    Purpose = "reason"
)

// Request asks a model for one answer.
type Request struct {
	Purpose Purpose `json:"purpose"`
	// Model is the name that the maker has given the model; "" where there is only one.
	Model string `json:"model,omitempty"`
	// Temperature is nil for the model's own.
	Temperature *float64 `json:"temperature,omitempty"`
	// Instructions are the service's own and the author's. They never contain what a caller or a
	// provider has sent. They and Tools come first and stay the same over a conversation, so that a
	// provider can read them from a cache.
	Instructions string `json:"instructions"`
	// Advice are more instructions, of this request alone. They come after Instructions.
	Advice   string    `json:"advice,omitempty"`
	Messages []Message `json:"messages"`
	// Tools are what the model may call; none for most purposes.
	Tools []Tool `json:"tools,omitempty"`
	// NoCalls: the model answers without a call. Tools are there all the same: some vendors want them
	// where the conversation has calls, and all can keep what they have read of them.
	NoCalls bool `json:"no_calls,omitempty"`
	// OutputSchema is the JSON Schema of the text, which is JSON then; nil for any text. A model may
	// not keep to it: the caller checks.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Limits       Limits          `json:"limits"`
}

// Size returns how many bytes of text the request has. No model makes more tokens of it.
func (r Request) Size() int {
	n := len(r.Instructions) + len(r.Advice) + len(r.OutputSchema)
	for _, m := range r.Messages {
		n += len(m.Text)
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Args)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

// Limits bound one answer.
type Limits struct {
	// OutputTokens is how many tokens the answer may have.
	OutputTokens int `json:"output_tokens"`
}

// Role says who a message is from.
type Role string

// The roles.
const (
	User      Role = "user"      // the service: a task, data, the reason why an answer was refused
	Assistant Role = "assistant" // the model
	Result    Role = "tool"      // what a call of a tool has brought
)

// Message is one message of a conversation.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`
	// Calls are those of an Assistant. CallID says which of them a Result belongs to.
	Calls  []ToolCall `json:"calls,omitempty"`
	CallID string     `json:"call_id,omitempty"`
}

// Tool is something that a model may call.
type Tool struct {
	// Name is the name of a verb: provider:verb_name. An adapter maps it to what its vendor allows.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Schema is the JSON Schema of the arguments.
	Schema json.RawMessage `json:"schema"`
	// Operation is read or write, as the catalog says of the verb; "" for a tool that is no verb. No
	// adapter sends it.
	Operation string `json:"operation,omitempty"`
}

// ToolCall is a call that a model asks for.
type ToolCall struct {
	// ID is unique in the conversation.
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// Response is the answer of a model.
type Response struct {
	// Model is the name of the model that answered, as its maker names it.
	Model  string     `json:"model"`
	Text   string     `json:"text,omitempty"`
	Calls  []ToolCall `json:"calls,omitempty"`
	Usage  Usage      `json:"usage"`
	Finish Finish     `json:"finish"`
	// Reasoning is what the model thought, at most 64 KiB. It is for the trace: no part of a reply, and no
	// model reads it again.
	Reasoning string `json:"reasoning,omitempty"`
}

// Usage counts tokens. Cached is the part of In that the model had read before.
type Usage struct {
	In     int64 `json:"input"`
	Cached int64 `json:"cached"`
	// CacheWritten is the part of In that a provider charges for keeping.
	CacheWritten int64 `json:"cache_written,omitempty"`
	Out          int64 `json:"output"`
	// Estimate: the server has not reported In or Out, or no count that can be.
	Estimate bool `json:"estimated,omitempty"`
}

// Estimated returns the usage with estimates for what a server has not reported. wrote is how many bytes
// the model has written. whole: the answer has ended as the API says. Before its end a server has counted
// only a part, or 1, so the estimate counts where it is more.
func (u Usage) Estimated(req Request, wrote int, whole bool) Usage {
	if u.In <= 0 {
		u.In, u.Cached, u.CacheWritten, u.Estimate = tokensOf(req.Size()), 0, 0, true
	}
	if out := tokensOf(wrote); u.Out < 0 || out > 0 && u.Out == 0 || out > u.Out && !whole {
		u.Out, u.Estimate = out, true
	}
	return u
}

// tokensOf returns about how many tokens so many bytes are: two for seven. Vendors say 3.5 to 4 characters
// of English for a token; a budget counts the more.
func tokensOf(bytes int) int64 { return int64(2*bytes+6) / 7 }

// Total returns the tokens that count.
func (u Usage) Total() int64 { return u.In + u.Out }

// And returns what two requests have used.
func (u Usage) And(v Usage) Usage {
	return Usage{In: u.In + v.In, Cached: u.Cached + v.Cached, CacheWritten: u.CacheWritten + v.CacheWritten, Out: u.Out + v.Out, Estimate: u.Estimate || v.Estimate}
}

// Finish says why an answer ended.
type Finish string

// Why an answer ended.
const (
	Stopped Finish = "stop"       // it is whole
	Calling Finish = "tool_calls" // it waits for the results of its calls
	CutOff  Finish = "length"     // it would be longer than the limit
	Refused Finish = "refusal"    // the model will not answer
)

// Error is why a model has not answered. Its reason contains nothing of the request.
type Error struct {
	Reason string
	// Said is what the server said of it, masked, at most 200 characters. It may quote the request, so it is
	// for the caller and the trace, and in no log.
	Said string
	// Refused are the optional fields of the request that the server does not take.
	Refused []string
	// Retryable: the same request may succeed later.
	Retryable bool
	// RetryAfter is how long its provider wants no request; 0 where it does not say.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string { return "model: " + e.Reason }

// Words returns the reason with what the server said.
func (e *Error) Words() string {
	if e.Said == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Said
}
