package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/modelprovider"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/tenant/budget"
)

// Tries of one model, and the time between them where its provider does not say.
const (
	tries       = 3
	firstPause  = 500 * time.Millisecond
	pauseFactor = 4
)

// choice asks one model until it has answered, cannot, or its time is over.
func (s *Service) choice(ctx context.Context, ask model.Ask, choice agentdef.Model, t *telling, answer *model.Answer) (model.Response, error) {
	timeout := cmp.Or(time.Duration(choice.Timeout), defaultTimeout)
	waiting, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	req := requestOf(choice, ask.Request)
	late := &model.Error{Reason: fmt.Sprintf("the model has not answered within %s", timeout), Retryable: true}
	pause := firstPause
	var last error
	leftOut := 0
	for try := 1; ; try++ {
		if try+leftOut > 1 {
			t.begins(model.ResetRetry)
		}
		response, without, err := s.once(waiting, ask.Tenant, choice, req, t, answer)
		if err == nil {
			return response, nil
		}
		var failure *model.Error
		switch {
		case ctx.Err() != nil:
			return model.Response{}, ctx.Err()
		case waiting.Err() != nil:
			return model.Response{}, late
		case errors.As(err, &failure) && differs(failure, without) && leftOut < mostLeftOut:
			try-- // the next request is another one
			leftOut++
			continue
		case !errors.As(err, &failure) || !failure.Retryable || try == tries:
			return model.Response{}, err
		}
		last = err
		if s.d.Wait(waiting, max(pause, failure.RetryAfter)) != nil {
			if ctx.Err() != nil {
				return model.Response{}, ctx.Err()
			}
			return model.Response{}, last // the time is over before its provider wants another request
		}
		pause *= pauseFactor
	}
}

// requestOf returns the request as the choice has it asked.
func requestOf(choice agentdef.Model, req model.Request) model.Request {
	req.Model, req.Temperature = choice.Model, choice.Temperature
	if most := choice.MaxOutputTokens; most > 0 && (req.Limits.OutputTokens == 0 || most < req.Limits.OutputTokens) {
		req.Limits.OutputTokens = most
	}
	return req
}

// once makes one request, and returns the optional fields that it was made without.
func (s *Service) once(
	ctx context.Context, tenant uuid.UUID, choice agentdef.Model, req model.Request, t *telling, answer *model.Answer,
) (_ model.Response, without map[string]bool, _ error) {
	asked, err := s.open(ctx, tenant, choice)
	if err != nil {
		return model.Response{}, nil, err
	}
	if over := s.pauses.until(asked.credential); over.After(s.d.Now()) {
		return model.Response{}, nil, &model.Error{Reason: "the provider wants no request with this credential yet", Retryable: true, RetryAfter: over.Sub(s.d.Now())}
	}
	began := s.d.Now()
	response, err := asked.model.Generate(ctx, req, model.Stream{Delta: t.delta, Reset: t.begins})
	response = response.Sound()
	var failure *model.Error
	if err != nil && !errors.As(err, &failure) && ctx.Err() == nil {
		s.d.Log.ErrorContext(ctx, "an adapter of a model failed", "provider", choice.Provider, "error", redact.Text(err.Error()))
		failure = &model.Error{Reason: "the model failed"}
		err = failure
	}
	attempt := model.Attempt{Provider: choice.Provider, Model: cmp.Or(response.Model, choice.Model), LatencyMS: s.d.Now().Sub(began).Milliseconds(), Usage: response.Usage, Finish: response.Finish}
	switch {
	case failure != nil:
		attempt.Error = failure.Words()
		if len(failure.Refused) > 0 {
			s.habits.learn(asked.habit, failure.Refused)
		}
		if failure.RetryAfter > 0 {
			s.pauses.set(asked.credential, s.d.Now().Add(failure.RetryAfter))
		}
	case err != nil:
		attempt.Error = "the model has not answered in time"
	}
	answer.Attempts = append(answer.Attempts, attempt)
	answer.MoneyMicros += s.prices.Cost(choice.Model, response.Usage)
	if err == nil && asked.credential != uuid.Nil {
		s.used(ctx, tenant, asked.credential)
	}
	return response, asked.without, err
}

