//go:build conformance

package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/edge/egress"
	"agentruntime/internal/models/anthropic"
	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/openai"
	"agentruntime/internal/provider/credential"
	"agentruntime/test/rig"
)

// startAimock runs aimock, which answers by the APIs of OpenAI and Anthropic, and returns its address.
// A request that no fixture of testdata/aimock.json matches is an error.
func startAimock(t *testing.T) string {
	t.Helper()
	// The CommonJS build also runs on Node 18, which Debian 12 has.
	program := filepath.Join(rig.Root(), "test", "node", "node_modules", "@copilotkit", "aimock", "dist", "cli.cjs")
	require.FileExists(t, program, "run `make node` first")
	address := rig.FreeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	rig.Start(t, "aimock", "node", nil, program, "--port", port, "--strict", "--fixtures", filepath.Join("testdata", "aimock.json"))
	client := &http.Client{Timeout: time.Second}
	rig.Until(t, time.Minute, "aimock listens", func() bool {
		res, err := client.Get("http://" + address + "/health")
		if err != nil {
			return false
		}
		return res.Body.Close() == nil
	})
	return "http://" + address
}

// adapters are the two ways to ask models over HTTP, by the name of a model that fixtures know.
func adapters(t *testing.T, url string) map[string]model.Model {
	t.Helper()
	client := egress.Bounded(egress.NewUnguarded(), chat.MaxAnswer, chat.ErrTooLong)
	gpt, err := openai.New(openai.Config{BaseURL: url + "/v1", Credential: credential.NewBearer("canary"), Client: client})
	require.NoError(t, err)
	claude, err := anthropic.New(anthropic.Config{BaseURL: url, Credential: credential.NewBearer("canary"), Client: client})
	require.NoError(t, err)
	return map[string]model.Model{"gpt": gpt, "claude": claude}
}

func tools() []model.Tool {
	return []model.Tool{
		{Name: "shop:get_order", Description: "Get an order", Schema: json.RawMessage(`{"type":"object","required":["order_id"],"properties":{"order_id":{"type":"string"},"order_note":{"type":"string"}}}`)},
		{Name: "shop:get_customer", Description: "Get a customer", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
	}
}

func generate(ctx context.Context, m model.Model, name string, messages ...model.Message) (got model.Response, streamed string, err error) {
	got, err = m.Generate(ctx, model.Request{
		Purpose: model.Reply, Model: name, Instructions: "be short", Advice: "read this", Messages: messages, Tools: tools(), Limits: model.Limits{OutputTokens: 100},
	}, model.Stream{Delta: func(delta string) { streamed += delta }})
	return got, streamed, err
}

func user(text string) model.Message { return model.Message{Role: model.User, Text: text} }

// What aimock answers by each of the two APIs is understood in the same way.
func TestConformanceModelsAnswerByBothAPIs(t *testing.T) {
	t.Parallel()
	for name, m := range adapters(t, startAimock(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, streamed, err := generate(t.Context(), m, name, user("say hello"))
			require.NoError(t, err)
			require.Equal(t, model.Response{Model: "m-1-dated", Text: "Hello there, how are you today?", Finish: model.Stopped, Usage: model.Usage{In: 10, Out: 5}}, got)
			require.Equal(t, got.Text, streamed)

			// Two calls at once, with a text before them. Their results are read.
			got, streamed, err = generate(t.Context(), m, name, user("look both up"))
			require.NoError(t, err)
			require.Equal(t, model.Calling, got.Finish)
			require.Equal(t, "Let me look.", got.Text)
			require.Equal(t, got.Text, streamed)
			require.Len(t, got.Calls, 2)
			require.Equal(t, "shop:get_order", got.Calls[0].Name)
			require.JSONEq(t, `{"order_id":"ord_1001","order_note":"a text that is long enough for several pieces, with ü and \"quotes\""}`, string(got.Calls[0].Args))
			require.Equal(t, model.ToolCall{ID: "call_2", Name: "shop:get_customer", Args: json.RawMessage("{}")}, got.Calls[1])
			got, _, err = generate(t.Context(), m, name, user("look both up"), model.Message{Role: model.Assistant, Text: got.Text, Calls: got.Calls},
				model.Message{Role: model.Result, CallID: "call_1", Text: "an order"}, model.Message{Role: model.Result, CallID: "call_2", Text: "a customer"})
			require.NoError(t, err)
			require.Equal(t, "Both are there.", got.Text)

			// A call before the text, of a tool that there is not.
			got, _, err = generate(t.Context(), m, name, user("call first"))
			require.NoError(t, err)
			require.Equal(t, "I have called.", got.Text)
			require.Equal(t, []model.ToolCall{{ID: "call_1", Name: "no_such_tool", Args: json.RawMessage(`{"a":1}`)}}, got.Calls)

			for text, want := range map[string]model.Response{
				"do evil":        {Text: "I will not.", Finish: model.Refused},
				"write a novel":  {Text: "It was a dark", Finish: model.CutOff},
				"call at length": {Finish: model.CutOff},
			} {
				got, _, err := generate(t.Context(), m, name, user(text))
				require.NoError(t, err, text)
				require.Equal(t, want.Finish, got.Finish, text)
				require.Equal(t, want.Text, got.Text, text)
				require.Equal(t, text == "call at length", len(got.Calls) > 0, text)
			}
		})
	}
}

