package api

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/models/modelprovider"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/vault"
)

// Credentials is what the credential endpoints need of the vault.
type Credentials interface {
	Create(ctx context.Context, who actor.Actor, n vault.New) (vault.Credential, error)
	Get(ctx context.Context, tenant, id uuid.UUID) (vault.Credential, error)
	List(ctx context.Context, tenant uuid.UUID, f vault.Filter) (page []vault.Credential, more bool, err error)
	Update(ctx context.Context, who actor.Actor, id uuid.UUID, p vault.Patch) (vault.Credential, error)
	Rotate(ctx context.Context, who actor.Actor, id uuid.UUID, data json.RawMessage, expires *time.Time) (vault.Credential, error)
	Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[vault.Credential]) error
	Validate(ctx context.Context, tenant, id uuid.UUID) (c vault.Credential, usable bool, err error)
}

// credentialView is a credential without its secret, which no response ever shows.
type credentialView struct {
	ID           uuid.UUID       `json:"id"`
	Provider     string          `json:"provider"`
	Type         credential.Kind `json:"type"`
	Schemes      []schemeKind    `json:"schemes,omitempty"`
	Label        string          `json:"label"`
	CustomerID   *string         `json:"customer_id"`
	Origin       *string         `json:"origin"`
	AllowedHosts []string        `json:"allowed_hosts"`
	Status       vault.Status    `json:"status"`
	Version      int             `json:"version"`
	CreatedBy    string          `json:"created_by"`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
	LastUsedAt   *time.Time      `json:"last_used_at"`
	RotatedAt    *time.Time      `json:"rotated_at"`
	ExpiresAt    *time.Time      `json:"expires_at"`
	Warnings     []string        `json:"warnings,omitempty"`

	repeatMark
}

// schemeKind is one secret of a credential of several.
type schemeKind struct {
	Scheme string          `json:"scheme"`
	Type   credential.Kind `json:"type"`
}

func viewCredential(c vault.Credential) credentialView {
	v := credentialView{
		ID: c.ID, Provider: c.Provider, Type: c.Type, Label: c.Label, AllowedHosts: wire.Array(c.AllowedHosts), Status: c.Status,
		Version: c.Version, CreatedBy: c.CreatedBy, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
		LastUsedAt: c.LastUsedAt, RotatedAt: c.RotatedAt, ExpiresAt: c.ExpiresAt,
	}
	for _, name := range slices.Sorted(maps.Keys(c.Schemes)) {
		v.Schemes = append(v.Schemes, schemeKind{name, c.Schemes[name]})
	}
	if c.CustomerID != "" {
		v.CustomerID = &c.CustomerID
	}
	if c.Origin != "" {
		v.Origin = &c.Origin
	}
	return v
}

// Steady makes the ETag without the time of the last use.
func (v credentialView) Steady() any {
	v.LastUsedAt = nil
	return v
}

func credentialTag(c vault.Credential) string { return wire.ViewTag(viewCredential(c)) }

type credentialBody struct {
	Provider     *string         `json:"provider"`
	Type         *string         `json:"type"`
	Label        *string         `json:"label"`
	CustomerID   *string         `json:"customer_id"`
	Origin       *string         `json:"origin"`
	AllowedHosts []string        `json:"allowed_hosts"`
	Data         json.RawMessage `json:"data"`
	ExpiresAt    *string         `json:"expires_at"`
}

