// Package importing takes a provider's document into a tenant's catalog: the importer reads
// it, every server in it is checked, and the catalog stores what came of it. Credentials that
// waited for the provider are bound to it. The API calls it. It calls no provider and never fetches a document.
package importing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agentruntime/internal/edge/egress"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/turns"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/provider/vault"
)

// Service imports providers. It is safe for concurrent use.
type Service struct {
	catalog      *catalog.Catalog
	credentials  *vault.Vault
	egress       egress.Config
	small, large lane
}

// lane lets one import of its kind run at a time: a large document takes hundreds of megabytes
// while it is read. A small one has a lane of its own, so that it does not wait for a large one.
type lane struct {
	turns *turns.Turns
	read  func(context.Context, openapi.ImportInput) (*openapi.Imported, error)
	// most bounds one import with its storing. The importer refuses what takes too much work
	// long before, so only a busy machine or database reaches it.
	most time.Duration
}

// Bounds of imports.
const (
	smallTime  = 10 * time.Second
	largeTime  = 30 * time.Second
	turnWait   = 30 * time.Second
	turnsEach  = 8  // imports of one tenant that may wait
	turnsMost  = 64 // imports that may wait in all
	retryLater = 10 * time.Second
)

// New builds a Service. Catalog and vault are required; cfg says which servers calls may go to.
func New(cfg egress.Config, c *catalog.Catalog, credentials *vault.Vault) (*Service, error) {
	if c == nil || credentials == nil {
		return nil, errors.New("importing: a catalog and a vault are required")
	}
	return &Service{catalog: c, credentials: credentials, egress: cfg, small: lane{newTurns(), openapi.ImportSmall, smallTime}, large: lane{newTurns(), openapi.Import, largeTime}}, nil
}

func newTurns() *turns.Turns {
	return turns.New(turns.Config{Slots: 1, Wait: turnWait, Each: turnsEach, Most: turnsMost})
}

// Import reads a document and stores its provider and verbs in one transaction. It returns
// the provider as stored, with the report. A document that cannot be used is a
// VALIDATION_ERROR, and a server that may not be called is URL_NOT_ALLOWED. Tenants take turns;
// SERVICE_UNAVAILABLE where none comes in time, or the import takes too long.
func (s *Service) Import(ctx context.Context, who actor.Actor, in openapi.ImportInput) (catalog.Provider, error) {
	if len(in.Document) <= openapi.MaxSmallDocument {
		p, err := s.inTurn(ctx, s.small, who, in)
		if !errors.Is(err, openapi.ErrNotSmall) {
			return p, err
		}
	}
	return s.inTurn(ctx, s.large, who, in)
}

// inTurn waits for a turn of the lane and imports the document.
func (s *Service) inTurn(ctx context.Context, l lane, who actor.Actor, in openapi.ImportInput) (catalog.Provider, error) {
	free, err := l.turns.Take(ctx, who.TenantID.String())
	if errors.Is(err, turns.ErrBusy) || errors.Is(err, turns.ErrCrowded) {
		return catalog.Provider{}, later("Other imports are under way. Repeat the call later.", err)
	}
	if err != nil {
		return catalog.Provider{}, err
	}
	defer free()
	limited, stop := context.WithTimeout(ctx, l.most)
	defer stop()
	p, err := s.store(limited, l, who, in)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return catalog.Provider{}, later("The import took too long and stored nothing. Repeat the call later.", err)
	}
	return p, err
}

func later(message string, cause error) error {
	f := fault.New(fault.CodeServiceUnavailable, message).Because(cause)
	f.Retryable, f.RetryAfter = true, retryLater
	return f
}

// store reads the document and stores what came of it.
func (s *Service) store(ctx context.Context, l lane, who actor.Actor, in openapi.ImportInput) (catalog.Provider, error) {
	read, err := l.read(ctx, in)
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
