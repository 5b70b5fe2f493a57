// Package chat has what the adapters of chat models share: names of tools and arguments there and back,
// and the words for what went wrong. It makes no request.
package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/schemagraph"
	"agentruntime/internal/kernel/tooldef"
	"agentruntime/internal/kernel/verb"
)

// MaxAnswer is the most bytes of one answer, with what the protocol adds.
const MaxAnswer = 8 << 20

// ErrTooLong is in the chain of a read beyond MaxAnswer.
var ErrTooLong = errors.New("the answer is too long")

// Tools are the tools of a request in a format, with the way back.
type Tools struct {
	List []Tool
	// byName has the tool of the service by the name that the model has read.
	byName map[string]model.Tool
}

// Tool is a tool as a model reads it.
type Tool struct {
	Name, Description string
	// Schema is the JSON Schema of its arguments: an object.
	Schema json.RawMessage
}

// NewTools writes the tools in the format.
func NewTools(list []model.Tool, format tooldef.Format) Tools {
	t := Tools{byName: make(map[string]model.Tool, len(list))}
	for _, tool := range list {
		p, err := tooldef.ParametersOf(tool.Schema, format, 0)
		if err != nil {
			p = tooldef.Nothing()
		}
		name := NameOf(tool.Name)
		t.byName[name] = tool
		t.List = append(t.List, Tool{Name: name, Description: describe(tool), Schema: p.Schema})
	}
	return t
}

// mostDescription is how many characters of a description OpenAI takes; others take as many.
const mostDescription = 1024

func describe(t model.Tool) string {
	text := strings.TrimSpace(t.Description)
	if text == "" {
		return t.Name
	}
	if runes := []rune(text); len(runes) > mostDescription {
		return strings.TrimSpace(string(runes[:mostDescription-1])) + "…"
	}
	return text
}

// NameOf returns the name of a tool as models may read it: provider__verb_name for a verb.
func NameOf(name string) string {
	if parsed, err := verb.Parse(name); err == nil {
		return parsed.ToolName()
	}
	return strings.ReplaceAll(name, ":", "__")
}

// Call returns a call as the service names it: the tool, and the arguments by the names of its schema.
// A name that is none of the tools stays as the model wrote it, and so do arguments that are no JSON.
func (t Tools) Call(id, name, args string) model.ToolCall {
	call := model.ToolCall{ID: id, Name: name, Args: Arguments(args)}
	tool, offered := t.byName[name]
	if !offered {
		return call
	}
	call.Name = tool.Name
	if tooldef.MayBeGiven(call.Args) {
		if back, err := tooldef.Back(schemagraph.Read(tool.Schema), call.Args); err == nil {
			call.Args = back // otherwise an argument has both of its names, and the run refuses it
		}
	}
	return call
}

// Arguments returns the arguments as a model wrote them; none are {}.
func Arguments(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" {
		return json.RawMessage("{}")
	}
	return json.RawMessage(text)
}

// Object returns arguments for a past call in a request: {} where they are no JSON object, which a
// provider would refuse.
func Object(args json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil || object == nil {
		return json.RawMessage("{}")
	}
	return bytes.TrimSpace(args)
}

// Status returns the error for an answer with an HTTP status that is no success. header returns a field
// of its header, and may be nil. code is that of its error object, of which only known ones count.
func Status(status int, header func(name string) string, code string) *model.Error {
	switch {
	case code == "insufficient_quota" || code == "billing_error":
		return &model.Error{Reason: "the account at the provider has no credit left"}
	case code == "context_length_exceeded" || status == 413:
		return &model.Error{Reason: "the conversation is longer than the model takes"}
	case status == 429:
		return &model.Error{Reason: "the provider's rate limit is reached", Retryable: true, RetryAfter: retryAfter(header)}
	case status == 503 || status == 529 || code == "overloaded_error":
		return &model.Error{Reason: "the provider is overloaded", Retryable: true, RetryAfter: retryAfter(header)}
	case status == 401 || status == 403:
		return &model.Error{Reason: "the provider refused the credential"}
	case status == 404:
		return &model.Error{Reason: "the provider does not know the model"}
	case status >= 300 && status < 400:
		return &model.Error{Reason: "the provider redirects, which is not followed"}
	case status == 400 || status == 422:
		return &model.Error{Reason: "the provider refused the request"}
	default:
		return &model.Error{Reason: fmt.Sprintf("the provider answered with the status %d", status), Retryable: status == 408 || status == 409 || status >= 500}
	}
}

// mostRetryAfter bounds what a provider may ask for.
const mostRetryAfter = time.Hour

// retryAfter reads Retry-After, in seconds or as a date; 0 where there is none that can be read.
func retryAfter(header func(name string) string) time.Duration {
	if header == nil {
		return 0
	}
	var d time.Duration
	text := header("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		d = time.Duration(min(seconds, mostRetryAfter.Seconds()) * float64(time.Second))
	} else if at, err := time.Parse(time.RFC1123, text); err == nil {
		d = time.Until(at)
	}
	return max(0, min(d, mostRetryAfter))
}

// Broken returns the error of a request that has no whole answer. The error of ctx comes first.
func Broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var syntax *json.SyntaxError
	var known *model.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, ErrTooLong):
		return &model.Error{Reason: fmt.Sprintf("the answer has more than %d bytes", MaxAnswer)}
	case errors.As(err, &syntax):
		return &model.Error{Reason: "the provider's answer is not understood", Retryable: true}
	default:
		return &model.Error{Reason: "the connection to the provider failed", Retryable: true}
	}
}

// Unfinished is the error of an answer that stopped before its end.
func Unfinished() error {
	return &model.Error{Reason: "the provider ended its answer in the middle", Retryable: true}
}
