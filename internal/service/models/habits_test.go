package models_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/model"
	"agentruntime/internal/models/modelprovider"
	"agentruntime/internal/service/models"
)

// strict takes no field but those that it knows, and says so.
type strict struct{ without map[string]bool }

func (s strict) Generate(context.Context, model.Request, model.Stream) (model.Response, error) {
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

// Two requests that meet at the server are both refused. The second one knows of the refusal only because
// the first was refused too, and leaves the field out all the same.
func TestRequestsThatAreRefusedTogetherAreAllAnswered(t *testing.T) {
	t.Parallel()
	const together = 2
	var met sync.WaitGroup
	met.Add(together)
	w := newWorld(t, func(d *models.Deps) {
		d.Connect = func(c models.Connection) (model.Model, error) {
			return meeting{strict{c.Dialect.Without}, len(c.Dialect.Without) == 0, &met}, nil
		}
	})
	who := w.tenant()
	w.credential(who, "openai", "of-all")
	failures := make(chan error, together)
	for range together {
		go func() {
			_, err := w.Generate(t.Context(), model.Ask{Tenant: who.TenantID, Choice: choice("openai", "gpt-4o"), Request: hello()}, model.Stream{})
			failures <- err
		}()
	}
	for range together {
		require.NoError(t, <-failures)
	}
}

// meeting answers the requests that are the first ones when all of them are there.
type meeting struct {
	strict

	first bool
	met   *sync.WaitGroup
}

func (m meeting) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	if m.first {
		m.met.Done()
		m.met.Wait()
	}
	return m.strict.Generate(ctx, req, stream)
}

// What a server has refused says nothing of another one, nor of another dialect of it.
func TestRefusedFieldIsForgottenWithItsServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(d *models.Deps) {
		d.Connect = func(c models.Connection) (model.Model, error) { return strict{c.Dialect.Without}, nil }
	})
	who := w.tenant()
	attempts := func(n int, about string) {
		t.Helper()
		answer, _, err := w.ask(who, choice("mine", "m"))
		require.NoError(t, err)
		require.Len(t, answer.Attempts, n, about)
	}
	made := func(address string) modelprovider.Provider {
		p, err := w.catalog.Create(t.Context(), who, modelprovider.NewProvider{Slug: "mine", API: "openai", BaseURL: address})
		require.NoError(t, err)
		w.credential(who, "mine", "of-mine")
		return p
	}
	p := made("https://one.example.com/v1")
	attempts(2, "the first request")
	attempts(1, "it is remembered")
	field := modelprovider.MaxTokens
	_, err := w.catalog.Update(t.Context(), who, p.ID, nil, modelprovider.Change{MaxTokensField: &field}, nil)
	require.NoError(t, err)
	attempts(2, "another dialect")
	require.NoError(t, w.catalog.Delete(t.Context(), who, p.ID, nil))
	made("https://two.example.com/v1")
	attempts(2, "another address")
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
