package importing

import (
	"context"
	"errors"

	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/openapi"
)

// Platform imports the providers that the platform offers to every tenant. It is for commands of
// the operator: it reads a document by the rules of a tenant's import, and takes no turns.
type Platform struct {
	catalog *catalog.Platform
	egress  egress.Config
}

// NewPlatform builds a Platform. The catalog is required; cfg says which servers calls may go to.
func NewPlatform(cfg egress.Config, c *catalog.Platform) (*Platform, error) {
	if c == nil {
		return nil, errors.New("importing: the platform's catalog is required")
	}
	return &Platform{catalog: c, egress: cfg}, nil
}

// Import reads a document and stores its provider and verbs for all tenants, in one transaction. It
// refuses what Service.Import refuses. CONFLICT where it changes what governs calls and accept is
// false; then the provider is returned too, as it would be. See catalog.Platform.Import.
func (p *Platform) Import(ctx context.Context, in openapi.ImportInput, accept bool) (catalog.Provider, error) {
	read, err := read(ctx, p.egress, openapi.Import, in)
	if err != nil {
		return catalog.Provider{}, err
	}
	return p.catalog.Import(ctx, read.Import, accept)
}

// Preview returns the provider as Import would leave it, and stores nothing.
func (p *Platform) Preview(ctx context.Context, in openapi.ImportInput) (catalog.Provider, error) {
	read, err := read(ctx, p.egress, openapi.Import, in)
	if err != nil {
		return catalog.Provider{}, err
	}
	return p.catalog.Preview(ctx, read.Import)
}
