package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/circuit"
	"agentruntime/internal/kernel/credential"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
)

// Provider returns a provider with the report of its last import;
// PROVIDER_NOT_FOUND.
func (c *Catalog) Provider(ctx context.Context, tenant uuid.UUID, slug string) (Provider, error) {
	if !verb.ValidSlug(slug) {
		return Provider{}, fault.New(fault.CodeProviderNotFound, "")
	}
	return c.provider(ctx, c.db.Tenant(tenant), tenant, slug)
}

// expect asks about the provider as the transaction sees it.
func (c *Catalog) expect(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string, expect fault.Expect[Provider]) error {
	if expect == nil {
		return nil
	}
	p, err := c.provider(ctx, tx, tenant, slug)
	if err != nil {
		return err
	}
	return expect.Check(p)
}

func (c *Catalog) provider(ctx context.Context, on dbsqlc.DBTX, tenant uuid.UUID, slug string) (Provider, error) {
	row, err := c.q.GetProvider(ctx, on, dbsqlc.GetProviderParams{TenantID: tenant, Slug: slug, MostQuarantined: maxNotesStored})
	switch {
	case db.IsNoRows(err):
		return Provider{}, fault.New(fault.CodeProviderNotFound, "")
	case err != nil:
		return Provider{}, fmt.Errorf("catalog: read a provider: %w", err)
	}
	r := row.VisibleProvider
	p := Provider{
		Slug: r.Slug, Name: r.Name, Domain: r.Domain, BaseURL: r.BaseUrl, AuthType: credential.Kind(r.AuthType), Auth: r.Auth,
		DocumentHash: storedHash(r.DocumentHash), Imported: int(r.Imported), Connected: row.Connected, Shared: r.Shared,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	var unread error
	if p.Circuit, unread = circuit.ReadRecord(row.Circuit); unread != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider: %w", unread)
	}
	if err := json.Unmarshal(r.Degraded, &p.Degraded); err != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider's report: %w", err)
	}
	if err := json.Unmarshal(r.Rejected, &p.Rejected); err != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider's report: %w", err)
	}
	if err := json.Unmarshal(r.Servers, &p.Servers); err != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider's report: %w", err)
	}
	if p.Notes, unread = readNotes(row.Report); unread != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider's report: %w", unread)
	}
	if err := p.Notes.readQuarantined(row.Quarantined, int(row.QuarantinedTotal)); err != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider's quarantined verbs: %w", err)
	}
	if p.Corrections, unread = readCorrections(row.ImportSettings); unread != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider's corrections: %w", unread)
	}
	return p, nil
}

// Providers returns up to limit providers with slugs after the given one, in the
// order of their slugs and without their reports, and whether there are more.
func (c *Catalog) Providers(ctx context.Context, tenant uuid.UUID, after string, limit int) (page []Provider, more bool, err error) {
	rows, err := c.q.ListProviders(ctx, c.db.Reading(tenant, db.ListLimit), dbsqlc.ListProvidersParams{TenantID: tenant, After: after, N: int32(limit + 1)})
	if err != nil {
		return nil, false, fmt.Errorf("catalog: list providers: %w", err)
	}
	rows, more = db.Page(rows, limit)
	page = make([]Provider, len(rows))
	for i, r := range rows {
		page[i] = Provider{
			Slug: r.Slug, Name: r.Name, Domain: r.Domain, BaseURL: r.BaseUrl, AuthType: credential.Kind(r.AuthType), Auth: r.Auth, Imported: int(r.Imported),
			Connected: r.Connected, Shared: r.Shared, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		}
	}
	return page, more, nil
}
