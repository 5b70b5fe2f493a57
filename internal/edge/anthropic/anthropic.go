// Package anthropic asks models by the messages of Anthropic. The service internal/service/models makes
// one for each request, with the credential that is in it. It never tries again, follows no redirect,
// and reads nothing from the environment.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"agentruntime/internal/kernel/credential"
	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/model/chat"
	"agentruntime/internal/kernel/tooldef"
)

// Config says where the models are.
type Config struct {
	// BaseURL is what /v1/messages is added to.
	BaseURL    string
	Credential credential.Secret
	// Client bounds the bytes of an answer, with chat.ErrTooLong, and follows no redirect.
	Client *http.Client
}

// Model asks the models of one server.
type Model struct {
	messages sdk.MessageService
}

// New checks the collaborators.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" || cfg.Client == nil {
		return nil, errors.New("anthropic: an address and a client are required")
	}
	options := []option.RequestOption{
		option.WithBaseURL(strings.TrimRight(cfg.BaseURL, "/") + "/"), option.WithHTTPClient(cfg.Client), option.WithMaxRetries(0), option.WithMiddleware(noRedirect),
	}
	switch cfg.Credential.Kind() {
	case credential.APIKey:
		options = append(options, option.WithHeader("X-Api-Key", cfg.Credential.Key()))
	case credential.Bearer:
		options = append(options, option.WithHeader("Authorization", "Bearer "+cfg.Credential.Token()))
	case credential.CustomHeader:
		for name, value := range cfg.Credential.Headers() {
			options = append(options, option.WithHeader(name, value))
		}
	default:
		return nil, errors.New("anthropic: no credential of this kind")
	}
	return &Model{messages: sdk.NewMessageService(options...)}, nil
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
	tools := chat.NewTools(req.Tools, tooldef.Anthropic)
	events := m.messages.NewStreaming(ctx, params(req, tools))
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
			return model.Response{}, chat.Status(refused.StatusCode, header, kindOf(refused))
		}
		return model.Response{}, chat.Broken(ctx, err)
	}
	return a.response(tools)
}

// kindOf returns the type of an error that the server names.
func kindOf(refused *sdk.Error) string {
	var body struct{ Error struct{ Type string } }
	if json.Unmarshal([]byte(refused.RawJSON()), &body) != nil {
		return ""
	}
	return body.Error.Type
}

// defaultOutput is how many tokens an answer may have that says nothing of it: the API wants a number.
const defaultOutput = 4096

func params(req model.Request, tools chat.Tools) sdk.MessageNewParams {
	p := sdk.MessageNewParams{Model: req.Model, MaxTokens: int64(req.Limits.OutputTokens), Messages: messages(req)}
	if p.MaxTokens == 0 {
		p.MaxTokens = defaultOutput
	}
	if req.Temperature != nil {
		p.Temperature = sdk.Float(*req.Temperature)
	}
	for _, tool := range tools.List {
		var schema struct {
			Properties json.RawMessage `json:"properties"`
			Required   []string        `json:"required"`
		}
		var all map[string]any
		if json.Unmarshal(tool.Schema, &schema) != nil || json.Unmarshal(tool.Schema, &all) != nil {
			continue
		}
		for _, name := range []string{"type", "properties", "required"} {
			delete(all, name)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{
			Name: tool.Name, Description: sdk.String(tool.Description),
			InputSchema: sdk.ToolInputSchemaParam{Properties: schema.Properties, Required: schema.Required, ExtraFields: all},
		}})
	}
	if none := sdk.NewToolChoiceNoneParam(); req.NoCalls && len(p.Tools) > 0 {
		p.ToolChoice.OfNone = &none
	}
	// What comes first is the same in each request of a conversation: it is read from the cache.
	if req.Instructions != "" {
		p.System = append(p.System, sdk.TextBlockParam{Text: req.Instructions, CacheControl: sdk.NewCacheControlEphemeralParam()})
	} else if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	if req.Advice != "" {
		p.System = append(p.System, sdk.TextBlockParam{Text: req.Advice})
	}
	return p
}

