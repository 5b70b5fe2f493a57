package models

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/models/model"
)

// Scripted is the name of the model of the provider builtin that answers from fixtures. Only
// development has it.
const Scripted = "scripted"

// ForMaps returns the model that a step of a Map asks: the scripted one where there is one, otherwise
// the default model of the tenant's newest provider that has one, otherwise builtin:rules.
func (s *Service) ForMaps(ctx context.Context, tenant uuid.UUID, _ model.Purpose) (agentdef.Model, error) {
	if s.d.BuiltIn[Scripted] != nil {
		return agentdef.Model{Provider: agentdef.BuiltIn, Model: Scripted}, nil
	}
	p, ok, err := s.d.Providers.Default(ctx, tenant)
	switch {
	case err != nil:
		return agentdef.Model{}, err
	case ok:
		return agentdef.Model{Provider: p.Slug, Model: p.DefaultModel}, nil
	}
	return agentdef.Model{Provider: agentdef.BuiltIn, Model: agentdef.Rules}, nil
}
