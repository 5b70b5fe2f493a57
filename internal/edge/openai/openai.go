// Package openai asks models by the chat completions of OpenAI, which many servers answer. The service
// internal/service/models makes one for each request, with the credential that is in it. It never
// tries again, follows no redirect, and reads nothing from the environment.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"agentruntime/internal/kernel/credential"
	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/model/chat"
	"agentruntime/internal/kernel/tooldef"
)

// Config says where the models are.
type Config struct {
	// BaseURL is what /chat/completions is added to.
	BaseURL    string
	Credential credential.Secret
	// Client bounds the bytes of an answer, with chat.ErrTooLong, and follows no redirect.
	Client *http.Client
}

// Model asks the models of one server.
type Model struct {
	completions sdk.ChatCompletionService
}

// New checks the collaborators.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" || cfg.Client == nil {
		return nil, errors.New("openai: an address and a client are required")
	}
	options := []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL), option.WithHTTPClient(cfg.Client), option.WithMaxRetries(0), option.WithMiddleware(noRedirect),
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
	return &Model{completions: sdk.NewChatCompletionService(options...)}, nil
}

// noRedirect refuses a redirect, which the SDK takes for an answer.
func noRedirect(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	resp, err := next(req)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode < http.StatusBadRequest {
		return nil, errors.Join(chat.Status(resp.StatusCode, nil, ""), resp.Body.Close())
	}
	return resp, err
}

// Generate implements model.Model. It always streams: so a connection that breaks shows.
func (m *Model) Generate(ctx context.Context, req model.Request, stream func(delta string)) (model.Response, error) {
	tools := chat.NewTools(req.Tools, tooldef.OpenAI)
	events := m.completions.NewStreaming(ctx, params(req, tools))
	defer events.Close()
	var a answer
	for events.Next() {
		a.add(events.Current(), stream)
	}
	if err := events.Err(); err != nil {
		var refused *sdk.Error
		if errors.As(err, &refused) && ctx.Err() == nil {
			var header func(string) string
			if refused.Response != nil {
				header = refused.Response.Header.Get
			}
			return model.Response{}, chat.Status(refused.StatusCode, header, refused.Code)
		}
		return model.Response{}, chat.Broken(ctx, err)
	}
	return a.response(tools)
}

func params(req model.Request, tools chat.Tools) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model: req.Model, Messages: messages(req),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	if n := req.Limits.OutputTokens; n > 0 {
		p.MaxCompletionTokens = sdk.Int(int64(n))
	}
	if req.Temperature != nil {
		p.Temperature = sdk.Float(*req.Temperature)
	}
	for _, tool := range tools.List {
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: tool.Name, Description: sdk.String(tool.Description), Parameters: object(tool.Schema),
		}))
	}
	if req.NoCalls && len(p.Tools) > 0 {
		p.ToolChoice.OfAuto = sdk.String("none")
	}
	return p
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

func messages(req model.Request) (list []sdk.ChatCompletionMessageParamUnion) {
	for _, text := range []string{req.Instructions, req.Advice} {
		if text != "" {
			list = append(list, sdk.SystemMessage(text))
		}
	}
	for _, m := range req.Messages {
		switch m.Role {
		case model.Result:
			list = append(list, sdk.ToolMessage(m.Text, m.CallID))
		case model.Assistant:
			said := &sdk.ChatCompletionAssistantMessageParam{}
			if m.Text != "" || len(m.Calls) == 0 {
				said.Content.OfString = sdk.String(m.Text)
			}
			for _, call := range m.Calls {
				said.ToolCalls = append(said.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: call.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: chat.NameOf(call.Name), Arguments: string(chat.Object(call.Args))},
				}})
			}
			list = append(list, sdk.ChatCompletionMessageParamUnion{OfAssistant: said})
		default:
			list = append(list, sdk.UserMessage(m.Text))
		}
	}
	return list
}

// answer gathers the pieces of an answer.
type answer struct {
	model         string
	text, refusal strings.Builder
	calls         map[int64]*call
	finish        string
	usage         model.Usage
}

type call struct {
	id, name string
	args     strings.Builder
}

func (a *answer) add(chunk sdk.ChatCompletionChunk, stream func(string)) {
	if chunk.Model != "" {
		a.model = chunk.Model
	}
	if u := chunk.Usage; u.TotalTokens > 0 || u.PromptTokens > 0 || u.CompletionTokens > 0 {
		a.usage = model.Usage{In: u.PromptTokens, Cached: u.PromptTokensDetails.CachedTokens, Out: u.CompletionTokens}
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		if text := choice.Delta.Content; text != "" {
			a.text.WriteString(text)
			if stream != nil {
				stream(text)
			}
		}
		a.refusal.WriteString(choice.Delta.Refusal)
		for _, piece := range choice.Delta.ToolCalls {
			a.call(piece)
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
}

func (a *answer) call(piece sdk.ChatCompletionChunkChoiceDeltaToolCall) {
	if a.calls == nil {
		a.calls = map[int64]*call{}
	}
	c := a.calls[piece.Index]
	if c == nil {
		c = &call{}
		a.calls[piece.Index] = c
	}
	if piece.ID != "" {
		c.id = piece.ID
	}
	c.name += piece.Function.Name
	c.args.WriteString(piece.Function.Arguments)
}

// response returns the whole answer. One without a reason of its end was cut by the connection.
func (a *answer) response(tools chat.Tools) (model.Response, error) {
	if a.finish == "" {
		return model.Response{}, chat.Unfinished()
	}
	r := model.Response{Model: a.model, Text: a.text.String(), Usage: a.usage, Finish: model.Stopped}
	indices := make([]int64, 0, len(a.calls))
	for i := range a.calls {
		indices = append(indices, i)
	}
	slices.Sort(indices)
	for _, i := range indices {
		c := a.calls[i]
		r.Calls = append(r.Calls, tools.Call(c.id, c.name, c.args.String()))
	}
	switch {
	case a.finish == "content_filter" || a.refusal.Len() > 0:
		r.Finish, r.Calls = model.Refused, nil
		if r.Text == "" {
			r.Text = a.refusal.String()
		}
	case a.finish == "length":
		r.Finish, r.Calls = model.CutOff, nil // arguments may be half
	case len(r.Calls) > 0:
		r.Finish = model.Calling
	case r.Text == "":
		return model.Response{}, &model.Error{Reason: "the model answered with nothing", Retryable: true}
	}
	return r, nil
}
