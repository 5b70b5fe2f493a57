package models

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/agentdef"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/model/rules"
)

// Scripted is the name of the model of the provider builtin that answers from fixtures. Only
// development has it.
const Scripted = "scripted"

// ForMaps returns the model that a step of a Map asks: the scripted one where there is one, otherwise
// the default model of the tenant's newest provider that has one, otherwise builtin:rules for what it
// can do, otherwise MODEL_NOT_CONNECTED.
func (s *Service) ForMaps(ctx context.Context, tenant uuid.UUID, purpose model.Purpose) (agentdef.Model, error) {
	if s.d.BuiltIn[Scripted] != nil {
		return agentdef.Model{Provider: agentdef.BuiltIn, Model: Scripted}, nil
	}
	p, ok, err := s.d.Providers.Default(ctx, tenant)
	if err != nil {
		return agentdef.Model{}, err
	}
	if ok {
		return agentdef.Model{Provider: p.Slug, Model: p.DefaultModel}, nil
	}
	if !rules.Can(purpose) {
		return agentdef.Model{}, fault.New(fault.CodeModelNotConnected,
			"The step needs a language model. Name a provider with a default_model at POST /v1/model-providers, and store its credential.")
	}
	return agentdef.Model{Provider: agentdef.BuiltIn, Model: agentdef.Rules}, nil
}
