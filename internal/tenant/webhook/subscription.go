package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// Bounds of a webhook.
const (
	mostEvents      = 100
	mostDescription = 1000 // characters
	// overlap is how long the secret before a rotation signs too: every receiver can be changed in a
	// day.
	overlap = 24 * time.Hour
)

// Webhook is a subscription of a tenant.
type Webhook struct {
	ID          uuid.UUID
	URL         string
	Events      []string
	Description string
	Enabled     bool
	// Secret is only in the result that makes it.
	Secret         string
	DisabledAt     *time.Time
	DisabledReason Reason // "" where a caller disabled it
	RotatedAt      *time.Time
	PreviousUntil  *time.Time // how long the secret before signs too; nil where it does not
	CreatedBy      string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Draft says what a webhook is created with.
type Draft struct {
	URL         string
	Events      []string
	Description string
	Enabled     bool
	Secret      *string // nil: one is generated
}

// Change is what a webhook is changed to. A nil field stays as it is.
type Change struct {
	URL         *string
	Events      []string
	Description *string
	Enabled     *bool
	// Expect is asked about the webhook before the change.
	Expect fault.Expect[Webhook]
}

func notFound() error { return fault.New(fault.CodeWebhookNotFound, "") }

func checkEvents(names []string) error {
	switch {
	case len(names) == 0:
		return fault.Invalid("/events", "minItems", "events names at least one type of event, or *.")
	case len(names) > mostEvents:
		return fault.Invalid("/events", "maxItems", fmt.Sprintf("events names at most %d types.", mostEvents))
	}
	for i, name := range names {
		path := fmt.Sprintf("/events/%d", i)
		if !event.Wantable(name) {
			return fault.Invalid(path, "enum", "This is no type of event. A webhook names types such as action.executed, families such as action.*, or *."+near.Sentence(name, event.Names()))
		}
		if slices.Contains(names[:i], name) {
			return fault.Invalid(path, "uniqueItems", "This type is there twice.")
		}
	}
	return nil
}

func checkDescription(text string) error {
	if len([]rune(text)) > mostDescription {
		return fault.Invalid("/description", "maxLength", fmt.Sprintf("description has at most %d characters.", mostDescription))
	}
	return nil
}

func (s *Service) checkURL(text string) error {
	if err := s.d.CheckURL(text); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	return nil
}

// Create stores a webhook. The result has its secret, this once. What is wrong with the input is
// VALIDATION_ERROR, an address that no delivery may be sent to URL_NOT_ALLOWED. It also refuses
// with QUOTA_EXCEEDED.
func (s *Service) Create(ctx context.Context, who actor.Actor, n Draft) (Webhook, error) {
	if err := errors.Join(s.checkURL(n.URL), checkEvents(n.Events), checkDescription(n.Description)); err != nil {
		return Webhook{}, err
	}
	sec := newSecret()
	if n.Secret != nil {
		var err error
		if sec, err = parseSecret(*n.Secret); err != nil {
			return Webhook{}, err
		}
	}
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return Webhook{}, fmt.Errorf("webhook: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Webhook{}, fmt.Errorf("webhook: make an id: %w", err)
	}
	now := s.now()
	w := Webhook{
		ID: id, URL: n.URL, Events: n.Events, Description: n.Description, Enabled: n.Enabled, Secret: sec.text,
		CreatedBy: who.String(), CreatedAt: now, UpdatedAt: now,
	}
	if !n.Enabled {
		w.DisabledAt = &now
	}
	b := &db.Batch{}
	idempotency.Queue(ctx, b, id.String())
	db.QueueExec(b, s.q.InsertWebhook, dbsqlc.InsertWebhookParams{
		ID: id, TenantID: who.TenantID, Url: w.URL, Events: w.Events, Description: w.Description, Enabled: w.Enabled, DisabledAt: w.DisabledAt,
		Secret: sec.seal(key, who.TenantID, id), CreatedBy: w.CreatedBy, Now: now,
	})
	s.cfg.Quotas.Queue(b, who.TenantID, quota.Webhooks)
	audit.Queue(b, changed(who, audit.WebhookCreated, id).With(map[string]any{"origin": originOf(w.URL), "events": w.Events, "enabled": w.Enabled}))
	if err := s.d.DB.Send(ctx, who.TenantID, b); err != nil {
		return Webhook{}, fmt.Errorf("webhook: create: %w", err)
	}
	return w, nil
}

func changed(who actor.Actor, action audit.Action, id uuid.UUID) audit.Record {
	return audit.Change(who, action, audit.SubjectWebhook, id.String())
}

// originOf returns the part of a URL that shows no secret: paths and queries of webhooks often are
// secrets of their receivers.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Get returns a webhook without its secret, or WEBHOOK_NOT_FOUND.
func (s *Service) Get(ctx context.Context, tenant, id uuid.UUID) (Webhook, error) {
	row, err := s.q.GetWebhook(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetWebhookParams{TenantID: tenant, ID: id})
	switch {
	case db.IsNoRows(err):
		return Webhook{}, notFound()
	case err != nil:
		return Webhook{}, fmt.Errorf("webhook: get: %w", err)
	}
	return s.shown(row), nil
}

// List returns webhooks of the tenant before an id, the newest first, and whether there are more.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, before *uuid.UUID, limit int) (page []Webhook, more bool, err error) {
	rows, err := s.q.ListWebhooks(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.ListWebhooksParams{TenantID: tenant, Before: before, N: int32(limit + 1)})
	if err != nil {
		return nil, false, fmt.Errorf("webhook: list: %w", err)
	}
	rows, more = db.Page(rows, limit)
	for _, row := range rows {
		page = append(page, s.shown(row))
	}
	return page, more, nil
}