// connected is the model of a choice as one request asks it.
type connected struct {
	model model.Model
	// credential is the id of the one that is sent; the zero id for none.
	credential uuid.UUID
	habit      habit
	// without are the optional fields that are left out.
	without map[string]bool
}

// open returns the model of a choice with its credential.
func (s *Service) open(ctx context.Context, tenant uuid.UUID, choice agentdef.Model) (connected, error) {
	if choice.Provider == agentdef.BuiltIn {
		if m := s.d.BuiltIn[choice.Model]; m != nil {
			return connected{model: m}, nil
		}
		return connected{}, fault.Newf(fault.CodeModelNotConnected, "There is no model builtin:%s here.", choice.Model)
	}
	if s.d.Replay != nil {
		return connected{model: s.d.Replay}, nil
	}
	b := &db.Batch{}
	find := s.d.Providers.QueueFind(b, tenant, choice.Provider)
	newest := vault.QueueNewest(b, tenant, modelprovider.CredentialsOf(choice.Provider), "", nil)
	if err := s.d.DB.Send(ctx, tenant, b); err != nil {
		return connected{}, fmt.Errorf("models: read a provider and its credential: %w", err)
	}
	p, err := find()
	if err != nil {
		return connected{}, fault.Newf(fault.CodeModelNotConnected, "There is no model provider %s. Create it with POST /v1/model-providers.", choice.Provider)
	}
	sealed, err := newest()
	if fault.HasCode(err, fault.CodeProviderNotConnected) {
		return connected{}, fault.Newf(fault.CodeModelNotConnected, "The model provider %s has no active credential. Store one with POST /v1/credentials and the provider %s.",
			choice.Provider, modelprovider.CredentialsOf(choice.Provider))
	}
	if err != nil {
		return connected{}, err
	}
	target, err := url.Parse(p.BaseURL)
	if err != nil {
		return connected{}, errors.New("models: a stored address is not a URL")
	}
	if err := sealed.MaySend(target); err != nil {
		return connected{}, err
	}
	secret, err := s.d.Vault.Resolve(ctx, tenant, sealed)
	if err != nil {
		return connected{}, err
	}
	of := habit{tenant, p.ID, p.BaseURL, choice.Model, p.Dialect}
	without := s.habits.of(of)
	m, err := s.d.Connect(Connection{API: p.API, BaseURL: p.BaseURL, Credential: secret, Private: p.Private != "", Dialect: chat.Dialect{MaxTokensField: p.Dialect.MaxTokensField, NoStreamUsage: !p.Dialect.StreamUsage, Without: without}})
	if err != nil {
		return connected{}, err
	}
	m = openedWith(m, secret)
	if s.d.Record != nil {
		m = s.d.Record(m)
	}
	return connected{m, sealed.ID, of, without}, nil
}

// used brings the credential's last_used_at up to date, at most once a minute.
func (s *Service) used(ctx context.Context, tenant, id uuid.UUID) {
	if err := s.d.Vault.MarkUsed(ctx, tenant, id); err != nil {
		s.d.Log.WarnContext(ctx, "noting the use of a credential failed", "credential_id", id, "error", err)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if end, has := ctx.Deadline(); has && time.Until(end) < d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Most returns the most that an answer to the request can use, of the dearest model of the choice: a
// reservation of budgets takes it. A request is counted as one token for each byte.
func (s *Service) Most(choice agentdef.Model, req model.Request) budget.Amount {
	var most budget.Amount
	in := int64(req.Size())
	for _, c := range append([]agentdef.Model{choice}, choice.Fallback...) {
		if c.Provider == agentdef.BuiltIn && c.Model == agentdef.Rules {
			continue // it uses none
		}
		out := int64(requestOf(c, req).Limits.OutputTokens)
		most.Tokens = max(most.Tokens, in+out)
		most.Money = max(most.Money, s.prices.Cost(c.Model, model.Usage{In: in, CacheWritten: in, Out: out}))
	}
	most.Money = min(most.Money, math.MaxInt64/2)
	return most
}
