package api

import (
	"context"
	"fmt"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
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

func (s *Server) enableProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	o, err := s.deps.Providers.Enable(ctx, c.Actor, c.Param("slug"))
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(viewOffer(o)), nil
}

func (s *Server) disableProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	o, err := s.deps.Providers.Disable(ctx, c.Actor, c.Param("slug"))
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(viewOffer(o)), nil
}

// notEnabled says that a provider of the platform is not enabled, and what to do.
func notEnabled(slug string) string {
	return fmt.Sprintf("The platform's provider %s is not enabled. An owner or an admin enables it with POST /v1/providers/%[1]s/enable.", slug)
}

// sayNotEnabled returns f, which is VERB_NOT_FOUND, and says so where the verb's provider is one of
// the platform's that the tenant has not enabled. said reports whether it does.
func (s *Server) sayNotEnabled(ctx context.Context, c *wire.Call, name verb.Name, f *fault.Error) (told *fault.Error, said bool) {
	o, err := s.deps.Catalog.Offer(ctx, c.Actor.TenantID, name.Provider)
	if err != nil || !o.Offered || o.Enabled || o.Hidden {
		return f, false // the refusal stands as it is
	}
	path := "/verb"
	if c.Param("verb") != "" {
		path = "path.verb"
	}
	more := *f
	more.Message = notEnabled(name.Provider)
	more.Details = append(more.Details, fault.Detail{Path: path, Rule: "provider_not_enabled", Message: more.Message})
	return &more, true
}
