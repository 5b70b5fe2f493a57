package api

import (
	"context"

	"agentruntime/api/wire"
	"agentruntime/internal/provider/catalog"
)

// Whose a provider is.
const (
	ownerTenant   = "tenant"
	ownerPlatform = "platform"
)

func ownerOf(p catalog.Provider) string {
	if p.Shared {
		return ownerPlatform
	}
	return ownerTenant
}

// offerView is a tenant's choice about a provider of the platform.
type offerView struct {
	Slug    string `json:"slug"`
	Owner   string `json:"owner"`
	Enabled bool   `json:"enabled"`
	Hidden  bool   `json:"hidden"` // by a provider of the tenant's own
}

func viewOffer(o catalog.Offer) offerView {
	return offerView{Slug: o.Slug, Owner: ownerPlatform, Enabled: o.Enabled, Hidden: o.Hidden}
}

func (h *providerHandlers) enableProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	o, err := h.providers.Enable(ctx, c.Actor, c.Param("slug"))
	return wire.Answer(viewOffer, o, err)
}

func (h *providerHandlers) disableProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	o, err := h.providers.Disable(ctx, c.Actor, c.Param("slug"))
	return wire.Answer(viewOffer, o, err)
}
