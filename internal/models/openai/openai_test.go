package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/model"
	"agentruntime/internal/models/openai"
	"agentruntime/internal/provider/credential"
)

const canary = "sk-canary-51b2"

// generate returns what becomes of the answer of a server, and what that server was asked.
func generate(t *testing.T, status int, header, body string) (got model.Response, streamed string, asked map[string]any, err error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+canary || r.URL.Path != "/v1/chat/completions" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &asked)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Retry-After", header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer srv.Close()
	m, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1", Credential: credential.NewBearer(canary), Client: srv.Client()})
	require.NoError(t, err)
	got, err = m.Generate(t.Context(), model.Request{
		Model: "m-1", Instructions: "be short", Advice: "now", Limits: model.Limits{OutputTokens: 9},
		Messages: []model.Message{
			{Role: model.User, Text: "hello"},
			{Role: model.Assistant, Calls: []model.ToolCall{{ID: "c0", Name: "shop:get_order", Args: json.RawMessage(`{"a":1}`)}}},
			{Role: model.Result, CallID: "c0", Text: "{}"},
		},
		Tools:   []model.Tool{{Name: "shop:get_order", Description: "Get", Schema: json.RawMessage(`{"type":"object","properties":{"order id":{"type":"string"}}}`)}},
		NoCalls: true,
	}, model.Stream{Delta: func(delta string) { streamed += delta }})
	return got, streamed, asked, err
}

func event(choice string) string {
	return fmt.Sprintf("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m-1-2026\",\"choices\":[%s]}\n\n", choice)
}

const usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3,\"total_tokens\":13,\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\ndata: [DONE]\n\n"

func TestAnswerIsGatheredFromItsPieces(t *testing.T) {
	t.Parallel()
	got, streamed, asked, err := generate(t, 200, "", event(`{"index":0,"delta":{"content":"Hel"}}`)+event(`{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}`)+usage)
	require.NoError(t, err)
	require.Equal(t, model.Response{Model: "m-1-2026", Text: "Hello", Finish: model.Stopped, Usage: model.Usage{In: 10, Cached: 8, Out: 3}}, got)
	require.Equal(t, "Hello", streamed)
	require.Equal(t, "m-1", asked["model"])
	require.Len(t, asked["messages"], 5)
	require.Len(t, asked["tools"], 1)
	require.Equal(t, "none", asked["tool_choice"])
	raw, err := json.Marshal(asked)
	require.NoError(t, err)
	require.Contains(t, string(raw), `"name":"shop__get_order"`)
	require.Contains(t, string(raw), `"order_id__ae40deab":`, "names of arguments that the maker refuses have another one")
}

func TestParallelCallsAreGatheredFromTheirPieces(t *testing.T) {
	t.Parallel()
	got, _, _, err := generate(t, 200, "", event(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"shop__get_order","arguments":"{\"or"}},{"index":1,"id":"b","function":{"name":"other","arguments":""}}]}}`)+
		event(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"der\":1}"}}]},"finish_reason":"tool_calls"}`)+usage)
	require.NoError(t, err)
	require.Equal(t, model.Calling, got.Finish)
	require.Equal(t, []model.ToolCall{{ID: "a", Name: "shop:get_order", Args: json.RawMessage(`{"order":1}`)}, {ID: "b", Name: "other", Args: json.RawMessage(`{}`)}}, got.Calls)
}

// A server that has read the request and says nothing has used what it read.
func TestRequestThatIsNotAnsweredInTimeCountsWhatWasSent(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-hangs
	}))
	defer srv.Close()
	defer close(hangs)
	m, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1", Credential: credential.NewBearer(canary), Client: srv.Client()})
	require.NoError(t, err)
	soon, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	got, err := m.Generate(soon, model.Request{Messages: []model.Message{{Role: model.User, Text: strings.Repeat("seven b", 100)}}}, model.Stream{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, model.Usage{In: 200, Estimate: true}, got.Usage)
}

func TestAnswersThatAreNotWhole(t *testing.T) {
	t.Parallel()
	const said = canary // internal/service/models takes the credential out
	const noModel = "no model answers at this address, which sent a web page or another text: check the base_url of the provider"
	for name, c := range map[string]struct {
		status       int
		header, body string
		finish       model.Finish
		failure      model.Error
	}{
		"cut off":           {200, "", event(`{"index":0,"delta":{"content":"Hel"},"finish_reason":"length"}`), model.CutOff, model.Error{}},
		"within a call":     {200, "", event(`{"index":0,"delta":{"content":"Let me look.","tool_calls":[{"index":0,"id":"a","function":{"name":"other","arguments":"{\"id\":"}}]},"finish_reason":"length"}`), model.CutOff, model.Error{}},
		"a refusal":         {200, "", event(`{"index":0,"delta":{"refusal":"no"},"finish_reason":"stop"}`), model.Refused, model.Error{}},
		"empty":             {200, "", event(`{"index":0,"delta":{},"finish_reason":"stop"}`), "", model.Error{Reason: "the model answered with nothing", Retryable: true}},
		"ends in between":   {200, "", event(`{"index":0,"delta":{"content":"Hel"}}`), "", model.Error{Reason: "the provider's answer does not say why it ended, so it may be cut off", Retryable: true}},
		"rate limit":        {429, "7", `{"error":{"message":"` + canary + `"}}`, "", model.Error{Reason: "the provider's rate limit is reached", Said: said, Retryable: true, RetryAfter: 7 * time.Second}},
		"no credit":         {429, "7", `{"error":{"code":"insufficient_quota"}}`, "", model.Error{Reason: "the account at the provider has no credit left", Said: `{"code":"insufficient_quota"}`}},
		"a redirect":        {302, "", "", "", model.Error{Reason: "the provider redirects, which is not followed"}},
		"refused key":       {401, "", `{"error":{"message":"` + canary + `"}}`, "", model.Error{Reason: "the provider refused the credential", Said: said}},
		"a refused model":   {403, "", `{"error":{"message":"Project has no access to model m-1"}}`, "", model.Error{Reason: "the provider does not allow this credential to ask the model", Said: "Project has no access to model m-1"}},
		"an unknown model":  {404, "", `{"error":{"message":"The model m-1 does not exist"}}`, "", model.Error{Reason: "the provider does not know the model, or its base_url is wrong", Said: "The model m-1 does not exist"}},
		"words only":        {404, "", "404 page not found\n", "", model.Error{Reason: "the provider does not know the model, or its base_url is wrong", Said: "404 page not found"}},
		"a page with 404":   {404, "", "<!DOCTYPE html><h1>Nothing</h1>", "", model.Error{Reason: noModel}},
		"a page with 200":   {200, "", "\n<!DOCTYPE html>\n<h1>Welcome</h1>", "", model.Error{Reason: noModel}},
		"no form with 200":  {200, "", "ok\n", "", model.Error{Reason: noModel}},
		"a refused field":   {200, "", `data: {"error":{"message":"Unknown parameter: stream_options","type":"invalid_request_error","code":null}}`, "", model.Error{Reason: "the provider refused the request, because of stream_options", Said: "Unknown parameter: stream_options", Refused: []string{"stream_options"}}},
		"one with a code":   {200, "", `{"error":{"message":"max_completion_tokens is not supported","code":400}}`, "", model.Error{Reason: "the provider refused the request, because of max_completion_tokens", Said: "max_completion_tokens is not supported", Refused: []string{"max_completion_tokens"}}},
		"a fault of theirs": {500, "", "<html>" + canary, "", model.Error{Reason: "the provider answered with the status 500", Retryable: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, _, err := generate(t, c.status, c.header, c.body)
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
