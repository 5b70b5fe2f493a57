// Package openai asks models by the chat completions of OpenAI, which many servers answer. The service
// internal/service/models makes one for each request, with the credential that is in it. It never
// tries again, follows no redirect, and reads nothing from the environment.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/credential"
)

// Config says where the models are.
type Config struct {
	// BaseURL is what /chat/completions is added to.
	BaseURL    string
	Credential credential.Secret
	// Client bounds the bytes of an answer, with chat.ErrTooLong, and follows no redirect.
	Client  *http.Client
	Dialect chat.Dialect
}

// Model asks the models of one server.
type Model struct {
	client  sdk.Client
	dialect chat.Dialect
}

// New checks the collaborators.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" || cfg.Client == nil {
		return nil, errors.New("openai: an address and a client are required")
	}
	options := []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL), option.WithHTTPClient(cfg.Client), option.WithMaxRetries(0),
	}
	switch cfg.Credential.Kind() {
	case credential.Bearer:
		options = append(options, option.WithHeader("Authorization", "Bearer "+cfg.Credential.Token()))
	case credential.APIKey:
		options = append(options, option.WithHeader("Authorization", "Bearer "+cfg.Credential.Key()))
	case credential.CustomHeader:
		for name, value := range cfg.Credential.Headers() {
			options = append(options, option.WithHeader(name, value))
		}
	default:
		return nil, errors.New("openai: no credential of this kind")
	}
	return &Model{client: sdk.Client{Options: options}, dialect: cfg.Dialect}, nil
}

// Generate implements model.Model. It always streams: so a connection that breaks shows.
func (m *Model) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	tools := chat.NewTools(req.Tools, tooldef.OpenAI)
	body, optional := m.params(req, tools)
	refuse := func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(req)
		if err == nil {
			err = chat.Refuse(resp.StatusCode, resp.Header.Get, resp.Body, optional)
		}
		return resp, err
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) { sent.Store(w.Err == nil) }})
	var resp *http.Response
	if err := m.client.Post(traced, "chat/completions", body, &resp, option.WithJSONSet("stream", true), option.WithMiddleware(refuse)); err != nil {
		var r model.Response
		if sent.Load() && ctx.Err() != nil {
			r.Usage = r.Usage.Estimated(req, 0, false) // the server has read it, and may be at work
		}
		return r, chat.Broken(ctx, err)
	}
	defer resp.Body.Close()
	a := answer{pieces: chat.NewPieces(stream), optional: optional}
	err := chat.Read(resp.Body, a.add)
	a.pieces.Whole = err == nil && a.finish != ""
	if err != nil {
		err = chat.Broken(ctx, err)
	}
	return a.response(a.pieces.Response(req, tools), err)
}

// The optional fields of a request.
const (
	maxTokens     = "max_tokens"
	maxCompletion = chat.MaxCompletionTokens
	streamOptions = "stream_options"
	temperature   = "temperature"
	toolChoice    = "tool_choice"
)

// params returns the request, and which of its fields it can do without.
func (m *Model) params(req model.Request, tools chat.Tools) (p sdk.ChatCompletionNewParams, optional []string) {
	p = sdk.ChatCompletionNewParams{Model: req.Model, Messages: messages(req, tools)}
	takes := func(field string, set bool) bool {
		if set = set && !m.dialect.Without[field]; set {
			optional = append(optional, field)
		}
		return set
	}
	if takes(streamOptions, !m.dialect.NoStreamUsage) {
		p.StreamOptions = sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}
	}
	n := sdk.Int(int64(req.Limits.OutputTokens))
	switch first := m.dialect.MaxTokensField; {
	case n.Value <= 0:
	case first != maxTokens && takes(maxCompletion, true), first == maxTokens && m.dialect.Without[maxTokens] && takes(maxCompletion, true):
		p.MaxCompletionTokens = n
	case takes(maxTokens, true):
		p.MaxTokens = n
	}
	if takes(temperature, req.Temperature != nil) {
		p.Temperature = sdk.Float(*req.Temperature)
	}
	for _, tool := range tools.List {
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: tool.Name, Description: sdk.String(tool.Description), Parameters: object(tool.Schema),
		}))
	}
	if takes(toolChoice, req.NoCalls && len(p.Tools) > 0) {
		p.ToolChoice.OfAuto = sdk.String("none")
	}
	return p, optional
}

// object returns a schema as the SDK takes it.
func object(schema json.RawMessage) (out map[string]any) {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil {
		return nil
	}
	out = make(map[string]any, len(members))
	for name, value := range members {
		out[name] = value
	}
	return out
}

func messages(req model.Request, tools chat.Tools) (list []sdk.ChatCompletionMessageParamUnion) {
	for _, text := range []string{req.Instructions, req.Advice} {
		if text != "" {
			list = append(list, sdk.SystemMessage(text))
		}
	}
	for _, m := range chat.History(req, tools) {
		switch m.Role {
		case model.Result:
			list = append(list, sdk.ToolMessage(m.Text, m.CallID))
		case model.Assistant:
			said := &sdk.ChatCompletionAssistantMessageParam{}
			if m.Text != "" {
				said.Content.OfString = sdk.String(m.Text)
			}
			for _, call := range m.Calls {
				said.ToolCalls = append(said.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: call.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: call.Name, Arguments: string(call.Args)},
				}})
			}
			list = append(list, sdk.ChatCompletionMessageParamUnion{OfAssistant: said})
		default:
			list = append(list, sdk.UserMessage(m.Text))
		}
	}
	return list
}