func (s *Service) shown(r dbsqlc.Webhook) Webhook {
	w := Webhook{
		ID: r.ID, URL: r.Url, Events: r.Events, Description: r.Description, Enabled: r.Enabled, DisabledAt: db.UTC(r.DisabledAt),
		DisabledReason: Reason(db.Text(r.DisabledReason)), RotatedAt: db.UTC(r.RotatedAt), CreatedBy: r.CreatedBy,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.PreviousUntil != nil && r.PreviousUntil.After(s.now()) {
		w.PreviousUntil = db.UTC(r.PreviousUntil)
	}
	return w
}

// Update changes a webhook, for the deliveries that begin after it. A webhook that is enabled
// again is told of what happens from then on; Recover delivers what failed before. It refuses
// with WEBHOOK_NOT_FOUND and as Create.
func (s *Service) Update(ctx context.Context, who actor.Actor, id uuid.UUID, c Change) (Webhook, error) {
	if err := s.check(c); err != nil {
		return Webhook{}, err
	}
	var w Webhook
	err := s.locked(ctx, who, id, func(tx pgx.Tx, row dbsqlc.Webhook) error {
		w = s.shown(row)
		if err := c.Expect.Check(w); err != nil {
			return err
		}
		fields := w.apply(c, s.now())
		if len(fields) == 0 {
			return nil
		}
		b := &db.Batch{}
		remembers := row.DisabledReason != nil && row.DisabledAt != nil && row.DisabledAt.After(s.now().Add(-event.Recoverable))
		if w.Enabled && !row.Enabled && !remembers {
			db.QueueExec(b, s.q.ForgoEvents, dbsqlc.ForgoEventsParams{TenantID: who.TenantID, ID: id})
		}
		db.QueueExec(b, s.q.UpdateWebhook, dbsqlc.UpdateWebhookParams{
			TenantID: who.TenantID, ID: id, Url: w.URL, Events: w.Events, Description: w.Description, Enabled: w.Enabled,
			DisabledAt: w.DisabledAt, DisabledReason: db.Optional(string(w.DisabledReason)), Now: w.UpdatedAt,
		})
		audit.Queue(b, changed(who, audit.WebhookUpdated, id).With(map[string]any{"fields": fields, "origin": originOf(w.URL), "events": w.Events, "enabled": w.Enabled}))
		return b.SendIn(ctx, tx)
	})
	if err != nil {
		return Webhook{}, err
	}
	return w, nil
}

func (s *Service) check(c Change) error {
	var errs []error
	if c.URL != nil {
		errs = append(errs, s.checkURL(*c.URL))
	}
	if c.Events != nil {
		errs = append(errs, checkEvents(c.Events))
	}
	if c.Description != nil {
		errs = append(errs, checkDescription(*c.Description))
	}
	return errors.Join(errs...)
}

// apply changes the webhook and returns the names of the fields that differ.
func (w *Webhook) apply(c Change, now time.Time) (fields []string) {
	if c.URL != nil && *c.URL != w.URL {
		w.URL, fields = *c.URL, append(fields, "url")
	}
	if c.Events != nil && !slices.Equal(c.Events, w.Events) {
		w.Events, fields = c.Events, append(fields, "events")
	}
	if c.Description != nil && *c.Description != w.Description {
		w.Description, fields = *c.Description, append(fields, "description")
	}
	if c.Enabled != nil && *c.Enabled != w.Enabled {
		w.Enabled, w.DisabledAt, w.DisabledReason, fields = *c.Enabled, nil, "", append(fields, "enabled")
		if !w.Enabled {
			w.DisabledAt = &now
		}
	}
	if len(fields) > 0 {
		w.UpdatedAt = now
	}
	return fields
}

// Rotate gives a webhook another secret, which the result has this once. supplied is nil where one
// is generated. The secret before signs too for a day, and the one before that no longer. It
// refuses with WEBHOOK_NOT_FOUND.
func (s *Service) Rotate(ctx context.Context, who actor.Actor, id uuid.UUID, supplied *string) (Webhook, error) {
	sec := newSecret()
	if supplied != nil {
		var err error
		if sec, err = parseSecret(*supplied); err != nil {
			return Webhook{}, err
		}
	}
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return Webhook{}, fmt.Errorf("webhook: %w", err)
	}
	var w Webhook
	err = s.locked(ctx, who, id, func(tx pgx.Tx, row dbsqlc.Webhook) error {
		now := s.now()
		until := now.Add(overlap)
		w = s.shown(row)
		w.Secret, w.RotatedAt, w.PreviousUntil, w.UpdatedAt = sec.text, &now, &until, now
		b := &db.Batch{}
		idempotency.Queue(ctx, b, id.String())
		db.QueueExec(b, s.q.RotateWebhookSecret, dbsqlc.RotateWebhookSecretParams{
			TenantID: who.TenantID, ID: id, Secret: sec.seal(key, who.TenantID, id), PreviousUntil: until, Now: now,
		})
		audit.Queue(b, changed(who, audit.WebhookRotated, id).With(map[string]any{"previous_until": until}))
		return b.SendIn(ctx, tx)
	})
	if err != nil {
		return Webhook{}, err
	}
	return w, nil
}

// Delete removes a webhook. Its deliveries under way end, and are forgotten with their events. A
// second time is WEBHOOK_NOT_FOUND. expect is asked about the webhook before.
func (s *Service) Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[Webhook]) error {
	return s.locked(ctx, who, id, func(tx pgx.Tx, row dbsqlc.Webhook) error {
		if err := expect.Check(s.shown(row)); err != nil {
			return err
		}
		if _, err := s.q.DeleteWebhook(ctx, tx, dbsqlc.DeleteWebhookParams{TenantID: who.TenantID, ID: id}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, changed(who, audit.WebhookDeleted, id))
	})
}

// locked runs change in a transaction in which nothing else changes the webhook.
func (s *Service) locked(ctx context.Context, who actor.Actor, id uuid.UUID, change func(pgx.Tx, dbsqlc.Webhook) error) error {
	return s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := s.q.LockWebhook(ctx, tx, dbsqlc.LockWebhookParams{TenantID: who.TenantID, ID: id})
		switch {
		case db.IsNoRows(err):
			return notFound()
		case err != nil:
			return fmt.Errorf("webhook: lock: %w", err)
		}
		if err := change(tx, row); err != nil {
			return fmt.Errorf("webhook: change: %w", err)
		}
		return nil
	})
}
