// Package chat has what the adapters of chat models share: names of tools and arguments there and back,
// and the words for what went wrong. It makes no request.
package chat

import (
	"encoding/json"
	"errors"
	"strings"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/schemagraph"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/models/model"
)

// MaxAnswer is the most bytes of one answer, with what the protocol adds.
const MaxAnswer = 8 << 20

// ErrTooLong is in the chain of a read beyond MaxAnswer.
var ErrTooLong = errors.New("the answer is too long")

// MaxCompletionTokens is the field for how many tokens an answer may have, where nothing else is said.
const MaxCompletionTokens = "max_completion_tokens"

// Dialect is how a server differs from the API whose form it has.
type Dialect struct {
	// MaxTokensField is the field for how many tokens an answer may have; "" is MaxCompletionTokens.
	MaxTokensField string
	// NoStreamUsage: the server is not asked to report tokens at the end of a stream.
	NoStreamUsage bool
	// Without are the optional fields that the server has refused.
	Without map[string]bool
}

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
