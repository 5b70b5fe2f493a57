// Package models asks language models: for the turns of agents and the model steps of Maps. It finds
// the provider of a model and its credential, asks, tries again, goes on to the next model where one
// fails, and counts tokens and money. Credentials are opened here, right before the request that
// carries them. Nothing of a request or of an answer is in a log or an error.
package models

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agentruntime/db"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/modelprovider"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/vault"
)

// Connection is one provider with a credential, as an adapter is made of it.
type Connection struct {
	API        modelprovider.API
	BaseURL    string
	Credential credential.Secret
	// Private: the operator has named the address, which need not be public.
	Private bool
	// Dialect says what is left out of requests, and what is named in another way.
	Dialect chat.Dialect
}

// Deps are the collaborators; all are required but Replay, Record, Now and Wait.
type Deps struct {
	DB        *db.Pool
	Vault     *vault.Vault
	Providers *modelprovider.Service
	// Connect returns the models of a connection.
	Connect func(Connection) (model.Model, error)
	// BuiltIn are the models of the provider builtin, by name.
	BuiltIn map[string]model.Model
	// Replay answers in the place of all models that are not built in; nil outside development.
	Replay model.Model
	// Record returns a model that records what another answers; nil outside development.
	Record func(model.Model) model.Model
	Log    *slog.Logger
	Now    func() time.Time
	// Wait waits for a time, or until the context ends; nil is a timer.
	Wait func(context.Context, time.Duration) error
}

// Service asks models. It is safe for concurrent use.
type Service struct {
	d      Deps
	prices Prices
	pauses pauses
	habits habits
}

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.DB == nil || d.Vault == nil || d.Providers == nil || d.Connect == nil || d.BuiltIn[agentdef.Rules] == nil || d.Log == nil {
		return nil, errors.New("models: database, vault, providers, a way to connect, the model builtin:rules and a log are required")
	}
	if d.Wait == nil {
		d.Wait = wait
	}
	d.Now = db.Clock(d.Now)
	prices, err := readPrices(pricesFile)
	if err != nil {
		return nil, err
	}
	return &Service{d: d, prices: prices}, nil
}

// defaultTimeout is how long a model may take for one answer that says nothing of it.
const defaultTimeout = 2 * time.Minute

// Generate asks the model of the choice, again where that may help, then those of its fallback in their
// order. The error is MODEL_NOT_CONNECTED where no model of the choice has a provider and a credential,
// CREDENTIAL_EXPIRED where the only ones have expired, URL_NOT_ALLOWED where a credential is bound to
// another origin, a *model.Error with the reason of the last model where all have failed, that of ctx,
// or a fault of ours. The answer has the attempts, and what they have used together, also beside an error.
func (s *Service) Generate(ctx context.Context, ask model.Ask, stream model.Stream) (model.Answer, error) {
	answer, err := s.generate(ctx, ask, stream)
	answer.Usage = model.Usage{}
	for _, attempt := range answer.Attempts {
		answer.Usage = answer.Usage.And(attempt.Usage)
	}
	return answer, err
}

func (s *Service) generate(ctx context.Context, ask model.Ask, stream model.Stream) (model.Answer, error) {
	t := &telling{stream: stream}
	var answer model.Answer
	var failure, missing error
	for i, choice := range append([]agentdef.Model{ask.Choice}, ask.Choice.Fallback...) {
		if i > 0 {
			t.begins(model.ResetFallback)
		}
		response, err := s.choice(ctx, ask, choice, t, &answer)
		switch {
		case err == nil:
			answer.Response, answer.Provider = response, choice.Provider
			return answer, nil
		case ctx.Err() != nil:
			return answer, ctx.Err()
		case fault.As(err) != nil:
			missing = first(missing, err)
		case isModelError(err):
			failure = err
		default:
			return answer, err
		}
		s.d.Log.WarnContext(ctx, "a model has not answered", "tenant_id", ask.Tenant, "key_id", ask.Key, "provider", choice.Provider, "model", choice.Model, "reason", err)
	}
	return answer, first(failure, missing)
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func isModelError(err error) bool {
	var failure *model.Error
	return errors.As(err, &failure)
}

// telling passes an answer on, and knows whether any of it was.
type telling struct {
	stream model.Stream
	told   bool
}

func (t *telling) delta(text string) {
	t.told = t.told || text != ""
	t.stream.Says(text)
}

// begins says that the answer begins again, where some of it was told.
func (t *telling) begins(reason string) {
	if t.told {
		t.stream.Begins(reason)
	}
	t.told = false
}
