package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/tenant/webhook"
)

// Webhooks is what the webhook endpoints need of the webhook domain.
type Webhooks interface {
	Create(ctx context.Context, who actor.Actor, d webhook.Draft) (webhook.Webhook, error)
	Get(ctx context.Context, tenant, id uuid.UUID) (webhook.Webhook, error)
	List(ctx context.Context, tenant uuid.UUID, before *uuid.UUID, limit int) (page []webhook.Webhook, more bool, err error)
	Update(ctx context.Context, who actor.Actor, id uuid.UUID, c webhook.Change) (webhook.Webhook, error)
	Rotate(ctx context.Context, who actor.Actor, id uuid.UUID, supplied *string) (webhook.Webhook, error)
	Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[webhook.Webhook]) error
	Test(ctx context.Context, who actor.Actor, id uuid.UUID) (webhook.Delivery, error)
	Deliveries(ctx context.Context, tenant, id uuid.UUID, f webhook.Filter) (page []webhook.Delivery, more bool, err error)
	Delivery(ctx context.Context, tenant, id uuid.UUID, publicID string) (webhook.Delivery, error)
	OfEvents(ctx context.Context, tenant uuid.UUID, eventIDs []uuid.UUID) (map[uuid.UUID][]webhook.Delivery, error)
	Redeliver(ctx context.Context, who actor.Actor, id uuid.UUID, publicID string) (webhook.Delivery, error)
	Recover(ctx context.Context, who actor.Actor, id uuid.UUID, since time.Time) (n int, more bool, err error)
}

// webhookView is a webhook. Secret is the secret in the response that makes it, and masked in all
// others.
type webhookView struct {
	ID             uuid.UUID       `json:"id"`
	URL            string          `json:"url"`
	Events         []string        `json:"events"`
	Description    string          `json:"description"`
	Enabled        bool            `json:"enabled"`
	Secret         string          `json:"secret"`
	DisabledAt     *time.Time      `json:"disabled_at"`
	DisabledReason *webhook.Reason `json:"disabled_reason"`
	RotatedAt      *time.Time      `json:"rotated_at"`
	PreviousUntil  *time.Time      `json:"previous_until"`
	CreatedBy      string          `json:"created_by"`
	CreatedAt      time.Time       `json:"createdAt"`
	UpdatedAt      time.Time       `json:"updated_at"`

	repeatMark
}

func viewWebhook(w webhook.Webhook) webhookView {
	v := webhookView{
		ID: w.ID, URL: w.URL, Events: wire.Array(w.Events), Description: w.Description, Enabled: w.Enabled, Secret: redact.Masked,
		DisabledAt: w.DisabledAt, RotatedAt: w.RotatedAt, PreviousUntil: w.PreviousUntil, CreatedBy: w.CreatedBy, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt,
	}
	if w.Secret != "" {
		v.Secret = w.Secret
	}
	if w.DisabledReason != "" {
		v.DisabledReason = &w.DisabledReason
	}
	return v
}

func webhookTag(w webhook.Webhook) string { return wire.ViewTag(viewWebhook(w)) }

type webhookBody struct {
	URL         *string  `json:"url"`
	Events      []string `json:"events"`
	Description *string  `json:"description"`
	Enabled     *bool    `json:"enabled"`
	Secret      *string  `json:"secret"`
}

func (h *tenantHandlers) createWebhook(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b webhookBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	d := webhook.Draft{URL: v.Required("/url", b.URL), Events: b.Events, Enabled: b.Enabled == nil || *b.Enabled, Secret: b.Secret}
	if b.Events == nil {
		v.Add("/events", "required", `is missing, for example ["action.*"]`)
	}
	if b.Description != nil {
		d.Description = *b.Description
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	w, err := h.webhooks.Create(ctx, c.Actor, d)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Created("/v1/webhooks/"+w.ID.String(), viewWebhook(w)), nil
}

func (h *tenantHandlers) listWebhooks(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	limit, before, err := c.PageByID()
	if err != nil {
		return wire.Reply{}, err
	}
	page, more, err := h.webhooks.List(ctx, c.Actor.TenantID, before, limit)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(limit, page, more, viewWebhook, func(w webhook.Webhook) uuid.UUID { return w.ID }), nil
}

func (h *tenantHandlers) getWebhook(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	w, err := h.webhooks.Get(ctx, c.Actor.TenantID, c.ID())
	return wire.Answer(viewWebhook, w, err)
}

type webhookPatch struct {
	URL         *string  `json:"url"`
	Events      []string `json:"events"`
	Description *string  `json:"description"`
	Enabled     *bool    `json:"enabled"`
}

func (h *tenantHandlers) patchWebhook(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b webhookPatch
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	w, err := h.webhooks.Update(ctx, c.Actor, c.ID(), webhook.Change{
		URL: b.URL, Events: b.Events, Description: b.Description, Enabled: b.Enabled, Expect: wire.Expect(c, webhookTag),
	})
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(viewWebhook(w)), nil
}

func (h *tenantHandlers) deleteWebhook(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.webhooks.Delete(ctx, c.Actor, c.ID(), wire.Expect(c, webhookTag)))
}

type webhookRotation struct {
	Secret *string `json:"secret"`
}

func (h *tenantHandlers) rotateWebhookSecret(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b webhookRotation
	if err := c.DecodeOptional(&b); err != nil {
		return wire.Reply{}, err
	}
	w, err := h.webhooks.Rotate(ctx, c.Actor, c.ID(), b.Secret)
	return wire.Answer(viewWebhook, w, err)
}
