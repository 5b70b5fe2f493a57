package app

import (
	"fmt"
	"os"

	"agentruntime/internal/edge/anthropic"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/edge/openai"
	"agentruntime/internal/kernel/agentdef"
	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/model/chat"
	"agentruntime/internal/kernel/model/rules"
	"agentruntime/internal/kernel/model/scripted"
	"agentruntime/internal/provider/modelprovider"
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
		builtIn[models.Scripted] = script
	}
	public := egress.Bounded(egress.NewClient(egress.Config{AllowLoopback: a.cfg.AllowLoopback}), chat.MaxAnswer, chat.ErrTooLong)
	private := egress.Bounded(egress.NewUnguarded(), chat.MaxAnswer, chat.ErrTooLong)
	var err error
	a.models, err = models.New(models.Deps{
		DB: a.pool, Vault: a.vault, Providers: a.modelProviders, BuiltIn: builtIn, Log: a.log,
		Connect: func(c models.Connection) (model.Model, error) {
			client := public
			if c.Private {
				client = private
			}
			if c.API == modelprovider.Anthropic {
				return anthropic.New(anthropic.Config{BaseURL: c.BaseURL, Credential: c.Credential, Client: client})
			}
			return openai.New(openai.Config{BaseURL: c.BaseURL, Credential: c.Credential, Client: client})
		},
	})
	return err
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
