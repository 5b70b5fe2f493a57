package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/models/modelprovider"
)

// ModelProviders is what the endpoints of model providers need of the domain.
type ModelProviders interface {
	Create(ctx context.Context, who actor.Actor, in modelprovider.NewProvider) (modelprovider.Provider, error)
	Get(ctx context.Context, tenant, id uuid.UUID) (modelprovider.Provider, error)
	List(ctx context.Context, tenant uuid.UUID, f modelprovider.Filter) (page []modelprovider.Provider, more bool, err error)
	Update(ctx context.Context, who actor.Actor, id uuid.UUID, defaultModel *string, change modelprovider.Change, expect fault.Expect[modelprovider.Provider]) (modelprovider.Provider, error)
	Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[modelprovider.Provider]) error
}

type modelProviderView struct {
	ID           uuid.UUID `json:"id"`
	Slug         string    `json:"slug"`
	API          string    `json:"api"`
	BaseURL      string    `json:"base_url"`
	Private      *string   `json:"private"`
	DefaultModel *string   `json:"default_model"`
	// Dialect is null for an API that has one form only.
	Dialect   *dialectView `json:"dialect"`
	CreatedBy string       `json:"created_by"`
	CreatedAt time.Time    `json:"created_at"`

	repeatMark
}

type dialectView struct {
	MaxTokensField string `json:"max_tokens_field"`
	StreamUsage    bool   `json:"stream_usage"`
}

func viewModelProvider(p modelprovider.Provider) modelProviderView {
	v := modelProviderView{ID: p.ID, Slug: p.Slug, API: string(p.API), BaseURL: p.BaseURL, CreatedBy: p.CreatedBy, CreatedAt: p.CreatedAt}
	if p.Private != "" {
		v.Private, v.BaseURL = &p.Private, "" // only the operator knows where it is
	}
	if p.API == modelprovider.OpenAI {
		v.Dialect = &dialectView{p.Dialect.MaxTokensField, p.Dialect.StreamUsage}
	}
	if p.DefaultModel != "" {
		v.DefaultModel = &p.DefaultModel
	}
	return v
}

func modelProviderTag(p modelprovider.Provider) string { return wire.ViewTag(viewModelProvider(p)) }

type modelProviderBody struct {
	Slug         *string     `json:"slug"`
	API          *string     `json:"api"`
	BaseURL      *string     `json:"base_url"`
	Private      *string     `json:"private"`
	DefaultModel *string     `json:"default_model"`
	Dialect      dialectBody `json:"dialect"`
}

type dialectBody struct {
	MaxTokensField *string `json:"max_tokens_field"`
	StreamUsage    *bool   `json:"stream_usage"`
}

func (h *providerHandlers) createModelProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b modelProviderBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := modelprovider.NewProvider{
		Slug: v.Required("/slug", b.Slug), API: v.OptionalText("/api", b.API, 1, 20), BaseURL: v.OptionalText("/base_url", b.BaseURL, 1, 2048),
		Private: v.OptionalText("/private", b.Private, 1, 255), DefaultModel: v.OptionalText("/default_model", b.DefaultModel, 1, 255), Dialect: modelprovider.Change(b.Dialect),
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	p, err := h.modelProviders.Create(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Created("/v1/model-providers/"+p.ID.String(), viewModelProvider(p)), nil
}

func (h *providerHandlers) getModelProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	p, err := h.modelProviders.Get(ctx, c.Actor.TenantID, c.ID())
	return wire.Answer(viewModelProvider, p, err)
}

func (h *providerHandlers) listModelProviders(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var f modelprovider.Filter
	var err error
	if f.Limit, f.Before, err = c.PageByID(); err != nil {
		return wire.Reply{}, err
	}
	page, more, err := h.modelProviders.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, page, more, viewModelProvider, func(p modelprovider.Provider) uuid.UUID { return p.ID }), nil
}

type modelProviderPatch struct {
	// DefaultModel is "" to have none.
	DefaultModel *string     `json:"default_model"`
	Dialect      dialectBody `json:"dialect"`
}

func (h *providerHandlers) patchModelProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b modelProviderPatch
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	p, err := h.modelProviders.Update(ctx, c.Actor, c.ID(), b.DefaultModel, modelprovider.Change(b.Dialect), wire.Expect(c, modelProviderTag))
	return wire.Answer(viewModelProvider, p, err)
}

func (h *providerHandlers) deleteModelProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.modelProviders.Delete(ctx, c.Actor, c.ID(), wire.Expect(c, modelProviderTag)))
}
