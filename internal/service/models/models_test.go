package models_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/modelprovider"
	"agentruntime/internal/models/replay"
	"agentruntime/internal/models/rules"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/service/models"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// end is what one request at a provider brings.
type end struct {
	said   string // what it streams before
	answer model.Response
	err    error
	hangs  bool
}

// providers answer requests by the credential that they carry, each with its ends in their order. The
// last one stays.
type providers struct {
	mu    sync.Mutex
	ends  map[string][]end
	asked []string // credential and model of each request
	reqs  []model.Request
}

func (p *providers) connect(c models.Connection) (model.Model, error) {
	return connected{p, c.Credential.Token()}, nil
}

func (p *providers) next(token, name string) end {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, token+" "+name)
	ends := p.ends[token]
	if len(ends) > 1 {
		p.ends[token] = ends[1:]
	}
	return ends[0]
}

type connected struct {
	*providers

	token string
}

// Generate implements model.Model.
func (c connected) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	c.mu.Lock()
	c.reqs = append(c.reqs, req)
	c.mu.Unlock()
	e := c.next(c.token, req.Model)
	stream.Says(e.said)
	if e.hangs {
		<-ctx.Done()
		return model.Response{}, ctx.Err()
	}
	stream.Says(e.answer.Text)
	return e.answer, e.err
}

// world is a service with its own clock: a wait moves it.
type world struct {
	*models.Service
	*providers

	t       *testing.T
	db      testkit.DB
	vault   *vault.Vault
	catalog *modelprovider.Service
	log     *bytes.Buffer
	now     time.Time
	waits   []time.Duration
}

func newWorld(t *testing.T, change func(*models.Deps)) *world {
	t.Helper()
	w := &world{t: t, db: testkit.Database(t), providers: &providers{ends: map[string][]end{}}, log: &bytes.Buffer{}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	kms, err := vault.NewLocalKMS("k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	open := func(string) error { return nil }
	w.catalog, err = modelprovider.New(modelprovider.Deps{DB: w.db.Pool, CheckURL: open})
	require.NoError(t, err)
	w.vault, err = vault.Open(vault.Deps{DB: w.db.Pool, KMS: kms, CheckURL: open, ModelURL: func(ctx context.Context, tenant uuid.UUID, provider string) (string, bool, error) {
		slug, is := modelprovider.SlugOf(provider)
		base, err := w.catalog.BaseURL(ctx, tenant, slug)
		return base, is, err
	}})
	require.NoError(t, err)
	d := models.Deps{
		DB: w.db.Pool, Vault: w.vault, Providers: w.catalog, Connect: w.connect, BuiltIn: map[string]model.Model{agentdef.Rules: rules.Model{}},
		Log: slog.New(slog.NewTextHandler(w.log, nil)), Now: func() time.Time { return w.now },
		Wait: func(_ context.Context, d time.Duration) error {
			w.waits, w.now = append(w.waits, d), w.now.Add(d)
			return nil
		},
	}
	if change != nil {
		change(&d)
	}
	w.Service, err = models.New(d)
	require.NoError(t, err)
	return w
}

// tenant returns a user of a new tenant.
func (w *world) tenant() actor.Actor {
	w.t.Helper()
	id := uuid.New()
	require.NoError(w.t, dbsqlc.New().InsertTenant(w.t.Context(), w.db.Tenant(id), dbsqlc.InsertTenantParams{ID: id, Name: "t"}))
	return actor.Actor{Kind: actor.User, TenantID: id, ID: uuid.New()}
}

// credential stores a token for a provider of models, which then answers with these ends.
func (w *world) credential(who actor.Actor, slug, token string, ends ...end) {
	w.t.Helper()
	w.ends[token] = ends
	_, err := w.vault.Create(w.t.Context(), who, vault.New{Provider: modelprovider.CredentialsOf(slug), Type: "bearer", Data: json.RawMessage(`{"token":"` + token + `"}`)})
	require.NoError(w.t, err)
}

// told is a stream with all that it was told: texts, and resets in brackets.
func told(into *string) model.Stream {
	return model.Stream{Delta: func(text string) { *into += text }, Reset: func(reason string) { *into += "[" + reason + "]" }}
}

func (w *world) ask(who actor.Actor, choice agentdef.Model) (answer model.Answer, streamed string, err error) {
	w.t.Helper()
	answer, err = w.Generate(w.t.Context(), model.Ask{Tenant: who.TenantID, Choice: choice, Request: hello()}, told(&streamed))
	return answer, streamed, err
}

func hello() model.Request {
	return model.Request{Purpose: model.Reply, Messages: []model.Message{{Role: model.User, Text: "canary"}}}
}

func choice(provider, name string, fallback ...agentdef.Model) agentdef.Model {
	return agentdef.Model{Provider: provider, Model: name, Fallback: fallback}
}

var (
	fine    = end{answer: model.Response{Text: "fine", Finish: model.Stopped, Usage: model.Usage{In: 1000, Cached: 400, Out: 10}}}
	busy    = end{said: "half", err: &model.Error{Reason: "busy", Retryable: true}}
	limited = end{err: &model.Error{Reason: "too fast", Retryable: true, RetryAfter: time.Minute}}
	refused = end{err: &model.Error{Reason: "no key"}}
)

func TestModelIsAskedAgainWhereThatMayHelp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends     []end
		streamed string
		reason   string // of the error; "" for an answer
		waits    []time.Duration
		errors   []string // of the attempts
	}{
		"at once":               {[]end{fine}, "fine", "", nil, []string{""}},
		"second time":           {[]end{busy, fine}, "half[retry]fine", "", []time.Duration{500 * time.Millisecond}, []string{"busy", ""}},
		"third time":            {[]end{busy, busy, fine}, "half[retry]half[retry]fine", "", []time.Duration{500 * time.Millisecond, 2 * time.Second}, []string{"busy", "busy", ""}},
		"never":                 {[]end{busy}, "half[retry]half[retry]half", "busy", []time.Duration{500 * time.Millisecond, 2 * time.Second}, []string{"busy", "busy", "busy"}},
		"after a pause":         {[]end{limited, fine}, "fine", "", []time.Duration{time.Minute}, []string{"too fast", ""}},
		"not again":             {[]end{refused, fine}, "", "no key", nil, []string{"no key"}},
		"a fault of an adapter": {[]end{{err: errors.New("canary")}, fine}, "", "the model failed", nil, []string{"the model failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			who := w.tenant()
			w.credential(who, "openai", "secret-1", c.ends...)
			answer, streamed, err := w.ask(who, choice("openai", "gpt-4o"))
			var failure *model.Error
			if c.reason == "" {
				require.NoError(t, err)
				require.Equal(t, "openai", answer.Provider)
			} else {
				require.ErrorAs(t, err, &failure)
				require.Equal(t, c.reason, failure.Reason)
			}
			require.Equal(t, c.streamed, streamed)
			require.Equal(t, c.waits, w.waits)
			var attempts []string
			for _, a := range answer.Attempts {
				attempts = append(attempts, a.Error)
			}
			require.Equal(t, c.errors, attempts)
			require.NotContains(t, w.log.String(), "secret-1")
		})
	}
}

func TestNextModelIsAskedWhereOneFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	who := w.tenant()
	w.credential(who, "openai", "first", end{said: "half", err: refused.err})
	w.credential(who, "anthropic", "second", fine)
	answer, streamed, err := w.ask(who, choice("openai", "gpt-4o", choice("nobody", "m"), choice("anthropic", "claude-x")))
	require.NoError(t, err)
	require.Equal(t, "half[fallback]fine", streamed)
	require.Equal(t, "anthropic", answer.Provider)
	require.Equal(t, []string{"first gpt-4o", "second claude-x"}, w.asked)
	require.Len(t, answer.Attempts, 2)

	// Why a model has failed says more than that another one is not connected.
	_, _, err = w.ask(who, choice("nobody", "m", choice("openai", "gpt-4o")))
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	_, _, err = w.ask(who, choice("nobody", "m"))
	require.Equal(t, fault.CodeModelNotConnected, fault.As(err).Code)
	_, _, err = w.ask(who, choice(agentdef.BuiltIn, "none"))
	require.Equal(t, fault.CodeModelNotConnected, fault.As(err).Code)
	_, _, err = w.ask(w.tenant(), choice("openai", "gpt-4o"))
	require.Equal(t, fault.CodeModelNotConnected, fault.As(err).Code, "the credential is another tenant's")
	answer, _, err = w.ask(who, choice(agentdef.BuiltIn, agentdef.Rules))
	require.NoError(t, err)
	require.Equal(t, rules.Name, answer.Model)
}

// Each model of a choice is asked with its own settings.
func TestSettingsOfEachModelReachItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	who := w.tenant()
	w.credential(who, "openai", "first", end{err: refused.err})
	w.credential(who, "anthropic", "second", fine)
	cold, warm := 0.1, 0.9
	second := choice("anthropic", "claude-x")
	second.Temperature, second.MaxOutputTokens = &warm, 22
	first := choice("openai", "gpt-4o", second)
	first.Temperature, first.MaxOutputTokens = &cold, 11
	_, _, err := w.ask(who, first)
	require.NoError(t, err)
	require.Len(t, w.reqs, 2)
	require.Equal(t, []any{"gpt-4o", &cold, 11}, []any{w.reqs[0].Model, w.reqs[0].Temperature, w.reqs[0].Limits.OutputTokens})
	require.Equal(t, []any{"claude-x", &warm, 22}, []any{w.reqs[1].Model, w.reqs[1].Temperature, w.reqs[1].Limits.OutputTokens})
}

