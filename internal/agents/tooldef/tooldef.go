// Package tooldef writes a verb as a tool that chat models and MCP clients accept. They refuse
// schemas that JSON Schema allows, and one such tool makes them refuse the whole request. Names of
// arguments that they refuse get another name, and Back turns the arguments of a tool call into
// those of the verb. It reads nothing but what it is given.
package tooldef

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/verb"
)

// Format is the form of a tool.
type Format string

// The formats, with where their rules are written.
const (
	// OpenAI: github.com/openai/openai-python, FunctionDefinition. Names have 64 characters, the
	// parameters are an object without a union at the top.
	OpenAI Format = "tools"
	// Anthropic: docs.claude.com, "Define tools": names of properties match [a-zA-Z0-9_.-]{1,64}, and
	// there is no union at the top of input_schema.
	Anthropic Format = "anthropic"
	// Gemini: googleapis, google/ai/generativelanguage/v1beta: FunctionDeclaration and the keywords
	// that are listed at responseJsonSchema.
	Gemini Format = "gemini"
	// MCP: modelcontextprotocol.io, specification 2025-11-25, server/tools.
	MCP Format = "mcp"
)

// Formats returns all formats.
func Formats() []Format { return []Format{OpenAI, Anthropic, Gemini, MCP} }

// mostDescription is how many characters OpenAI takes as the description of a function.
const mostDescription = 1024

// Verb is what a tool is made of, beside its parameters.
type Verb struct {
	Name        verb.Name
	Description string
	Operation   verb.Operation
	Idempotency verb.Idempotency
	Risk        verb.Risk
}

// Parameters are the arguments of a verb as a format has them.
type Parameters struct {
	Schema json.RawMessage
	// None: there are no arguments that the schema names.
	None bool
	// Omits says what of the verb's schema this one does not have, in words; nil where it has all of
	// it. The arguments of a call are always judged by the whole schema.
	Omits []string
}

type (
	// OpenAITool is a tool as OpenAI takes it.
	OpenAITool struct {
		Type     string         `json:"type"`
		Function OpenAIFunction `json:"function"`
	}
	// OpenAIFunction is what an OpenAITool calls.
	OpenAIFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	// AnthropicTool is a tool as Anthropic takes it.
	AnthropicTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	// GeminiTool is a function declaration of Gemini.
	GeminiTool struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		// Absent where there are no arguments.
		Parameters json.RawMessage `json:"parametersJsonSchema,omitempty"` //nolint:tagliatelle // Gemini's name
	}
	// MCPTool is a tool as a server of MCP lists it.
	MCPTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"` //nolint:tagliatelle // MCP's name, as below
		Annotations MCPAnnotations  `json:"annotations"`
	}
	// MCPAnnotations are hints to the user of an MCPTool.
	MCPAnnotations struct {
		ReadOnlyHint    bool `json:"readOnlyHint"`    //nolint:tagliatelle // MCP
		DestructiveHint bool `json:"destructiveHint"` //nolint:tagliatelle // MCP
		IdempotentHint  bool `json:"idempotentHint"`  //nolint:tagliatelle // MCP
		OpenWorldHint   bool `json:"openWorldHint"`   //nolint:tagliatelle // MCP
	}
)

// ParametersOf writes a verb's schema in the format. budget is how many bytes it may have, 0 for any
// number: descriptions are shortened first, then what is nested deep is left out, then arguments that
// are not required. The error says that the schema is no JSON object.
func ParametersOf(schema json.RawMessage, format Format, budget int) (Parameters, error) {
	decoded, err := exactjson.Decode(schema)
	if err != nil {
		return Parameters{}, fmt.Errorf("tooldef: %w", err)
	}
	root, ok := decoded.(map[string]any)
	if !ok {
		return Parameters{}, errors.New("tooldef: the schema is no object")
	}
	s := newSketch(root, format)
	top := s.tidied(s.objectAtTop())
	top["type"] = "object"
	if top["properties"] == nil {
		top["properties"] = map[string]any{}
	}
	if top["required"] == nil {
		top["required"] = []any{} // as the catalog's own schemas have it
	}
	p := Parameters{None: len(membersOf(top, "properties")) == 0}
	if p.Schema, err = s.fit(top, budget); err != nil {
		return Parameters{}, fmt.Errorf("tooldef: %w", err)
	}
	p.Omits = s.omits
	return p, nil
}

// Nothing are the parameters of a verb whose schema cannot be written.
func Nothing() Parameters {
	return Parameters{Schema: json.RawMessage(`{"properties":{},"required":[],"type":"object"}`), None: true, Omits: []string{"all arguments"}}
}

// Tool returns the verb in the format that the parameters have.
func (v Verb) Tool(format Format, p Parameters) any {
	name, description := v.Name.ToolName(), v.Description
	if strings.TrimSpace(description) == "" {
		description = v.Name.String()
	}
	switch format {
	case Anthropic:
		return AnthropicTool{Name: name, Description: description, InputSchema: p.Schema}
	case Gemini:
		t := GeminiTool{Name: geminiToolName(name), Description: description}
		if !p.None {
			t.Parameters = p.Schema
		}
		return t
	case MCP:
		read := v.Operation == verb.Read
		return MCPTool{Name: name, Description: description, InputSchema: p.Schema, Annotations: MCPAnnotations{
			ReadOnlyHint: read, DestructiveHint: !read && v.Risk == verb.RiskHigh, IdempotentHint: read || v.Idempotency == verb.IdempotencyIntrinsic, OpenWorldHint: true,
		}}
	default:
		return OpenAITool{Type: "function", Function: OpenAIFunction{Name: name, Description: cut(description, mostDescription), Parameters: p.Schema}}
	}
}

// geminiToolName returns the name with a letter or an underscore first.
func geminiToolName(name string) string {
	if first := name[0]; first >= 'a' && first <= 'z' {
		return name
	}
	if name = "_" + name; len(name) > mostName {
		sum := sha256.Sum256([]byte(name))
		name = name[:mostName-len("_")-hashDigits] + "_" + hex.EncodeToString(sum[:])[:hashDigits]
	}
	return name
}

// cut shortens a text to so many characters, with an ellipsis as the last.
func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return strings.TrimSpace(string(runes[:most-1])) + "…"
}
