package strictmodel_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/strictmodel"
	"agentruntime/internal/models/model"
)

// Each request breaks one rule; the word is in what the server says.
func TestEachRuleOfAnAPIRefuses(t *testing.T) {
	t.Parallel()
	const tools = `"tools":[{"type":"function","function":{"name":"a","description":"d","parameters":{"type":"object","properties":{}}}}]`
	chat := func(messages string) string { return `{"model":"m",` + tools + `,"messages":[` + messages + `]}` }
	const call = `{"role":"assistant","tool_calls":[{"id":"call00001","type":"function","function":{"name":"a","arguments":"{}"}}]}`
	const result, user = `{"role":"tool","tool_call_id":"call00001","content":"1"}`, `{"role":"user","content":"u"}`
	require.Empty(t, strictmodel.Chat([]byte(chat(user+","+call+","+result))))
	for word, body := range map[string]string{
		"Extra inputs":      `{"model":"m","messages":[` + user + `],"stop_words":1}`,
		"model is missing":  `{"messages":[` + user + `]}`,
		"is empty":          chat(""),
		"have no results":   chat(user + "," + call),
		"no call of it":     chat(user + "," + call + "," + result + "," + result),
		"speaks first":      chat(call + "," + result),
		"twice":             chat(user + "," + call + "," + result + "," + call + "," + result),
		"length of 9":       chat(user + "," + strings.ReplaceAll(call+","+result, "call00001", "functions.a:0")),
		`name "a b"`:        chat(user + "," + strings.Replace(call, `"name":"a"`, `"name":"a b"`, 1) + "," + result),
		"are no object":     chat(user + "," + strings.Replace(call, `"{}"`, `"[]"`, 1) + "," + result),
		"without content":   chat(user + `,{"role":"assistant","content":" "},` + user),
		"has begun":         chat(user + `,{"role":"system","content":"s"}`),
		"after role 'tool'": chat(user + "," + call + "," + result + "," + user),
		"user follows user": chat(user + "," + user),
		"assistant follows": chat(user + `,{"role":"assistant","content":"a"},` + call + "," + result),
		"last role":         chat(user + `,{"role":"assistant","content":"a"}`),
		"with 0 tools":      `{"model":"m","messages":[` + user + "," + call + "," + result + `]}`,
	} {
		require.Contains(t, strings.Join(strictmodel.Chat([]byte(body)), "; "), word)
	}

	const kit = `"tools":[{"name":"a","description":"d","input_schema":{"type":"object","properties":{}}}]`
	messages := func(list string) string {
		return `{"model":"m","max_tokens":9,` + kit + `,"messages":[` + list + `]}`
	}
	const says = `{"role":"user","content":[{"type":"text","text":"u"}]}`
	const use = `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"a","input":{}}]}`
	const got = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"1"}]}]}`
	require.Empty(t, strictmodel.Messages([]byte(messages(says+","+use+","+got))))
	for word, body := range map[string]string{
		"Extra inputs":        `{"model":"m","max_tokens":9,"messages":[` + says + `],"stream_options":{}}`,
		"max_tokens: 0":       `{"model":"m","messages":[` + says + `]}`,
		"at least one":        messages(""),
		"without tool_result": messages(says + "," + use + "," + says),
		"unexpected":          messages(got),
		"must be unique":      messages(says + "," + use + "," + got + "," + use + "," + got),
		`id "a.b"`:            messages(says + "," + strings.ReplaceAll(use+","+got, "c1", "a.b")),
		`name "a b"`:          messages(says + "," + strings.Replace(use, `"name":"a"`, `"name":"a b"`, 1) + "," + got),
		"input is no object":  messages(says + "," + strings.Replace(use, `{}`, `"{"`, 1) + "," + got),
		"non-whitespace":      messages(`{"role":"user","content":[{"type":"text","text":" "}]}`),
		"must alternate":      messages(says + "," + says),
		"use the user role":   messages(use + "," + got),
		"end with a user":     messages(says + `,{"role":"assistant","content":[{"type":"text","text":"u"}]}`),
		"must come first":     messages(says + "," + use + "," + strings.Replace(got, `[{"type":"tool_result"`, `[{"type":"text","text":"u"},{"type":"tool_result"`, 1)),
		"with 0 tools":        `{"model":"m","max_tokens":9,"messages":[` + says + "," + use + "," + got + `]}`,
		"more than 4 blocks":  messages(`{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"u","cache_control":{}},`, 5) + `{"type":"text","text":"u"}]}`),
	} {
		require.Contains(t, strings.Join(strictmodel.Messages([]byte(body)), "; "), word)
	}
}

func TestServerRefusesAsItsAPIDoes(t *testing.T) {
	t.Parallel()
	var told []string
	server := httptest.NewServer(strictmodel.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), func(reasons []string) { told = append(told, reasons...) }))
	defer server.Close()
	for path, want := range map[string]string{"/v1/chat/completions": `{"error":{"message":"`, "/v1/messages": `{"type":"error"`, "/other": `{"model":""}`} {
		resp, err := http.Post(server.URL+path, "application/json", strings.NewReader(`{"model":""}`))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Contains(t, string(body), want)
		require.Equal(t, path == "/other", resp.StatusCode == http.StatusOK)
	}
	require.NotEmpty(t, told)
}

// told answers all requests with a word, and counts them.
type told struct{ asked int }

func (m *told) Generate(context.Context, model.Request, model.Stream) (model.Response, error) {
	m.asked++
	return model.Response{Text: "Told."}, nil
}

// A model without a server is asked only for what servers of both APIs take.
func TestModelWithoutAServerIsJudged(t *testing.T) {
	t.Parallel()
	next := &told{}
	m := strictmodel.Judged(next)
	answer, err := m.Generate(t.Context(), request(), model.Stream{})
	require.NoError(t, err)
	require.Equal(t, "Told.", answer.Text)

	wrong := request()
	wrong.Model = ""
	_, err = m.Generate(t.Context(), wrong, model.Stream{})
	require.ErrorContains(t, err, "model is missing", "by chat completions")
	require.ErrorContains(t, err, "model: Field required", "by messages")
	require.Equal(t, 1, next.asked)
}
