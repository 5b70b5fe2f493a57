package strictmodel_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/strictmodel"
	"agentruntime/internal/models/anthropic"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/openai"
	"agentruntime/internal/provider/credential"
)

// habit is what one kind of server is known to send, and what is made of it.
type habit struct {
	text, thought string
	calls         int // to get_order, with the ids "1", "2"
	finish        model.Finish
	reason        string // of the error; "" for an answer
	estimated     bool
}

var (
	hello = habit{text: "Hello.", finish: model.Stopped}
	one   = habit{calls: 1, finish: model.Calling}
	two   = habit{calls: 2, finish: model.Calling}
)

func thinking(h habit) habit { h.thought = "Hm."; return h }

func fails(reason string) habit { return habit{reason: reason, estimated: true} }

// The wire habits of chat servers, by their public reports and pages. Each row is a file in testdata; its
// name begins with the kind of server. Those of Anthropic and of converters to its API answer messages,
// all others chat completions.
var habits = map[string]habit{
	"openai-parallel-calls":             two,
	"openai-refusal":                    {text: "I cannot help.", finish: model.Refused},
	"azure-filter-chunks":               hello,
	"azure-content-filter":              {text: "Hel", finish: model.Refused},
	"gemini-no-index":                   two,
	"gemini-all-index-0":                two,
	"gemini-error-in-a-list":            fails("the provider is overloaded: The model is overloaded."),
	"mistral-content-parts":             thinking(hello),
	"mistral-whole-calls":               two,
	"mistral-model-length":              {text: "Hel", finish: model.CutOff},
	"vllm-reasoning-content":            thinking(hello),
	"vllm-id-in-each-piece":             one,
	"vllm-think-without-its-beginning":  {text: "\n\nHello.", thought: "Hm.\nSo.", finish: model.Stopped},
	"vllm-error-in-the-stream":          fails("the provider answered with the status 500: Internal server error"),
	"sglang-abort":                      fails("the provider stopped the answer: abort"),
	"llamacpp-error-line":               fails("the provider refused the request: the request exceeds the available context size"),
	"llamacpp-one-id-for-two-calls":     two,
	"llamacpp-no-blank-line-at-the-end": hello,
	"ollama-whole-calls-all-0":          two,
	"ollama-think":                      {text: "\n\nHello.", thought: "Hm.", finish: model.Stopped},
	"ollama-arguments-as-object":        one,
	"lmstudio-no-usage":                 {text: "Hello.", finish: model.Stopped, estimated: true},
	"lmstudio-error-event":              fails("the provider sent an error in the place of the answer: The model has crashed."),
	"groq-reasoning":                    thinking(hello),
	"fireworks-name-in-each-piece":      one,
	"nim-null-members":                  hello,
	"minimax-whole-call-again":          one,
	"minimax-thinking":                  thinking(hello),
	"deepseek-keep-alive":               thinking(hello),
	"deepseek-no-capacity":              fails("the provider stopped the answer: insufficient_system_resource"),
	"openrouter-processing":             hello,
	"openrouter-error-in-the-stream":    fails("the provider answered with the status 502: Provider disconnected"),
	"openrouter-error-with-200":         fails("the provider's rate limit is reached: Rate limit exceeded"),
	"litellm-whole-answer":              {text: "Let me look.", calls: 1, finish: model.Calling},
	"litellm-negative-usage":            {text: "Hello.", finish: model.Stopped, estimated: true},
	"foundry-delta-and-message":         hello,
	"zhipu-sensitive":                   {text: "Hel", finish: model.Refused},
	"proxy-cut-off-call":                {calls: 1, finish: model.CutOff},
	"proxy-no-finish":                   fails("the provider's answer does not say why it ended, so it may be cut off"),
	"proxy-cut-connection":              fails("the provider's answer is not understood"),
	"proxy-crlf-and-marks":              hello,
	"proxy-one-line-each":               hello,
	"proxy-html":                        fails("no model answers at this address, which sent a web page or another text: check the base_url of the provider"),
	"anthropic-thinking-and-calls":      thinking(two),
	"anthropic-overloaded":              {reason: "the provider is overloaded: Overloaded"},
	"anthropic-refusal":                 {finish: model.Refused},
	"converter-input-at-the-start":      two,
	"converter-all-blocks-0":            two,
	"converter-text-at-the-start":       hello,
	"converter-usage-at-the-end":        hello,
	"converter-whole-message":           {text: "Let me look.", calls: 1, finish: model.Calling},
	"converter-no-end":                  fails("the provider's answer does not say why it ended, so it may be cut off"),
}

