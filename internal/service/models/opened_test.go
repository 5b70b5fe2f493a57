package models_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/model"
	"agentruntime/internal/service/models"
)

// A server that repeats the credential gets it to nobody: not in a part of the answer, not in an error, not
// in a log, not over the pieces of a stream.
func TestCredentialInAnAnswerReachesNobody(t *testing.T) {
	t.Parallel()
	const key = "sk-canary-9f1b7c33d4"
	forms := []string{key, "Bearer " + key, strings.ToUpper(key), base64.StdEncoding.EncodeToString([]byte("user:" + key)), strings.ReplaceAll(key, "-", "%2D"), strings.ReplaceAll(key, "c", `\u0063`), key[:14]}
	for i, form := range forms {
		quoted, err := json.Marshal(map[string]string{form: "see " + form})
		require.NoError(t, err)
		for place, e := range map[string]end{
			"text":      {answer: model.Response{Text: "debug: " + form + ", and more"}},
			"pieces":    {said: "debug: " + form[:7], answer: model.Response{Text: form[7:]}},
			"model":     {answer: model.Response{Text: "x", Model: form}},
			"finish":    {answer: model.Response{Text: "x", Finish: model.Finish(form)}},
			"call":      {answer: model.Response{Calls: []model.ToolCall{{ID: form, Name: "shop__" + form, Args: quoted}}}},
			"no JSON":   {answer: model.Response{Calls: []model.ToolCall{{ID: "1", Name: "x", Args: json.RawMessage("{" + form)}}}},
			"reasoning": {answer: model.Response{Text: "x", Reasoning: form}},
			"words":     {err: &model.Error{Reason: "refused", Said: "bad key " + form}},
			"a refusal": {err: &model.Error{Reason: "no model for " + form}},
			"a fault":   {err: fmt.Errorf("dial %s", form)},
		} {
			t.Run(fmt.Sprintf("%s %d", place, i), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				who := w.tenant()
				w.credential(who, "openai", key, e)
				answer, streamed, err := w.ask(who, choice("openai", "gpt-4o"))
				raw, wrong := json.Marshal(answer)
				require.NoError(t, wrong)
				for _, seen := range []string{string(raw), streamed, w.log.String(), fmt.Sprint(err)} {
					require.NotContains(t, seen, form)
					require.NotContains(t, strings.ToLower(seen), "canary")
				}
				for _, call := range answer.Calls {
					require.True(t, json.Valid(call.Args))
				}
			})
		}
	}
}

// A word in the place of a key is no secret: an answer may have it.
func TestShortKeyIsNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	who := w.tenant()
	w.credential(who, "openai", "ollama", end{answer: model.Response{Text: "I run in ollama."}})
	answer, streamed, err := w.ask(who, choice("openai", "gpt-4o"))
	require.NoError(t, err)
	require.Equal(t, []string{"I run in ollama.", "I run in ollama."}, []string{answer.Text, streamed})
}

// voiding takes back what it has said.
type voiding struct{}

func (voiding) Generate(_ context.Context, _ model.Request, stream model.Stream) (model.Response, error) {
	stream.Says("Hm. sk-can")
	stream.Begins(model.ResetReasoning)
	stream.Says("Hello.")
	return model.Response{Text: "Hello.", Finish: model.Stopped}, nil
}

// What turns out to be thought is taken back, with what was held of it because a credential may begin there.
func TestStreamOfThoughtsIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(d *models.Deps) {
		d.Connect = func(models.Connection) (model.Model, error) { return voiding{}, nil }
	})
	who := w.tenant()
	w.credential(who, "openai", "sk-canary-9f1b7c33d4")
	_, streamed, err := w.ask(who, choice("openai", "gpt-4o"))
	require.NoError(t, err)
	require.Equal(t, "Hm. [reasoning]Hello.", streamed)
}
