package anthropic_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/anthropic"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/credential"
)

const canary = "sk-ant-canary-51b2"

type asked struct {
	header http.Header
	path   string
	body   map[string]any
}

// generate returns what becomes of the answer of a server, and what that server was asked.
func generate(t *testing.T, secret credential.Secret, status int, header, body string) (got model.Response, streamed string, a asked, err error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		a = asked{header: r.Header, path: r.URL.Path}
		_ = json.Unmarshal(raw, &a.body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Retry-After", header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer srv.Close()
	m, err := anthropic.New(anthropic.Config{BaseURL: srv.URL, Credential: secret, Client: srv.Client()})
	require.NoError(t, err)
	warm := 0.5
	got, err = m.Generate(t.Context(), model.Request{
		Model: "m-1", Temperature: &warm, Instructions: "be short", Advice: "now",
		Messages: []model.Message{
			{Role: model.User, Text: "hello"},
			{Role: model.Assistant, Text: " ", Calls: []model.ToolCall{{ID: "c0", Name: "shop:get_order", Args: json.RawMessage(`{"a":1}`)}, {ID: "c1", Name: "shop:list", Args: json.RawMessage(`{"half`)}}},
			{Role: model.Result, CallID: "c0", Text: "one"},
			{Role: model.Result, CallID: "c1", Text: "two"},
			{Role: model.User, Text: "and?"},
		},
		Tools: []model.Tool{{Name: "shop:get_order", Description: "Get", Schema: json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"}},"additionalProperties":false}`)}},
	}, model.Stream{Delta: func(delta string) { streamed += delta }})
	return got, streamed, a, err
}

// events are server-sent events, one for each JSON text; their names are the types in them.
func events(list ...string) string {
	var b strings.Builder
	for _, one := range list {
		var typed struct{ Type string }
		_ = json.Unmarshal([]byte(one), &typed)
		b.WriteString("event: " + typed.Type + "\ndata: " + one + "\n\n")
	}
	return b.String()
}

const (
	begin = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m-1-dated","usage":{"input_tokens":10,"cache_read_input_tokens":80,"cache_creation_input_tokens":5,"output_tokens":1}}}`
	text  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	hel   = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`
	lo    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}`
	over  = `{"type":"message_stop"}`
)

func ends(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `"},"usage":{"output_tokens":7}}`
}

func TestAnswerIsGatheredFromItsPieces(t *testing.T) {
	t.Parallel()
	got, streamed, a, err := generate(t, credential.NewAPIKey(canary), 200, "", events(begin, text, hel, `{"type":"ping"}`, lo, `{"type":"content_block_stop","index":0}`, ends("end_turn"), over))
	require.NoError(t, err)
	require.Equal(t, model.Response{Model: "m-1-dated", Text: "Hello", Finish: model.Stopped, Usage: model.Usage{In: 95, Cached: 80, CacheWritten: 5, Out: 7}}, got)
	require.Equal(t, "Hello", streamed)
	require.Equal(t, "/v1/messages", a.path)
	require.Equal(t, canary, a.header.Get("X-Api-Key"))
	require.NotEmpty(t, a.header.Get("Anthropic-Version"))
	require.InDelta(t, 0.5, a.body["temperature"], 0)
	require.EqualValues(t, 4096, a.body["max_tokens"], "the API wants a number")
	raw, err := json.Marshal(a.body)
	require.NoError(t, err)
	const short = `"cache_control":{"type":"ephemeral"}`
	require.JSONEq(t, `[{"type":"text","text":"be short",`+short+`},{"type":"text","text":"now"}]`, toJSON(t, a.body["system"]))
	require.JSONEq(t, `[
		{"role":"user","content":[{"type":"text","text":"hello"}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"call00001","name":"shop__get_order","input":{"a":1}},{"type":"tool_use","id":"call00002","name":"shop__list","input":{}}]},
		{"role":"user","content":[
			{"type":"tool_result","tool_use_id":"call00001","is_error":false,"content":[{"type":"text","text":"one"}]},
			{"type":"tool_result","tool_use_id":"call00002","is_error":false,"content":[{"type":"text","text":"two"}]}]},
		{"role":"assistant","content":[{"type":"text","text":"I have read the results."}]},
		{"role":"user","content":[{"type":"text","text":"and?",`+short+`}]}]`, toJSON(t, a.body["messages"]), "%s", raw)
	require.JSONEq(t, `[{"name":"shop__get_order","description":"Get","input_schema":{"type":"object","required":["id"],"properties":{"id":{"type":"string"}},"additionalProperties":false}}]`, toJSON(t, a.body["tools"]))
}

// A server that has read the request and says nothing has used what it read. One that has begun counts what
// it wrote: its first event has 1 as the count of all.
func TestAnswerThatBreaksOffCountsWhatItHasUsed(t *testing.T) {
	t.Parallel()
	got, _, _, err := generate(t, credential.NewAPIKey(canary), 200, "", events(begin, text, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+strings.Repeat("seven b", 100)+`"}}`))
	require.Error(t, err)
	require.Equal(t, model.Usage{In: 95, Cached: 80, CacheWritten: 5, Out: 200, Estimate: true}, got.Usage)

	hangs := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-hangs
	}))
	defer srv.Close()
	defer close(hangs)
	m, err := anthropic.New(anthropic.Config{BaseURL: srv.URL, Credential: credential.NewAPIKey(canary), Client: srv.Client()})
	require.NoError(t, err)
	soon, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	got, err = m.Generate(soon, model.Request{Messages: []model.Message{{Role: model.User, Text: strings.Repeat("seven b", 100)}}}, model.Stream{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, model.Usage{In: 200, Estimate: true}, got.Usage)
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

func TestCredentialsGoWhereTheirKindSays(t *testing.T) {
	t.Parallel()
	whole := events(begin, text, hel, ends("end_turn"), over)
	_, _, a, err := generate(t, credential.NewBearer(canary), 200, "", whole)
	require.NoError(t, err)
	require.Equal(t, "Bearer "+canary, a.header.Get("Authorization"))
	require.Empty(t, a.header.Get("X-Api-Key"))
	_, _, a, err = generate(t, credential.NewCustomHeader(map[string]string{"X-Gateway": canary}), 200, "", whole)
	require.NoError(t, err)
	require.Equal(t, canary, a.header.Get("X-Gateway"))
	_, err = anthropic.New(anthropic.Config{BaseURL: "https://example.com", Credential: credential.NewBasic("a", "b"), Client: &http.Client{}})
	require.Error(t, err)
}

func TestParallelCallsAreGatheredFromTheirPieces(t *testing.T) {
	t.Parallel()
	call := func(index, id, name string) string {
		return `{"type":"content_block_start","index":` + index + `,"content_block":{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":{}}}`
	}
	piece := func(index, part string) string {
		return `{"type":"content_block_delta","index":` + index + `,"delta":{"type":"input_json_delta","partial_json":` + part + `}}`
	}
	got, _, _, err := generate(t, credential.NewAPIKey(canary), 200, "", events(begin, text, hel, call("1", "a", "shop__get_order"), piece("1", `"{\"id\":\"o"`), piece("1", `"rd\"}"`), call("2", "b", "other"), ends("tool_use"), over))
	require.NoError(t, err)
	require.Equal(t, model.Calling, got.Finish)
	require.Equal(t, "Hel", got.Text)
	require.Equal(t, []model.ToolCall{{ID: "a", Name: "shop:get_order", Args: json.RawMessage(`{"id":"ord"}`)}, {ID: "b", Name: "other", Args: json.RawMessage(`{}`)}}, got.Calls)
}

func TestAnswersThatAreNotWhole(t *testing.T) {
	t.Parallel()
	const said = canary // internal/service/models takes the credential out
	const noModel = "no model answers at this address, which sent a web page or another text: check the base_url of the provider"
	const asks = `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"other","input":{}}}`
	for name, c := range map[string]struct {
		status       int
		header, body string
		finish       model.Finish
		failure      model.Error
	}{
		"cut off":               {200, "", events(begin, text, hel, ends("max_tokens"), over), model.CutOff, model.Error{}},
		"within a call":         {200, "", events(begin, text, hel, asks, ends("max_tokens"), over), model.CutOff, model.Error{}},
		"no room for more":      {200, "", events(begin, text, hel, ends("model_context_window_exceeded"), over), model.CutOff, model.Error{}},
		"a refusal":             {200, "", events(begin, ends("refusal"), over), model.Refused, model.Error{}},
		"empty":                 {200, "", events(begin, ends("end_turn"), over), "", model.Error{Reason: "the model answered with nothing", Retryable: true}},
		"ends in between":       {200, "", events(begin, text, hel), "", model.Error{Reason: "the provider's answer does not say why it ended, so it may be cut off", Retryable: true}},
		"ends before its last":  {200, "", events(begin, text, hel, ends("end_turn")), "", model.Error{Reason: "the provider's answer does not say why it ended, so it may be cut off", Retryable: true}},
		"nothing at all":        {200, "", "", "", model.Error{Reason: "the provider's answer does not say why it ended, so it may be cut off", Retryable: true}},
		"an event that is none": {200, "", "event: message_start\ndata: {" + canary + "\n\n", "", model.Error{Reason: "the provider's answer is not understood", Retryable: true}},
		"rate limit":            {429, "7", `{"type":"error","error":{"type":"rate_limit_error","message":"` + canary + `"}}`, "", model.Error{Reason: "the provider's rate limit is reached", Said: said, Retryable: true, RetryAfter: 7 * time.Second}},
		"overloaded":            {529, "3", `{"type":"error","error":{"type":"overloaded_error"}}`, "", model.Error{Reason: "the provider is overloaded", Said: `{"type":"overloaded_error"}`, Retryable: true, RetryAfter: 3 * time.Second}},
		"overloaded by a 500":   {500, "", `{"type":"error","error":{"type":"overloaded_error"}}`, "", model.Error{Reason: "the provider is overloaded", Said: `{"type":"overloaded_error"}`, Retryable: true}},
		"no credit":             {400, "", `{"type":"error","error":{"type":"billing_error"}}`, "", model.Error{Reason: "the account at the provider has no credit left", Said: `{"type":"billing_error"}`}},
		"refused key":           {401, "", `{"type":"error","error":{"type":"authentication_error","message":"` + canary + `"}}`, "", model.Error{Reason: "the provider refused the credential", Said: said}},
		"a page with 404":       {404, "", "<!DOCTYPE html><h1>Nothing</h1>", "", model.Error{Reason: noModel}},
		"a page with 200":       {200, "", "<!DOCTYPE html>\n<h1>Welcome</h1>", "", model.Error{Reason: noModel}},
		"a refused field":       {200, "", events(`{"type":"error","error":{"type":"invalid_request_error","message":"cache_control: Extra inputs are not permitted"}}`), "", model.Error{Reason: "the provider refused the request, because of cache_control", Said: "cache_control: Extra inputs are not permitted", Refused: []string{"cache_control"}}},
		"too long":              {413, "", `{"type":"error","error":{"type":"request_too_large"}}`, "", model.Error{Reason: "the conversation is longer than the model takes", Said: `{"type":"request_too_large"}`}},
		"a redirect":            {302, "", "", "", model.Error{Reason: "the provider redirects, which is not followed"}},
		"a fault of theirs":     {502, "", "<html>" + canary, "", model.Error{Reason: "the provider answered with the status 502", Retryable: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, _, err := generate(t, credential.NewAPIKey(canary), c.status, c.header, c.body)
			if c.finish != "" {
				require.NoError(t, err)
				require.Equal(t, c.finish, got.Finish)
				require.Equal(t, name == "within a call", len(got.Calls) > 0, "the calls of a cut off answer show that it is not the whole reply")
				return
			}
			var failure *model.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, c.failure, *failure)
			require.NotContains(t, err.Error(), canary)
		})
	}
}