// A provider that asks for a pause gets no request with this credential until it is over. Other
// credentials go on: those of other tenants, and a new one of the same tenant.
func TestRateLimitPausesOneCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(d *models.Deps) {
		d.Wait = func(context.Context, time.Duration) error { return context.DeadlineExceeded }
	})
	one, two := w.tenant(), w.tenant()
	w.credential(one, "openai", "of-one", limited, fine)
	w.credential(two, "openai", "of-two", fine)
	gpt := choice("openai", "gpt-4o")
	_, _, err := w.ask(one, gpt)
	require.ErrorContains(t, err, "too fast")
	for range 3 {
		_, _, err = w.ask(one, gpt)
		require.ErrorContains(t, err, "wants no request with this credential yet")
	}
	require.Equal(t, []string{"of-one gpt-4o"}, w.asked)
	_, _, err = w.ask(two, gpt)
	require.NoError(t, err)
	w.credential(one, "openai", "of-one-too", fine)
	_, _, err = w.ask(one, gpt)
	require.NoError(t, err)
	require.Equal(t, []string{"of-one gpt-4o", "of-two gpt-4o", "of-one-too gpt-4o"}, w.asked)
	_, _, err = w.ask(one, choice("anthropic", "m", gpt))
	require.NoError(t, err)
}

func TestPauseOfACredentialEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(d *models.Deps) {
		d.Wait = func(context.Context, time.Duration) error { return context.DeadlineExceeded }
	})
	who := w.tenant()
	w.credential(who, "openai", "token", limited, fine)
	_, _, err := w.ask(who, choice("openai", "gpt-4o"))
	require.Error(t, err)
	w.now = w.now.Add(59 * time.Second)
	_, _, err = w.ask(who, choice("openai", "gpt-4o"))
	require.Error(t, err)
	require.Len(t, w.asked, 1)
	w.now = w.now.Add(2 * time.Second)
	_, _, err = w.ask(who, choice("openai", "gpt-4o"))
	require.NoError(t, err)
}

// A model that does not answer in its time is left, and the next one is asked. A caller who is gone ends
// all of it.
func TestModelThatDoesNotAnswerIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	who := w.tenant()
	w.credential(who, "openai", "hangs", end{said: "ha", hangs: true})
	w.credential(who, "anthropic", "answers", fine)
	slow := choice("openai", "gpt-4o", choice("anthropic", "m"))
	slow.Timeout = agentdef.Duration(50 * time.Millisecond)
	answer, streamed, err := w.ask(who, slow)
	require.NoError(t, err)
	require.Equal(t, "ha[fallback]fine", streamed)
	require.Equal(t, "the model has not answered in time", answer.Attempts[0].Error)
	slow.Fallback = nil
	_, _, err = w.ask(who, slow)
	require.ErrorContains(t, err, "the model has not answered within 50ms")

	ctx, stop := context.WithCancel(t.Context())
	slow.Timeout, slow.Fallback = 0, []agentdef.Model{choice("anthropic", "m")}
	asked := len(w.asked)
	_, err = w.Generate(ctx, model.Ask{Tenant: who.TenantID, Choice: slow, Request: hello()}, model.Stream{Delta: func(string) { stop() }})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, w.asked, asked+1)
}

func TestAnswerCountsTokensAndMoneyOfAllAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	who := w.tenant()
	half := end{answer: model.Response{Usage: model.Usage{In: 100, Out: 1}}, err: busy.err}
	w.credential(who, "openai", "one", half, fine)
	answer, _, err := w.ask(who, choice("openai", "gpt-4o"))
	require.NoError(t, err)
	tokens, money := answer.Used()
	require.EqualValues(t, 1111, tokens)
	// 100 and 600 tokens at 2.50 dollars a million, 400 from the cache at 1.25, 1 and 10 at 10.
	require.EqualValues(t, 260+2100, money)

	w.credential(who, "anthropic", "two", fine)
	answer, _, err = w.ask(who, choice("anthropic", "a-model-without-a-price"))
	require.NoError(t, err)
	tokens, money = answer.Used()
	require.EqualValues(t, 1010, tokens)
	require.Zero(t, money)

	// A server of others may count as it likes.
	w.credential(who, "openai", "liar", end{answer: model.Response{Text: "x", Usage: model.Usage{In: -5, Cached: 9e18, Out: -1}}})
	answer, _, err = w.ask(who, choice("openai", "gpt-4o"))
	require.NoError(t, err)
	tokens, money = answer.Used()
	require.Zero(t, tokens)
	require.Zero(t, money)
}

