package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// Kept is a document with the settings that it was imported with.
type Kept struct {
	Document
	Settings Settings
	at       time.Time // of the provider's last change
}

// Kept returns the document of a provider of the tenant's own, to import it with other settings.
// PROVIDER_NOT_FOUND; INSUFFICIENT_PERMISSIONS where it is the platform's; CONFLICT where it is not
// kept.
func (c *Catalog) Kept(ctx context.Context, tenant uuid.UUID, slug string) (Kept, error) {
	row, err := c.source(ctx, c.db.Tenant(tenant), tenant, slug)
	switch {
	case err != nil:
		return Kept{}, err
	case row.Shared:
		return Kept{}, c.platforms(ctx, c.db.Tenant(tenant), tenant, slug)
	case row.DocumentSize == nil:
		return Kept{}, fault.New(fault.CodeConflict, "This provider was imported before documents were kept. Import its document again, with the new values.")
	}
	return c.kept(row, tenant, slug)
}

// kept reads the row of a provider whose document is kept.
func (c *Catalog) kept(row dbsqlc.GetProviderSourceRow, tenant uuid.UUID, slug string) (Kept, error) {
	k := Kept{Document: Document{Hash: storedHash(row.DocumentHash), Size: *row.DocumentSize, c: c, tenant: tenant, slug: slug}, at: row.UpdatedAt}
	if err := json.Unmarshal(row.ImportSettings, &k.Settings); err != nil {
		return Kept{}, fmt.Errorf("catalog: read the settings of an import: %w", err)
	}
	k.Form = k.Settings.Form
	return k, nil
}

// Read returns the bytes of the document. It has them in memory, so the caller bounds how many
// are read at once.
func (k Kept) Read(ctx context.Context) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(k.Size))
	err := k.WriteTo(ctx, &b)
	return b.Bytes(), err
}

// stillKept checks what an update expects of the provider; see Update.
func (c *Catalog) stillKept(ctx context.Context, tx pgx.Tx, st *storing) error {
	if st.update == nil {
		return nil
	}
	if err := c.expect(ctx, tx, st.tenant, st.Slug, st.update.Expect); err != nil {
		return err
	}
	row, err := c.source(ctx, tx, st.tenant, st.Slug)
	if err != nil {
		return err
	}
	if row.Shared || !row.UpdatedAt.Equal(st.update.Of.at) {
		return fault.New(fault.CodeConflict, "The provider was changed meanwhile. Nothing was done. Repeat the call.")
	}
	return nil
}

// Rename gives a provider of the tenant's own another name, nil for the one that it has. Nothing
// that governs calls depends on the name. PROVIDER_NOT_FOUND; INSUFFICIENT_PERMISSIONS where it is
// the platform's. expect is asked about the provider
// before.
func (c *Catalog) Rename(ctx context.Context, who actor.Actor, slug string, name *string, expect fault.Expect[Provider]) (p Provider, err error) {
	if !verb.ValidSlug(slug) {
		return Provider{}, fault.New(fault.CodeProviderNotFound, "")
	}
	err = c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := c.lockImport(ctx, tx, who.TenantID, slug); err != nil {
			return err
		}
		was, err := c.provider(ctx, tx, who.TenantID, slug)
		if err != nil {
			return err
		}
		if err := expect.Check(was); err != nil {
			return err
		}
		n, err := c.q.RenameProvider(ctx, tx, dbsqlc.RenameProviderParams{TenantID: who.TenantID, Slug: slug, Name: name, Now: c.now()})
		switch {
		case err != nil:
			return fmt.Errorf("catalog: rename a provider: %w", err)
		case n == 0: // it is the platform's
			return c.platforms(ctx, tx, who.TenantID, slug)
		}
		if p, err = c.provider(ctx, tx, who.TenantID, slug); err != nil {
			return err
		}
		details := map[string]any{"fields": []string{}}
		if name != nil {
			details = map[string]any{"fields": []string{"name"}, "name": p.Name, "name_before": was.Name}
		}
		return audit.Append(ctx, tx, changed(who, audit.ProviderUpdated, slug).With(details))
	})
	return p, err
}