// messages returns the conversation. The API wants the results of calls that were made at once in one
// message, and no empty text.
func messages(req model.Request) (list []sdk.MessageParam) {
	add := func(role sdk.MessageParamRole, blocks ...sdk.ContentBlockParamUnion) {
		if n := len(list); n > 0 && list[n-1].Role == role {
			list[n-1].Content = append(list[n-1].Content, blocks...)
		} else if len(blocks) > 0 {
			list = append(list, sdk.MessageParam{Role: role, Content: blocks})
		}
	}
	for _, m := range req.Messages {
		var blocks []sdk.ContentBlockParamUnion
		switch m.Role {
		case model.Result:
			add(sdk.MessageParamRoleUser, sdk.NewToolResultBlock(m.CallID, m.Text, false))
		case model.Assistant:
			if strings.TrimSpace(m.Text) != "" {
				blocks = append(blocks, sdk.NewTextBlock(m.Text))
			}
			for _, call := range m.Calls {
				blocks = append(blocks, sdk.NewToolUseBlock(call.ID, chat.Object(call.Args), chat.NameOf(call.Name)))
			}
			add(sdk.MessageParamRoleAssistant, blocks...)
		default:
			if strings.TrimSpace(m.Text) != "" {
				add(sdk.MessageParamRoleUser, sdk.NewTextBlock(m.Text))
			}
		}
	}
	if n := len(list); n > 0 { // the next request of the conversation begins with all of this
		last := &list[n-1].Content[len(list[n-1].Content)-1]
		switch {
		case last.OfText != nil:
			last.OfText.CacheControl = sdk.NewCacheControlEphemeralParam()
		case last.OfToolResult != nil:
			last.OfToolResult.CacheControl = sdk.NewCacheControlEphemeralParam()
		}
	}
	return list
}

// answer gathers the pieces of an answer.
type answer struct {
	model string
	text  strings.Builder
	calls []*call
	at    map[int64]*call
	stop  sdk.StopReason
	whole bool
	usage model.Usage
}

type call struct {
	id, name string
	args     strings.Builder
}

func (a *answer) add(event sdk.MessageStreamEventUnion, stream func(string)) {
	switch event.Type {
	case "message_start":
		a.model = event.Message.Model
		u := event.Message.Usage
		a.usage = model.Usage{
			In: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, Cached: u.CacheReadInputTokens, CacheWritten: u.CacheCreationInputTokens, Out: u.OutputTokens,
		}
	case "content_block_start":
		if event.ContentBlock.Type == "tool_use" {
			c := &call{id: event.ContentBlock.ID, name: event.ContentBlock.Name}
			if a.at == nil {
				a.at = map[int64]*call{}
			}
			a.at[event.Index], a.calls = c, append(a.calls, c)
		}
	case "content_block_delta":
		if c := a.at[event.Index]; c != nil {
			c.args.WriteString(event.Delta.PartialJSON)
		}
		if text := event.Delta.Text; text != "" {
			a.text.WriteString(text)
			if stream != nil {
				stream(text)
			}
		}
	case "message_delta":
		a.stop = event.Delta.StopReason
		if event.Usage.OutputTokens > 0 {
			a.usage.Out = event.Usage.OutputTokens
		}
	case "message_stop":
		a.whole = true
	}
}

// response returns the whole answer. One without its last event was cut by the connection.
func (a *answer) response(tools chat.Tools) (model.Response, error) {
	if !a.whole || a.stop == "" {
		return model.Response{}, chat.Unfinished()
	}
	r := model.Response{Model: a.model, Text: a.text.String(), Usage: a.usage, Finish: model.Stopped}
	switch a.stop { //nolint:exhaustive // all others are whole
	case sdk.StopReasonRefusal:
		r.Finish = model.Refused
		return r, nil
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		r.Finish = model.CutOff // arguments may be half
		return r, nil
	}
	for _, c := range a.calls {
		r.Calls = append(r.Calls, tools.Call(c.id, c.name, c.args.String()))
	}
	switch {
	case len(r.Calls) > 0:
		r.Finish = model.Calling
	case r.Text == "":
		return model.Response{}, &model.Error{Reason: "the model answered with nothing", Retryable: true}
	}
	return r, nil
}