func TestReservationIsTheDearestModelOfTheChoice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	req := model.Request{Instructions: strings.Repeat("x", 1000), Limits: model.Limits{OutputTokens: 100}}
	require.Zero(t, w.Most(choice(agentdef.BuiltIn, agentdef.Rules), req))
	one := w.Most(choice("openai", "gpt-4o-mini"), req)
	require.EqualValues(t, 1100, one.Tokens)
	require.EqualValues(t, 1000*15/100+100*6/10, one.Money)
	both := w.Most(choice("openai", "gpt-4o-mini", choice("openai", "gpt-4o")), req)
	require.EqualValues(t, 1000*25/10+100*10, both.Money)
	short := choice("openai", "gpt-4o-mini")
	short.MaxOutputTokens = 10
	require.EqualValues(t, 1010, w.Most(short, req).Tokens)
}

// A credential goes only where its provider was when it was stored.
func TestCredentialStaysAtItsOrigin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	who := w.tenant()
	here, err := w.catalog.Create(t.Context(), who, modelprovider.NewProvider{Slug: "own", API: "openai", BaseURL: "https://models.example.com/v1"})
	require.NoError(t, err)
	w.credential(who, "own", "token", fine)
	_, _, err = w.ask(who, choice("own", "m"))
	require.NoError(t, err)
	require.NoError(t, w.catalog.Delete(t.Context(), who, here.ID, nil))
	_, err = w.catalog.Create(t.Context(), who, modelprovider.NewProvider{Slug: "own", API: "openai", BaseURL: "https://elsewhere.example.com/v1"})
	require.NoError(t, err)
	_, _, err = w.ask(who, choice("own", "m"))
	require.Equal(t, fault.CodeURLNotAllowed, fault.As(err).Code)
	require.Len(t, w.asked, 1)
}

// A conversation with a tool that was recorded is replayed without a provider and a credential.
func TestConversationIsReplayed(t *testing.T) {
	t.Parallel()
	var tape bytes.Buffer
	recorder, err := replay.NewRecorder(nil, &tape)
	require.NoError(t, err)
	w := newWorld(t, func(d *models.Deps) {
		d.Record = recorder.Of
	})
	who := w.tenant()
	w.credential(who, "openai", "a-secret-token",
		end{answer: model.Response{Model: "gpt-4o-dated", Finish: model.Calling, Usage: fine.answer.Usage, Calls: []model.ToolCall{{ID: "call_1", Name: "shop__get_order", Args: json.RawMessage(`{"order_id":"ord_1001"}`)}}}},
		end{answer: model.Response{Model: "gpt-4o-dated", Text: "It is paid.", Finish: model.Stopped}})
	// talk has one message answered with one call, whose result names the execution.
	talk := func(w *world, who actor.Actor, execution string) (said []model.Answer) {
		req := hello()
		req.Tools = []model.Tool{{Name: "shop__get_order", Description: "Get an order", Schema: json.RawMessage(`{"type":"object"}`)}}
		for range 2 {
			answer, err := w.Generate(t.Context(), model.Ask{Tenant: who.TenantID, Choice: choice("openai", "gpt-4o"), Request: req}, model.Stream{})
			require.NoError(t, err)
			said = append(said, answer)
			req.Messages = slices.Concat(req.Messages, []model.Message{{Role: model.Assistant, Text: answer.Text, Calls: answer.Calls}})
			for _, call := range answer.Calls {
				req.Messages = append(req.Messages, model.Message{Role: model.Result, CallID: call.ID, Text: `{"execution_id":"exec_` + execution + `","status":"paid"}`})
			}
		}
		return said
	}
	recorded := talk(w, who, uuid.NewString())
	require.NotContains(t, tape.String(), "a-secret-token")

	cassette, err := replay.New(tape.Bytes())
	require.NoError(t, err)
	again := newWorld(t, func(d *models.Deps) {
		d.Replay, d.Connect = cassette, func(models.Connection) (model.Model, error) { return nil, errors.New("no network here") }
	})
	replayed := talk(again, again.tenant(), uuid.NewString())
	for i := range recorded {
		require.Equal(t, recorded[i].Response, replayed[i].Response)
		require.Equal(t, recorded[i].MoneyMicros, replayed[i].MoneyMicros)
	}
	_, _, err = again.ask(again.tenant(), choice("openai", "another-model"))
	require.ErrorContains(t, err, "the cassette has no answer to this request for reply")
}
