package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/record/audit"
)

// Enable lets a tenant call a provider of the platform. Where the tenant has a provider of
// its own under the slug, that one stays what is called. A repeat changes nothing.
// PROVIDER_NOT_FOUND where the platform offers none.
func (c *Catalog) Enable(ctx context.Context, who actor.Actor, slug string) error {
	if !verb.ValidSlug(slug) {
		return fault.New(fault.CodeProviderNotFound, "")
	}
	return c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		n, err := c.q.EnableProvider(ctx, tx, dbsqlc.EnableProviderParams{TenantID: who.TenantID, Now: c.now(), Slug: slug})
		if err != nil {
			return fmt.Errorf("catalog: enable a provider: %w", err)
		}
		if n > 0 {
			return audit.Append(ctx, tx, changed(who, audit.ProviderEnabled, slug))
		}
		offered, err := c.q.PlatformHasProvider(ctx, tx, slug)
		if err != nil {
			return fmt.Errorf("catalog: enable a provider: %w", err)
		}
		if !offered {
			return fault.New(fault.CodeProviderNotFound, "")
		}
		return nil
	})
}

// Disable takes a provider of the platform from a tenant; its credentials stay.
// PROVIDER_NOT_FOUND where the tenant has not enabled it.
func (c *Catalog) Disable(ctx context.Context, who actor.Actor, slug string) error {
	if !verb.ValidSlug(slug) {
		return fault.New(fault.CodeProviderNotFound, "")
	}
	return c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		n, err := c.q.DisableProvider(ctx, tx, dbsqlc.DisableProviderParams{TenantID: who.TenantID, Slug: slug})
		if err != nil {
			return fmt.Errorf("catalog: disable a provider: %w", err)
		}
		if n == 0 {
			return fault.New(fault.CodeProviderNotFound, "")
		}
		return audit.Append(ctx, tx, changed(who, audit.ProviderDisabled, slug))
	})
}
