package scripted_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/model"
	"agentruntime/internal/models/scripted"
)

func ask(t *testing.T, script string, req model.Request) (answer model.Response, streamed string, err error) {
	t.Helper()
	m, err := scripted.New([]byte(script))
	require.NoError(t, err)
	answer, err = m.Generate(t.Context(), req, model.Stream{Delta: func(delta string) { streamed += delta }})
	return answer, streamed, err
}

func request(purpose model.Purpose, texts ...string) model.Request {
	req := model.Request{Purpose: purpose}
	for i, text := range texts {
		req.Messages = append(req.Messages, model.Message{Role: []model.Role{model.User, model.Assistant}[i%2], Text: text})
	}
	return req
}

// The first fixture that meets all that it says answers, again and again.
func TestScriptAnswersByTheFirstFixtureThatMatches(t *testing.T) {
	t.Parallel()
	const script = `[
		{"purpose":"extract","contains":["a","b"],"json":{"n": 1}},
		{"turn":1,"text":"again"},
		{"purpose":"agent","turn":0,"calls":[{"id":"1","name":"shop:get","args":{}}]},
		{"contains":["cut"],"text":"c","finish":"length","usage":{"input":9,"cached":4,"output":2}},
		{"contains":["twelve bytes"],"text":"one two"}]`
	for name, c := range map[string]struct {
		req  model.Request
		want model.Response
	}{
		"all texts":  {request(model.Extract, "b and a"), model.Response{Text: `{"n": 1}`, Finish: model.Stopped, Usage: model.Usage{In: 2, Out: 2}}},
		"turn":       {request(model.Extract, "a", "x", "no"), model.Response{Text: "again", Finish: model.Stopped, Usage: model.Usage{In: 1, Out: 2}}},
		"calls":      {request(model.Agent, "go"), model.Response{Calls: []model.ToolCall{{ID: "1", Name: "shop:get", Args: []byte("{}")}}, Finish: model.Calling, Usage: model.Usage{In: 1}}},
		"finish":     {request(model.Reason, "cut"), model.Response{Text: "c", Finish: model.CutOff, Usage: model.Usage{In: 9, Cached: 4, Out: 2}}},
		"four bytes": {request(model.Summarize, "twelve bytes"), model.Response{Text: "one two", Finish: model.Stopped, Usage: model.Usage{In: 3, Out: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.Model = scripted.Name
			for range 2 {
				got, streamed, err := ask(t, script, c.req)
				require.NoError(t, err)
				require.Equal(t, c.want, got)
				require.Equal(t, got.Text, streamed)
			}
		})
	}
}

func TestScriptWithoutAnAnswerIsAnError(t *testing.T) {
	t.Parallel()
	const script = `[{"purpose":"reason","error":"busy","retryable":true},{"purpose":"agent","contains":["x"],"text":"y"}]`
	var failure *model.Error
	_, _, err := ask(t, script, request(model.Agent, "secret word"))
	require.ErrorAs(t, err, &failure)
	require.False(t, failure.Retryable)
	require.NotContains(t, err.Error(), "secret")
	_, _, err = ask(t, script, request(model.Reason, "?"))
	require.ErrorAs(t, err, &failure)
	require.Equal(t, model.Error{Reason: "busy", Retryable: true}, *failure)
}

func TestScriptAnswerEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	m, err := scripted.New([]byte(`[{"text":"late","delay_ms":600000}]`))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = m.Generate(ctx, request(model.Agent, "?"), model.Stream{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestScriptThatIsMalformedIsRefused(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"", "{}", `[{"about":"agent"}]`, "[] []"} {
		_, err := scripted.New([]byte(script))
		require.Error(t, err, script)
		require.True(t, strings.HasPrefix(err.Error(), "scripted: "), "%s", err)
	}
}
