package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/connectors"
)

// Providers is what the provider endpoints need.
type Providers interface {
	// Import reads a document and stores its provider and verbs in one transaction.
	Import(ctx context.Context, tenant uuid.UUID, in connectors.ImportInput) (catalog.Provider, error)
	Provider(ctx context.Context, tenant uuid.UUID, slug string) (catalog.Provider, error)
	Providers(ctx context.Context, tenant uuid.UUID, after string, limit int) (page []catalog.Provider, more bool, err error)
	DeleteProvider(ctx context.Context, tenant uuid.UUID, slug string) error
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

// providerReport is a provider with what its import came to.
type providerReport struct {
	providerView
	Degraded []catalog.Report `json:"degraded"`
	Rejected []catalog.Report `json:"rejected"`
}

func viewProvider(p catalog.Provider) providerView {
	return providerView{
		Slug: p.Slug, Name: p.Name, Domain: p.Domain, BaseURL: p.BaseURL, Auth: p.Auth, Connected: p.Connected,
		Imported: p.Imported, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
}

func reportProvider(p catalog.Provider) providerReport {
	return providerReport{providerView: viewProvider(p), Degraded: list(p.Degraded), Rejected: list(p.Rejected)}
}

// list returns an empty array where there is none: arrays are never null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
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

// input checks the body as far as no document is needed for it.
func (b importBody) input() (connectors.ImportInput, error) {
	var v problems
	in := connectors.ImportInput{
		Slug: v.text("/slug", b.Slug, verb.MaxSlug), Name: v.optionalText("/name", b.Name, 1, 255),
		Domain: v.optionalText("/domain", b.Domain, 1, 64), BaseURL: v.optionalText("/base_url", b.BaseURL, 1, 2048),
	}
	if b.Slug != nil && !verb.ValidSlug(*b.Slug) {
		v.add("/slug", "pattern", `slug has lower-case letters, digits, hyphens and single underscores, and is not "tool".`)
	}
	if b.Auth != nil {
		in.Auth = &connectors.Auth{
			Type: connectors.AuthType(strings.ToLower(v.text("/auth/type", b.Auth.Type, 20))),
			In:   strings.ToLower(v.optionalText("/auth/in", b.Auth.In, 1, 20)),
			Name: v.optionalText("/auth/name", b.Auth.Name, 1, 64),
		}
	}
	in.Document = v.object("/openapi", b.OpenAPI, true)
	return in, v.err()
}

func (s *Server) importProvider(ctx context.Context, c *call) (reply, error) {
	var b importBody
	if err := c.decode(&b, "/openapi"); err != nil {
		return reply{}, err
	}
	in, err := b.input()
	if err != nil {
		return reply{}, err
	}
	p, err := s.Providers.Import(ctx, c.who.TenantID, in)
	if err != nil {
		return reply{}, err
	}
	if p.UpdatedAt.After(p.CreatedAt) {
		return ok(reportProvider(p)), nil
	}
	return created("/v1/providers/"+p.Slug, reportProvider(p)), nil
}

func (s *Server) listProviders(ctx context.Context, c *call) (reply, error) {
	limit, err := c.limit()
	if err != nil {
		return reply{}, err
	}
	after, err := c.slugCursor()
	if err != nil {
		return reply{}, err
	}
	providers, more, err := s.Providers.Providers(ctx, c.who.TenantID, after, limit)
	if err != nil {
		return reply{}, err
	}
	views := make([]providerView, len(providers))
	for i, p := range providers {
		views[i] = viewProvider(p)
	}
	page := &pagination{Limit: limit, HasMore: more}
	if more {
		next := base64.RawURLEncoding.EncodeToString([]byte(views[len(views)-1].Slug))
		page.NextCursor = &next
	}
	return reply{data: views, page: page}, nil
}

// slugCursor reads ?cursor= of a list that is ordered by slug.
func (c *call) slugCursor() (string, error) {
	raw, given := c.query("cursor")
	if !given {
		return "", nil
	}
	slug, err := base64.RawURLEncoding.DecodeString(raw)
	if err != nil || !verb.ValidSlug(string(slug)) {
		return "", fault.Invalid("query.cursor", "format", "cursor is the next_cursor of an earlier answer.")
	}
	return string(slug), nil
}

func (s *Server) getProvider(ctx context.Context, c *call) (reply, error) {
	p, err := s.Providers.Provider(ctx, c.who.TenantID, c.param("slug"))
	if err != nil {
		return reply{}, err
	}
	return ok(reportProvider(p)), nil
}

func (s *Server) deleteProvider(ctx context.Context, c *call) (reply, error) {
	if err := s.Providers.DeleteProvider(ctx, c.who.TenantID, c.param("slug")); err != nil {
		return reply{}, err
	}
	return ok(map[string]bool{"deleted": true}), nil
}