func TestHabitsOfServersAreUnderstood(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/habits/*.txt")
	require.NoError(t, err)
	require.Len(t, files, len(habits))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, has := habits[name]
			require.True(t, has, "no row for the file")
			body, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.Contains(name, "crlf") { // files in the repository have one kind of line ends
				body = bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n"))
			}
			server := httptest.NewServer(strictmodel.Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if w.Header().Set("Content-Type", "text/event-stream"); strings.HasSuffix(name, "-html") {
					w.Header().Set("Content-Type", "text/html")
				}
				_, _ = w.Write(body)
			}), func(reasons []string) { t.Error(reasons) }))
			defer server.Close()
			messages := strings.HasPrefix(name, "anthropic-") || strings.HasPrefix(name, "converter-")
			var streamed strings.Builder
			got, err := adapter(t, server, messages).Generate(t.Context(), request(), model.Stream{Delta: func(delta string) { streamed.WriteString(delta) }, Reset: func(string) { streamed.Reset() }})
			require.Equal(t, want.estimated, got.Usage.Estimate, "usage %v", got.Usage)
			require.Positive(t, got.Usage.In)
			if want.reason != "" {
				var failure *model.Error
				require.ErrorAs(t, err, &failure)
				require.Equal(t, want.reason, failure.Words())
				require.Empty(t, got.Text)
				require.Empty(t, got.Calls)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []any{want.text, want.thought, want.finish}, []any{got.Text, got.Reasoning, got.Finish})
			require.Len(t, got.Calls, want.calls)
			for i, c := range got.Calls {
				require.Equal(t, "shop:get_order", c.Name)
				if want.finish == model.Calling { // otherwise they are half
					require.JSONEq(t, []string{`{"id":"1"}`, `{"id":"2"}`}[i], string(c.Args))
				}
			}
			if got.Finish != model.Refused {
				require.Equal(t, got.Text, streamed.String())
			}
		})
	}
}

func adapter(t *testing.T, server *httptest.Server, messages bool) model.Model {
	t.Helper()
	if messages {
		m, err := anthropic.New(anthropic.Config{BaseURL: server.URL, Credential: credential.NewAPIKey("key"), Client: server.Client()})
		require.NoError(t, err)
		return m
	}
	m, err := openai.New(openai.Config{BaseURL: server.URL + "/v1", Credential: credential.NewBearer("key"), Client: server.Client()})
	require.NoError(t, err)
	return m
}

// request is one whose history several servers have spoiled.
func request() model.Request {
	warm := 0.5
	return model.Request{
		Model: "m", Temperature: &warm, Instructions: "Help.", Advice: "Now.", Limits: model.Limits{OutputTokens: 100},
		Tools: []model.Tool{{Name: "shop:get_order", Description: "Get", Schema: json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}`)}},
		Messages: []model.Message{
			{Role: model.Result, CallID: "gone", Text: "1"},
			{Role: model.User, Text: "hello"},
			{Role: model.Assistant, Text: " ", Calls: []model.ToolCall{
				{ID: "functions.get:0", Name: "shop:get_order", Args: json.RawMessage(`{"id":"1"}`)},
				{ID: "functions.get:0", Name: "browser.open page", Args: json.RawMessage(`{"half`)},
				{ID: strings.Repeat("x", 80), Name: "shop:get_order", Args: json.RawMessage(`[1]`)},
			}},
			{Role: model.Result, CallID: "functions.get:0", Text: ""},
			{Role: model.Result, CallID: "functions.get:0", Text: "no such tool"},
			{Role: model.Result, CallID: "functions.get:0", Text: "twice"},
			{Role: model.User, Text: " "},
			{Role: model.Assistant, Text: "\n"},
			{Role: model.User, Text: "again"},
		},
	}
}
