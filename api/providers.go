package api

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/credential"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/openapi"
)

// Providers is what the provider endpoints need.
type Providers interface {
	Provider(ctx context.Context, tenant uuid.UUID, slug string) (catalog.Provider, error)
	Providers(ctx context.Context, tenant uuid.UUID, after string, limit int) (page []catalog.Provider, more bool, err error)
	DeleteProvider(ctx context.Context, who actor.Actor, slug string) error
}

// Importer takes a provider's document into the catalog.
type Importer interface {
	// Import reads a document and stores its provider and verbs in one transaction.
	Import(ctx context.Context, who actor.Actor, in openapi.ImportInput) (catalog.Provider, error)
}

// providerView is a provider in a list.
type providerView struct {
	Slug      string          `json:"slug"`
	Name      string          `json:"name"`
	Domain    string          `json:"domain"`
	BaseURL   string          `json:"base_url"`
	Auth      json.RawMessage `json:"auth"`
	Connected bool            `json:"connected"`
	Imported  int             `json:"imported"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// providerReport is a provider with the report of its import.
type providerReport struct {
	providerView
	Degraded []verb.Report `json:"degraded"`
	Rejected []verb.Report `json:"rejected"`
}

func viewProvider(p catalog.Provider) providerView {
	return providerView{
		Slug: p.Slug, Name: p.Name, Domain: p.Domain, BaseURL: p.BaseURL, Auth: p.Auth, Connected: p.Connected,
		Imported: p.Imported, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
}

func reportProvider(p catalog.Provider) providerReport {
	return providerReport{providerView: viewProvider(p), Degraded: wire.Array(p.Degraded), Rejected: wire.Array(p.Rejected)}
}

type importBody struct {
	Slug    *string         `json:"slug"`
	Name    *string         `json:"name"`
	Domain  *string         `json:"domain"`
	BaseURL *string         `json:"base_url"`
	Auth    *importAuth     `json:"auth"`
	OpenAPI json.RawMessage `json:"openapi"`
}

type importAuth struct {
	Type *string `json:"type"`
	In   *string `json:"in"`
	Name *string `json:"name"`
}

// input checks all of the body but the document.
func (b importBody) input() (openapi.ImportInput, error) {
	var v wire.Validation
	in := openapi.ImportInput{
		Slug: v.Text("/slug", b.Slug, verb.MaxSlug), Name: v.OptionalText("/name", b.Name, 1, 255),
		Domain: v.OptionalText("/domain", b.Domain, 1, 64), BaseURL: v.OptionalText("/base_url", b.BaseURL, 1, 2048),
	}
	if b.Slug != nil && !verb.ValidSlug(*b.Slug) {
		v.Add("/slug", "pattern", `slug has lower-case letters, digits, hyphens and single underscores, and is not "tool".`)
	}
	if b.Auth != nil {
		in.Auth = &credential.Auth{
			Type: credential.Kind(strings.ToLower(v.Text("/auth/type", b.Auth.Type, 20))),
			In:   strings.ToLower(v.OptionalText("/auth/in", b.Auth.In, 1, 20)),
			Name: v.OptionalText("/auth/name", b.Auth.Name, 1, 64),
		}
	}
	in.Document = v.Object("/openapi", b.OpenAPI, true)
	return in, v.Err()
}

func (s *Server) importProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b importBody
	if err := c.Decode(&b, "/openapi"); err != nil {
		return wire.Reply{}, err
	}
	in, err := b.input()
	if err != nil {
		return wire.Reply{}, err
	}
	p, err := s.deps.Importer.Import(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, err
	}
	if p.UpdatedAt.After(p.CreatedAt) {
		return wire.OK(reportProvider(p)), nil
	}
	return wire.Created("/v1/providers/"+p.Slug, reportProvider(p)), nil
}

func (s *Server) listProviders(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	limit, err := c.Limit()
	if err != nil {
		return wire.Reply{}, err
	}
	after, err := c.CursorSlug()
	if err != nil {
		return wire.Reply{}, err
	}
	providers, more, err := s.deps.Providers.Providers(ctx, c.Actor.TenantID, after, limit)
	if err != nil {
		return wire.Reply{}, err
	}
	views := make([]providerView, len(providers))
	var last string
	for i, p := range providers {
		views[i], last = viewProvider(p), p.Slug
	}
	return wire.Reply{Data: views, Page: wire.PageAfter(limit, more, last)}, nil
}

func (s *Server) getProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	p, err := s.deps.Providers.Provider(ctx, c.Actor.TenantID, c.Param("slug"))
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(reportProvider(p)), nil
}

func (s *Server) deleteProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	if err := s.deps.Providers.DeleteProvider(ctx, c.Actor, c.Param("slug")); err != nil {
		return wire.Reply{}, err
	}
	return wire.Deleted(), nil
}
