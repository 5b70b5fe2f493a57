package importing

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/provider/vault"
)

// Preview is what an import would do.
type Preview struct {
	// Provider is as the import would leave it.
	catalog.Provider
	// Credentials are those of the provider that may not go to all of its servers.
	Credentials []vault.Unreached
}

// Unreached returns which credentials of a provider may not go to all servers that its verbs call.
func (s *Service) Unreached(ctx context.Context, tenant uuid.UUID, p catalog.Provider) ([]vault.Unreached, error) {
	if p.AuthType == credential.None {
		return nil, nil
	}
	var called []string
	for _, server := range p.Servers {
		if server.Verbs > 0 {
			called = append(called, server.BaseURL)
		}
	}
	return s.credentials.Unreached(ctx, tenant, p.Slug, "", called)
}

// Preview is Import without any change: it refuses what Import refuses, and says what the import
// would do.
func (s *Service) Preview(ctx context.Context, who actor.Actor, in openapi.ImportInput) (p Preview, err error) {
	var kept *catalog.Corrections
	if err := s.keepCorrections(ctx, who, &in, &kept); err != nil {
		return Preview{}, err
	}
	err = s.each(ctx, who, in, func(ctx context.Context, read reading) (err error) {
		read.Kept = kept
		if p.Provider, err = s.catalog.Preview(ctx, who, read.Import); err != nil || p.AuthType == credential.None {
			return err
		}
		bound := "" // an import by a key binds no credential
		if who.Kind == actor.User {
			bound = p.BaseURL
		}
		p.Credentials, err = s.credentials.Unreached(ctx, who.TenantID, p.Slug, bound, read.servers)
		return err
	})
	return p, err
}
