package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/account"
)

// Keys is what the API-key endpoints need of the account domain.
type Keys interface {
	CreateKey(ctx context.Context, who actor.Actor, in account.KeyInput) (account.Key, error)
	GetKey(ctx context.Context, tenant uuid.UUID, id string) (account.Key, error)
	ListKeys(ctx context.Context, tenant uuid.UUID, status string) ([]account.Key, error)
	ChangeKey(ctx context.Context, who actor.Actor, id string, c account.KeyChange) (account.Key, error)
	RotateIdentitySecret(ctx context.Context, who actor.Actor, id string, overlap time.Duration) (account.Key, error)
	RotateKey(ctx context.Context, who actor.Actor, id string, overlap time.Duration) (account.Key, error)
	RevokeKey(ctx context.Context, who actor.Actor, id string, expect fault.Expect[account.Key]) error
}

// keyView is an API key. Key is the secret in the response that creates or rotates it, and the
// masked preview in all others.
type keyView struct {
	ID           uuid.UUID `json:"id"`
	Key          string    `json:"key"`
	Name         string    `json:"name"`
	Status       string    `json:"status"`
	Permissions  []string  `json:"permissions"`
	AgentID      *string   `json:"agent_id"`
	IdentityMode *string   `json:"identity_mode"`
	// IdentityVerification: customers only with identity_hash. IdentitySecret is shown once.
	IdentityVerification bool       `json:"identity_verification"`
	IdentitySecret       *string    `json:"identity_secret,omitempty"`
	AllowedOrigins       []string   `json:"allowed_origins"`
	AllowedIPs           []string   `json:"allowed_ips"`
	Limits               keyLimits  `json:"limits"`
	CreatedBy            string     `json:"created_by"`
	CreatedAt            time.Time  `json:"createdAt"`
	LastUsedAt           *time.Time `json:"lastUsedAt"`
	ExpiresAt            *time.Time `json:"expires_at"`
	RotatedAt            *time.Time `json:"rotated_at"`
	PreviousUntil        *time.Time `json:"previous_until"`
	RevokedAt            *time.Time `json:"revoked_at"`

	repeatMark
}

func viewKey(k account.Key) keyView {
	v := keyView{
		ID: k.ID, Key: k.Preview, Name: k.Name, Status: k.Status, Permissions: wire.Array(k.Permissions),
		AgentID: k.AgentID, IdentityMode: k.IdentityMode, IdentityVerification: k.IdentityVerification, IdentitySecret: textOrNull(k.IdentitySecret), AllowedOrigins: wire.Array(k.AllowedOrigins),
		AllowedIPs: wire.Array(k.AllowedIPs), Limits: viewKeyLimits(k.Limits), CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt,
		ExpiresAt: k.ExpiresAt, RotatedAt: k.RotatedAt, PreviousUntil: k.PreviousUntil, RevokedAt: k.RevokedAt,
	}
	if k.Secret != "" {
		v.Key = k.Secret
	}
	return v
}

// Steady makes the ETag without the time of the last use.
func (v keyView) Steady() any {
	v.LastUsedAt = nil
	return v
}

func keyTag(k account.Key) string { return wire.ViewTag(viewKey(k)) }

type keyBody struct {
	Name                 *string         `json:"name"`
	Permissions          []string        `json:"permissions"`
	AgentID              *string         `json:"agent_id"`
	IdentityMode         *string         `json:"identity_mode"`
	IdentityVerification bool            `json:"identity_verification"`
	AllowedOrigins       []string        `json:"allowed_origins"`
	AllowedIPs           []string        `json:"allowed_ips"`
	Limits               json.RawMessage `json:"limits"`
	ExpiresAt            *string         `json:"expires_at"`
}