func (h *providerHandlers) createCredential(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b credentialBody
	if err := c.DecodeExact(&b, "/data/schemes"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	n := vault.New{
		Provider: v.Text("/provider", b.Provider, 255), Type: v.Text("/type", b.Type, 255), Label: v.OptionalText("/label", b.Label, 0, 255),
		CustomerID: v.OptionalID("/customer_id", b.CustomerID), Origin: v.OptionalText("/origin", b.Origin, 1, 300),
		AllowedHosts: b.AllowedHosts, Data: b.Data, ExpiresAt: optionalTime(&v, "/expires_at", b.ExpiresAt),
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	cred, err := h.credentials.Create(ctx, c.Actor, n)
	if err != nil {
		return wire.Reply{}, err
	}
	view := viewCredential(cred)
	if view.Warnings, err = h.unusedCredential(ctx, c.Actor.TenantID, cred.Provider); err != nil {
		c.Log.WarnContext(ctx, "a stored credential has no advice", "error", err) // it is stored all the same
	}
	return wire.Created("/v1/credentials/"+cred.ID.String(), view), nil
}

// unusedCredential warns where no call can present a credential of the provider. It is stored all the
// same: the provider may be imported later.
func (h *providerHandlers) unusedCredential(ctx context.Context, tenant uuid.UUID, provider string) ([]string, error) {
	if _, ofModel := modelprovider.SlugOf(provider); ofModel || provider == verb.ReservedSlug {
		return nil, nil
	}
	known, meant, err := h.catalog.KnownProvider(ctx, tenant, provider)
	if known || err != nil {
		return nil, err
	}
	text := "Your catalog has no provider " + provider + ". No call presents this credential until you import or enable it."
	if meant != "" {
		text += " Did you mean " + meant + "?"
	}
	return []string{text}, nil
}

func (h *providerHandlers) listCredentials(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var f vault.Filter
	limit, before, err := c.PageByID()
	if err != nil {
		return wire.Reply{}, err
	}
	f.Limit = limit
	if before != nil {
		f.Before = *before
	}
	var v wire.Validation
	f.Provider, f.Status, f.CustomerID = v.QueryText(c, "provider"), v.QueryText(c, "status"), v.QueryText(c, "customer_id")
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	credentials, more, err := h.credentials.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, credentials, more, viewCredential, func(cred vault.Credential) uuid.UUID { return cred.ID }), nil
}

func (h *providerHandlers) getCredential(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	cred, err := h.credentials.Get(ctx, c.Actor.TenantID, c.ID())
	return wire.Answer(viewCredential, cred, err)
}

type credentialPatch struct {
	Label        *string   `json:"label"`
	Origin       *string   `json:"origin"`
	AllowedHosts *[]string `json:"allowed_hosts"`
	Status       *string   `json:"status"`
	// null differs from absent: the credential no longer expires.
	ExpiresAt json.RawMessage `json:"expires_at"`
}

func (h *providerHandlers) patchCredential(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b credentialPatch
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	p := vault.Patch{Label: b.Label, Origin: b.Origin, AllowedHosts: b.AllowedHosts, Status: b.Status, Expect: wire.Expect(c, credentialTag)}
	if len(b.ExpiresAt) > 0 {
		var v wire.Validation
		var text *string
		if json.Unmarshal(b.ExpiresAt, &text) != nil {
			v.Add("/expires_at", "type", "expires_at is a time, or null.")
		}
		at := optionalTime(&v, "/expires_at", text)
		if err := v.Err(); err != nil {
			return wire.Reply{}, err
		}
		p.ExpiresAt = &at
	}
	cred, err := h.credentials.Update(ctx, c.Actor, c.ID(), p)
	return wire.Answer(viewCredential, cred, err)
}

func (h *providerHandlers) deleteCredential(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.credentials.Delete(ctx, c.Actor, c.ID(), wire.Expect(c, credentialTag)))
}

type validation struct {
	ID     uuid.UUID    `json:"id"`
	Valid  bool         `json:"valid"`
	Status vault.Status `json:"status"`
}

// validateCredential answers whether the stored credential can be decrypted and is active.
// It does not call the provider.
func (h *providerHandlers) validateCredential(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	cred, usable, err := h.credentials.Validate(ctx, c.Actor.TenantID, c.ID())
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(validation{ID: cred.ID, Valid: usable, Status: cred.Status}), nil
}

type rotation struct {
	Data      json.RawMessage `json:"data"`
	ExpiresAt *string         `json:"expires_at"`
}

func (h *providerHandlers) rotateCredential(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b rotation
	if err := c.DecodeExact(&b, "/data/schemes"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	if b.Data == nil {
		v.Add("/data", "required", "data is required.")
	}
	data := v.Object("/data", b.Data, false) // its members depend on the stored type
	expires := optionalTime(&v, "/expires_at", b.ExpiresAt)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	cred, err := h.credentials.Rotate(ctx, c.Actor, c.ID(), data, expires)
	return wire.Answer(viewCredential, cred, err)
}
