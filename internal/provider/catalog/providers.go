package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/circuit"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
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
	p, err := providerOf(row)
	if err != nil {
		return Provider{}, err
	}
	said, err := c.trusted(ctx, on, tenant, slug, new(""))
	p.Trust = said.provider
	return p, err
}

// providerOf reads the row of one provider.
func providerOf(r dbsqlc.GetProviderRow) (Provider, error) {
	p := Provider{
		Slug: r.Slug, Name: r.Name, Domain: r.Domain, BaseURL: r.BaseUrl, AuthType: credential.Kind(r.AuthType), Auth: r.Auth,
		DocumentHash: storedHash(r.DocumentHash), Imported: int(r.Imported), Connected: r.Connected, Shared: r.Shared, Enabled: r.Enabled,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	var unread error
	if p.Circuit, unread = circuit.ReadRecord(r.Circuit); unread != nil {
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
	if p.Notes, unread = readNotes(r.Report); unread != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider's report: %w", unread)
	}
	if err := p.Notes.readQuarantined(r.Quarantined, int(r.QuarantinedTotal)); err != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider's quarantined verbs: %w", err)
	}
	if p.Corrections, unread = readCorrections(r.ImportSettings); unread != nil {
		return Provider{}, fmt.Errorf("catalog: read a provider's corrections: %w", unread)
	}
	return p, nil
}

// Providers returns up to limit providers with slugs after the given one, in the order of their
// slugs and without their reports, and whether there are more. They are the tenant's own and the
// platform's that none of these hides. enabled selects those that the tenant can call, or those of
// the platform that it has not enabled; nil selects all.
func (c *Catalog) Providers(ctx context.Context, tenant uuid.UUID, enabled *bool, after string, limit int) (page []Provider, more bool, err error) {
	rows, err := c.listProviders(ctx, tenant, enabled, after, int32(limit+1))
	if err != nil {
		return nil, false, fmt.Errorf("catalog: list providers: %w", err)
	}
	rows, more = db.Page(rows, limit)
	page = make([]Provider, len(rows))
	for i, r := range rows {
		page[i] = Provider{
			Slug: r.Slug, Name: r.Name, Domain: r.Domain, BaseURL: r.BaseUrl, AuthType: credential.Kind(r.AuthType), Auth: r.Auth, Imported: int(r.Imported),
			Connected: r.Connected, Shared: r.Shared, Enabled: r.Enabled, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		}
	}
	return page, more, nil
}

func (c *Catalog) listProviders(ctx context.Context, tenant uuid.UUID, enabled *bool, after string, n int32) ([]dbsqlc.ListOfferedProvidersRow, error) {
	on := c.db.Reading(tenant, db.ListLimit)
	if enabled == nil || !*enabled {
		return c.q.ListOfferedProviders(ctx, on, dbsqlc.ListOfferedProvidersParams{TenantID: tenant, After: after, Offered: enabled != nil, N: n})
	}
	called, err := c.q.ListProviders(ctx, on, dbsqlc.ListProvidersParams{TenantID: tenant, After: after, N: n})
	rows := make([]dbsqlc.ListOfferedProvidersRow, len(called))
	for i, r := range called {
		rows[i] = dbsqlc.ListOfferedProvidersRow{
			Shared: r.Shared, Enabled: true, Slug: r.Slug, Name: r.Name, Domain: r.Domain, BaseUrl: r.BaseUrl, AuthType: r.AuthType, Auth: r.Auth,
			Imported: r.Imported, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Connected: r.Connected,
		}
	}
	return rows, err
}