func (h *accountHandlers) createKey(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b keyBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := account.KeyInput{
		Name: v.Required("/name", b.Name), Permissions: b.Permissions,
		AgentID: b.AgentID, IdentityMode: b.IdentityMode, IdentityVerification: b.IdentityVerification, AllowedOrigins: b.AllowedOrigins, AllowedIPs: b.AllowedIPs,
	}
	own, err := readKeyLimits(b.Limits)
	if err != nil {
		return wire.Reply{}, err
	}
	if own != nil {
		in.Limits = *own
	}
	if b.ExpiresAt != nil {
		at := v.Time("/expires_at", b.ExpiresAt)
		in.ExpiresAt = &at
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	key, err := h.keys.CreateKey(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Created("/v1/api-keys/"+key.ID.String(), viewKey(key)), nil
}

// listKeys answers with an array without pages, as the specification shows.
func (h *accountHandlers) listKeys(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	status, _ := c.Query("status")
	keys, err := h.keys.ListKeys(ctx, c.Actor.TenantID, status)
	if err != nil {
		return wire.Reply{}, err
	}
	views := make([]keyView, len(keys))
	for i, k := range keys {
		views[i] = viewKey(k)
	}
	return wire.OK(views), nil
}

func (h *accountHandlers) getKey(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	key, err := h.keys.GetKey(ctx, c.Actor.TenantID, c.Param("id"))
	return wire.Answer(viewKey, key, err)
}

type keyPatch struct {
	Name           *string         `json:"name"`
	Permissions    []string        `json:"permissions"`
	AllowedOrigins []string        `json:"allowed_origins"`
	AllowedIPs     []string        `json:"allowed_ips"`
	Limits         json.RawMessage `json:"limits"`
	ExpiresAt      json.RawMessage `json:"expires_at"` // null differs from absent
}

// change checks the form of the patch.
func (b keyPatch) change() (account.KeyChange, error) {
	change := account.KeyChange{Name: b.Name, Permissions: b.Permissions, AllowedOrigins: b.AllowedOrigins, AllowedIPs: b.AllowedIPs}
	own, err := readKeyLimits(b.Limits)
	if err != nil {
		return change, err
	}
	change.Limits = own
	if len(b.ExpiresAt) == 0 {
		return change, nil
	}
	var v wire.Validation
	var at *time.Time
	if string(b.ExpiresAt) != "null" {
		var text string
		_ = json.Unmarshal(b.ExpiresAt, &text) // what is no text stays "", which is no time
		parsed := v.Time("/expires_at", &text)
		at = &parsed
	}
	change.ExpiresAt = &at
	return change, v.Err()
}

func (h *accountHandlers) patchKey(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b keyPatch
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	change, err := b.change()
	if err != nil {
		return wire.Reply{}, err
	}
	change.Expect = wire.Expect(c, keyTag)
	key, err := h.keys.ChangeKey(ctx, c.Actor, c.Param("id"), change)
	return wire.Answer(viewKey, key, err)
}

type keyRotation struct {
	OverlapSeconds *int64 `json:"overlap_seconds"`
}

// overlapOf reads how long the secret before a rotation stays valid.
func overlapOf(c *wire.Call) (overlap time.Duration, err error) {
	var b keyRotation
	if err := c.DecodeOptional(&b); err != nil {
		return 0, err
	}
	if b.OverlapSeconds != nil {
		most := int64(account.MaxOverlap / time.Second)
		if *b.OverlapSeconds < 0 || *b.OverlapSeconds > most {
			return 0, fault.Invalid("/overlap_seconds", "maximum", fmt.Sprintf("overlap_seconds is a whole number from 0 to %d.", most))
		}
		overlap = time.Duration(*b.OverlapSeconds) * time.Second
	}
	return overlap, nil
}

// rotateIdentitySecret makes another identity secret for a key.
func (h *accountHandlers) rotateIdentitySecret(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	overlap, err := overlapOf(c)
	if err != nil {
		return wire.Reply{}, err
	}
	key, err := h.keys.RotateIdentitySecret(ctx, c.Actor, c.Param("id"), overlap)
	return wire.Answer(viewKey, key, err)
}

func (h *accountHandlers) rotateKey(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	overlap, err := overlapOf(c)
	if err != nil {
		return wire.Reply{}, err
	}
	key, err := h.keys.RotateKey(ctx, c.Actor, c.Param("id"), overlap)
	return wire.Answer(viewKey, key, err)
}

func (h *accountHandlers) revokeKey(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.keys.RevokeKey(ctx, c.Actor, c.Param("id"), wire.Expect(c, keyTag)))
}
