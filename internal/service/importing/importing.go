// Package importing takes a provider's document into a tenant's catalog: the importer reads
// it, every server in it is checked, and the catalog stores what came of it. Credentials that
// waited for the provider are bound to it. The API calls it. It calls no provider and never fetches a document.
package importing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agentruntime/internal/edge/egress"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/provider/vault"
)

// Service imports providers. It is safe for concurrent use.
type Service struct {
	catalog     *catalog.Catalog
	credentials *vault.Vault
	egress      egress.Config
	// turn lets one import run at a time: a large document takes hundreds of
	// megabytes while it is read.
	turn chan struct{}
}

// New builds a Service. Catalog and vault are required; cfg says which servers calls may go to.
func New(cfg egress.Config, c *catalog.Catalog, credentials *vault.Vault) (*Service, error) {
	if c == nil || credentials == nil {
		return nil, errors.New("importing: a catalog and a vault are required")
	}
	return &Service{catalog: c, credentials: credentials, egress: cfg, turn: make(chan struct{}, 1)}, nil
}

// Import reads a document and stores its provider and verbs in one transaction. It returns
// the provider as stored, with the report. A document that cannot be used is a
// VALIDATION_ERROR, and a server that may not be called is URL_NOT_ALLOWED.
func (s *Service) Import(ctx context.Context, who actor.Actor, in openapi.ImportInput) (catalog.Provider, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return catalog.Provider{}, context.Cause(ctx)
	}
	read, err := openapi.Import(ctx, in)
	if err != nil {
		return catalog.Provider{}, err
	}
	for _, server := range read.Servers {
		if err := s.egress.CheckURL(server); err != nil {
			if f := fault.As(err); f != nil {
				return catalog.Provider{}, fault.Newf(f.Code, "The server %s may not be called. %s", server, f.Message)
			}
			return catalog.Provider{}, err
		}
	}
	authentication, err := json.Marshal(read.Auth)
	if err != nil {
		return catalog.Provider{}, fmt.Errorf("importing: encode the provider's auth: %w", err)
	}
	p, err := s.catalog.Replace(ctx, who, catalog.Provider{
		Slug: read.Slug, Name: read.Name, Domain: read.Domain, BaseURL: read.BaseURL, AuthType: read.Auth.Type, Auth: authentication,
		DocumentHash: catalog.HashOf(in.Document), Degraded: read.Degraded, Rejected: read.Rejected,
	}, read.Verbs)
	if err == nil && who.Kind == actor.User {
		// After a crash here the credentials stay unbound, and are not sent. The next import
		// binds them.
		err = s.credentials.Bind(ctx, who, p.Slug, p.BaseURL)
	}
	return p, err
}