// What goes wrong at a provider has the same reason by both APIs, and nothing of what the provider says
// is in it.
func TestConformanceModelsFailByBothAPIs(t *testing.T) {
	t.Parallel()
	failures := map[string]model.Error{
		"say nothing":        {Reason: "the model answered with nothing", Retryable: true},
		"too fast":           {Reason: "the provider's rate limit is reached", Retryable: true, RetryAfter: 7 * time.Second},
		"overload":           {Reason: "the provider is overloaded", Retryable: true},
		"unknown model":      {Reason: "the provider does not know the model, or its base_url is wrong"},
		"wrong key":          {Reason: "the provider refused the credential"},
		"too much":           {Reason: "the conversation is longer than the model takes"},
		"bad request":        {Reason: "the provider refused the request"},
		"break":              {Reason: "the provider answered with the status 500", Retryable: true},
		"garble":             {Reason: "the provider's answer is not understood", Retryable: true},
		"hang up":            {Reason: "the connection to the provider failed", Retryable: true},
		"stop in the middle": {Reason: "the connection to the provider failed", Retryable: true},
	}
	for name, m := range adapters(t, startAimock(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for text, want := range failures {
				_, _, err := generate(t.Context(), m, name, user(text))
				var failure *model.Error
				require.ErrorAs(t, err, &failure, text)
				failure.Said = ""
				require.Equal(t, want, *failure, text)
			}
		})
	}
}

// modelServer has an agent answer by aimock: it is refused once, asks again, calls a verb and replies.
func (j *journey) modelServer(url string) {
	j.post(j.user, 201, "/v1/model-providers", object{"slug": "mock", "api": "openai", "base_url": url + "/v1"})
	j.post(j.user, 201, "/v1/credentials", object{"provider": "model:mock", "type": "bearer", "data": object{"token": "t"}})
	agent, path := j.talks("mock", "gpt", object{"tools": object{"allow": []string{"shop:get_order"}}})
	var said struct {
		ExecutionID string `json:"execution_id"`
		Message     string
		TokensUsed  int `json:"tokens_used"`
	}
	j.post(j.writer, 200, path, object{"message": "Where is the order ord_1001?", "metadata": object{"why": "test"}}).Data(j.t, &said)
	require.Equal(j.t, "It is paid.", said.Message)
	require.Greater(j.t, said.TokensUsed, 120)
	var execution struct {
		ModelCalls []struct{ Model string } `json:"model_calls"`
		Metadata   map[string]any
	}
	j.call(j.user, 200, http.MethodGet, executionsPath+said.ExecutionID, nil).Data(j.t, &execution)
	require.Len(j.t, execution.ModelCalls, 2)
	require.Equal(j.t, object{"why": "test"}, execution.Metadata)
	j.drop(agent)
}
