// Package anthropic asks models by the messages of Anthropic. The service internal/service/models makes
// one for each request, with the credential that is in it. It never tries again, follows no redirect,
// and reads nothing from the environment.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/credential"
)

// Config says where the models are.
type Config struct {
	// BaseURL is what /v1/messages is added to.
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
		return nil, errors.New("anthropic: an address and a client are required")
	}
	options := []option.RequestOption{
		option.WithBaseURL(strings.TrimRight(cfg.BaseURL, "/") + "/"), option.WithHTTPClient(cfg.Client), option.WithMaxRetries(0),
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
	return &Model{client: sdk.Client{Options: options}, dialect: cfg.Dialect}, nil
}

// Generate implements model.Model. It always streams: so a connection that breaks shows.
func (m *Model) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	tools := chat.NewTools(req.Tools, tooldef.Anthropic)
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
	if err := m.client.Post(traced, "v1/messages", body, &resp, option.WithJSONSet("stream", true), option.WithMiddleware(refuse)); err != nil {
		var r model.Response
		if sent.Load() && ctx.Err() != nil {
			r.Usage = r.Usage.Estimated(req, 0, false) // the server has read it, and may be at work
		}
		return r, chat.Broken(ctx, err)
	}
	defer resp.Body.Close()
	a := answer{pieces: chat.NewPieces(stream), optional: optional}
	err := chat.Read(resp.Body, a.add)
	a.pieces.Whole = err == nil && a.whole
	if err != nil {
		err = chat.Broken(ctx, err)
	}
	return a.response(a.pieces.Response(req, tools), err)
}

// defaultOutput is how many tokens an answer may have that says nothing of it: the API wants a number.
const defaultOutput = 4096

// The optional fields of a request.
const (
	temperature  = "temperature"
	toolChoice   = "tool_choice"
	cacheControl = "cache_control"
)

// params returns the request, and which of its fields it can do without.
func (m *Model) params(req model.Request, tools chat.Tools) (p sdk.MessageNewParams, optional []string) {
	takes := func(field string, set bool) bool {
		if set = set && !m.dialect.Without[field]; set {
			optional = append(optional, field)
		}
		return set
	}
	caches := takes(cacheControl, true)
	p = sdk.MessageNewParams{Model: req.Model, MaxTokens: int64(req.Limits.OutputTokens), Messages: messages(chat.History(req, tools), caches)}
	if p.MaxTokens == 0 {
		p.MaxTokens = defaultOutput
	}
	if takes(temperature, req.Temperature != nil) {
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
	if none := sdk.NewToolChoiceNoneParam(); takes(toolChoice, req.NoCalls && len(p.Tools) > 0) {
		p.ToolChoice.OfNone = &none
	}
	for _, text := range []string{req.Instructions, req.Advice} {
		if strings.TrimSpace(text) != "" {
			p.System = append(p.System, sdk.TextBlockParam{Text: text})
		}
	}
	// What comes first is the same in each request of a conversation: it is read from the cache.
	if n := len(p.Tools); caches && strings.TrimSpace(req.Instructions) != "" {
		p.System[0].CacheControl = sdk.NewCacheControlEphemeralParam()
	} else if caches && n > 0 {
		p.Tools[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	return p, optional
}

// messages returns the conversation. The API wants what one side says, with the results of calls, in one
// message.
func messages(history []model.Message, caches bool) (list []sdk.MessageParam) {
	add := func(role sdk.MessageParamRole, blocks ...sdk.ContentBlockParamUnion) {
		if n := len(list); n > 0 && list[n-1].Role == role {
			list[n-1].Content = append(list[n-1].Content, blocks...)
		} else {
			list = append(list, sdk.MessageParam{Role: role, Content: blocks})
		}
	}
	for _, m := range history {
		var blocks []sdk.ContentBlockParamUnion
		switch m.Role {
		case model.Result:
			add(sdk.MessageParamRoleUser, sdk.NewToolResultBlock(m.CallID, m.Text, false))
		case model.Assistant:
			if m.Text != "" {
				blocks = append(blocks, sdk.NewTextBlock(m.Text))
			}
			for _, call := range m.Calls {
				blocks = append(blocks, sdk.NewToolUseBlock(call.ID, call.Args, call.Name))
			}
			add(sdk.MessageParamRoleAssistant, blocks...)
		default:
			add(sdk.MessageParamRoleUser, sdk.NewTextBlock(m.Text))
		}
	}
	if n := len(list); caches && n > 0 { // the next request of the conversation begins with all of this
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
