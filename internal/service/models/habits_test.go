package models_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/model"
	"agentruntime/internal/service/models"
)

// strict takes no field but those that it knows, and says so.
type strict struct{ without map[string]bool }

func (s strict) Generate(context.Context, model.Request, func(string)) (model.Response, error) {
	var refused []string
	for _, field := range []string{"max_completion_tokens", "stream_options"} {
		if !s.without[field] {
			refused = append(refused, field)
		}
	}
	if len(refused) > 0 {
		return model.Response{}, &model.Error{Reason: "the provider refused the request", Refused: refused}
	}
	return fine.answer, nil
}

// A field that a server refuses is left out at once, without a pause, and from then on.
func TestRefusedFieldIsLeftOutFromThenOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(d *models.Deps) {
		d.Connect = func(c models.Connection) (model.Model, error) { return strict{c.Dialect.Without}, nil }
	})
	one, two := w.tenant(), w.tenant()
	w.credential(one, "openai", "of-one")
	w.credential(two, "openai", "of-two")
	for _, attempts := range []int{2, 1} {
		answer, _, err := w.ask(one, choice("openai", "gpt-4o"))
		require.NoError(t, err)
		require.Len(t, answer.Attempts, attempts)
	}
	for _, other := range []string{"gpt-4o", "gpt-5"} {
		answer, _, err := w.ask(two, choice("openai", other))
		require.NoError(t, err)
		require.Len(t, answer.Attempts, 2, "another tenant, or another model, is asked as it is")
	}
	require.Empty(t, w.waits)
}

// A server that refuses a field which was left out already is not asked for ever.
func TestServerThatAlwaysRefusesAFieldFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	who := w.tenant()
	w.credential(who, "openai", "stubborn", end{err: &model.Error{Reason: "refused", Said: "unknown field", Refused: []string{"stream_options"}}})
	answer, _, err := w.ask(who, choice("openai", "gpt-4o"))
	require.ErrorContains(t, err, "refused")
	require.NotContains(t, err.Error(), "unknown field", "what a server says is in no log")
	require.Len(t, answer.Attempts, 2)
	require.Equal(t, "refused: unknown field", answer.Attempts[1].Error)
}
