package app

import (
	"errors"
	"fmt"
	"os"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/models/anthropic"
	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/modelprovider"
	"agentruntime/internal/models/openai"
	"agentruntime/internal/models/replay"
	"agentruntime/internal/models/rules"
	"agentruntime/internal/models/scripted"
	"agentruntime/internal/service/models"
)

// buildModels makes what asks language models.
func (a *App) buildModels() error {
	builtIn := map[string]model.Model{agentdef.Rules: rules.Model{}}
	if a.cfg.ModelScript != "" {
		script, err := scriptedModel(a.cfg.ModelScript)
		if err != nil {
			return err
		}
		if a.roles.Scripted != nil {
			script = a.roles.Scripted(script)
		}
		builtIn[models.Scripted] = script
	}
	public := egress.Bounded(egress.NewClient(egress.Config{AllowLoopback: a.cfg.AllowLoopback}), chat.MaxAnswer, chat.ErrTooLong)
	private := egress.Bounded(egress.NewUnguarded(), chat.MaxAnswer, chat.ErrTooLong)
	deps := models.Deps{
		DB: a.pool, Vault: a.vault, Providers: a.modelProviders, BuiltIn: builtIn, Log: a.log,
		Connect: func(c models.Connection) (model.Model, error) {
			client := public
			if c.Private {
				client = private
			}
			if c.API == modelprovider.Anthropic {
				return anthropic.New(anthropic.Config{BaseURL: c.BaseURL, Credential: c.Credential, Client: client, Dialect: c.Dialect})
			}
			return openai.New(openai.Config{BaseURL: c.BaseURL, Credential: c.Credential, Client: client, Dialect: c.Dialect})
		},
	}
	if err := a.cassettes(&deps); err != nil {
		return err
	}
	var err error
	a.models, err = models.New(deps)
	return err
}

// cassettes has the models of providers recorded, or answered by what was recorded, as the configuration
// says.
func (a *App) cassettes(deps *models.Deps) error {
	if file := a.cfg.ModelReplay; file != "" {
		cassette, err := os.ReadFile(file) //nolint:gosec // the operator of a development server names it
		if err != nil {
			return fmt.Errorf("app: MODEL_REPLAY: %w", err)
		}
		if deps.Replay, err = replay.New(cassette); err != nil {
			return fmt.Errorf("app: MODEL_REPLAY: %w", err)
		}
	}
	if file := a.cfg.ModelRecord; file != "" {
		cassette, err := os.ReadFile(file) //nolint:gosec // the operator of a development server names it
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("app: MODEL_RECORD: %w", err)
		}
		to, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // as above
		if err != nil {
			return fmt.Errorf("app: MODEL_RECORD: %w", err)
		}
		recorder, err := replay.NewRecorder(cassette, to)
		if err != nil {
			return fmt.Errorf("app: MODEL_RECORD: %w", errors.Join(err, to.Close()))
		}
		a.onClose(func() { _ = to.Close() }) // each line is written at once
		deps.Record = recorder.Of
	}
	return nil
}

// scriptedModel returns the model that answers from the fixtures of a file.
func scriptedModel(file string) (model.Model, error) {
	script, err := os.ReadFile(file) //nolint:gosec // the operator of a development server names it
	if err != nil {
		return nil, fmt.Errorf("app: MODEL_SCRIPT: %w", err)
	}
	m, err := scripted.New(script)
	if err != nil {
		return nil, fmt.Errorf("app: MODEL_SCRIPT: %w", err)
	}
	return m, nil
}
