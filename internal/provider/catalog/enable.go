package catalog

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// Offer is a provider of the platform as it is for one tenant.
type Offer struct {
	Slug    string
	Offered bool // the platform has it
	Enabled bool // the tenant has enabled it
	Hidden  bool // the tenant has a provider of its own under the slug, and calls that one
}

// Offer returns what the platform has under a slug. A slug that nothing has is no error.
func (c *Catalog) Offer(ctx context.Context, tenant uuid.UUID, slug string) (Offer, error) {
	if !verb.ValidSlug(slug) {
		return Offer{Slug: slug}, nil
	}
	return c.offer(ctx, c.db.Tenant(tenant), tenant, slug)
}

func (c *Catalog) offer(ctx context.Context, on dbsqlc.DBTX, tenant uuid.UUID, slug string) (Offer, error) {
	r, err := c.q.GetOffer(ctx, on, dbsqlc.GetOfferParams{TenantID: tenant, Slug: slug})
	if err != nil {
		return Offer{}, fmt.Errorf("catalog: read what the platform offers: %w", err)
	}
	return Offer{Slug: slug, Offered: r.Offered, Enabled: r.Enabled, Hidden: r.Hidden}, nil
}

// platforms returns the refusal of a change of a provider that the tenant does not have:
// INSUFFICIENT_PERMISSIONS where it is the platform's, otherwise PROVIDER_NOT_FOUND.
func (c *Catalog) platforms(ctx context.Context, on dbsqlc.DBTX, tenant uuid.UUID, slug string) error {
	o, err := c.offer(ctx, on, tenant, slug)
	switch {
	case err != nil:
		return err
	case o.Offered:
		return fault.Newf(fault.CodeInsufficientPermissions, "The provider %s is the platform's. Only the operator of the platform changes it. "+
			"POST /v1/providers/%[1]s/disable takes it out of your catalog.", slug)
	}
	return fault.New(fault.CodeProviderNotFound, "")
}

// Enable lets a tenant call a provider of the platform. Where the tenant has a provider of
// its own under the slug, that one stays what is called. A repeat changes nothing.
// PROVIDER_NOT_FOUND where the platform offers none.
func (c *Catalog) Enable(ctx context.Context, who actor.Actor, slug string) (Offer, error) {
	return c.choose(ctx, who, slug, audit.ProviderEnabled, func(tx pgx.Tx) (int64, error) {
		return c.q.EnableProvider(ctx, tx, dbsqlc.EnableProviderParams{TenantID: who.TenantID, Now: c.now(), Slug: slug})
	})
}

// Disable takes a provider of the platform from a tenant; its credentials stay. A repeat changes
// nothing. PROVIDER_NOT_FOUND where the platform offers none and the tenant has enabled none.
func (c *Catalog) Disable(ctx context.Context, who actor.Actor, slug string) (Offer, error) {
	return c.choose(ctx, who, slug, audit.ProviderDisabled, func(tx pgx.Tx) (int64, error) {
		return c.q.DisableProvider(ctx, tx, dbsqlc.DisableProviderParams{TenantID: who.TenantID, Now: c.now(), Slug: slug})
	})
}

// choose makes a choice of a tenant, and records it where it changes something.
func (c *Catalog) choose(ctx context.Context, who actor.Actor, slug string, action audit.Action, change func(pgx.Tx) (int64, error)) (o Offer, err error) {
	if !verb.ValidSlug(slug) {
		return Offer{}, fault.New(fault.CodeProviderNotFound, "")
	}
	err = c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		n, err := change(tx)
		if err != nil {
			return fmt.Errorf("catalog: %s: %w", action, err)
		}
		if o, err = c.offer(ctx, tx, who.TenantID, slug); err != nil {
			return err
		}
		switch {
		case n > 0:
			return audit.Append(ctx, tx, changed(who, action, slug))
		case !o.Offered && o.Hidden:
			return fault.Newf(fault.CodeProviderNotFound, "The platform offers no provider %s. The one under this slug is your own: its verbs are in your catalog without being enabled, "+
				"and DELETE /v1/providers/%[1]s takes it out. GET /v1/providers?enabled=false lists what you can enable.", slug)
		case !o.Offered:
			return fault.New(fault.CodeProviderNotFound, "")
		}
		return nil
	})
	return o, err
}
