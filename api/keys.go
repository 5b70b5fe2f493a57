package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/tenant/account"
)

// Keys is what the API-key endpoints need of the account domain.
type Keys interface {
	CreateKey(ctx context.Context, who actor.Actor, in account.KeyInput) (account.Key, error)
	ListKeys(ctx context.Context, tenant uuid.UUID, status string) ([]account.Key, error)
	RevokeKey(ctx context.Context, who actor.Actor, id string) error
}

// keyView is an API key. Key is the secret in the response that creates it, and the masked
// preview in all others.
type keyView struct {
	ID             uuid.UUID  `json:"id"`
	Key            string     `json:"key"`
	Name           string     `json:"name"`
	Status         string     `json:"status"`
	Permissions    []string   `json:"permissions"`
	AgentID        *string    `json:"agent_id"`
	IdentityMode   *string    `json:"identity_mode"`
	AllowedOrigins []string   `json:"allowed_origins"`
	CreatedAt      time.Time  `json:"createdAt"`
	LastUsedAt     *time.Time `json:"lastUsedAt"`
	RevokedAt      *time.Time `json:"revoked_at,omitempty"`
}

func viewKey(k account.Key) keyView {
	v := keyView{
		ID: k.ID, Key: k.Preview, Name: k.Name, Status: k.Status, Permissions: wire.Array(k.Permissions),
		AgentID: k.AgentID, IdentityMode: k.IdentityMode, AllowedOrigins: wire.Array(k.AllowedOrigins),
		CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt, RevokedAt: k.RevokedAt,
	}
	if k.Secret != "" {
		v.Key = k.Secret
	}
	return v
}

type keyBody struct {
	Name           *string  `json:"name"`
	Permissions    []string `json:"permissions"`
	AgentID        *string  `json:"agent_id"`
	IdentityMode   *string  `json:"identity_mode"`
	AllowedOrigins []string `json:"allowed_origins"`
}

func (s *Server) createKey(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b keyBody
	if err := c.Decode(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := account.KeyInput{
		Name: v.Required("/name", b.Name), Permissions: b.Permissions,
		AgentID: b.AgentID, IdentityMode: b.IdentityMode, AllowedOrigins: b.AllowedOrigins,
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	key, err := s.deps.Keys.CreateKey(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Created("/v1/api-keys/"+key.ID.String(), viewKey(key)), nil
}

// listKeys answers with an array without pages, as the specification shows.
func (s *Server) listKeys(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	status, _ := c.Query("status")
	keys, err := s.deps.Keys.ListKeys(ctx, c.Actor.TenantID, status)
	if err != nil {
		return wire.Reply{}, err
	}
	views := make([]keyView, len(keys))
	for i, k := range keys {
		views[i] = viewKey(k)
	}
	return wire.OK(views), nil
}

func (s *Server) revokeKey(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	if err := s.deps.Keys.RevokeKey(ctx, c.Actor, c.Param("id")); err != nil {
		return wire.Reply{}, err
	}
	return wire.Deleted(), nil
}
