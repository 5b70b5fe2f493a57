package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/tenant/account"
)

// Keys is what the API-key endpoints need of the account domain.
type Keys interface {
	CreateKey(ctx context.Context, tenant, user uuid.UUID, in account.KeyInput) (account.Key, error)
	ListKeys(ctx context.Context, tenant uuid.UUID, status string) ([]account.Key, error)
	RevokeKey(ctx context.Context, tenant uuid.UUID, id string) error
}

// keyView is an API key. key is the whole secret in the answer to its creation and
// the masked preview everywhere else.
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
		ID: k.ID, Key: k.Preview, Name: k.Name, Status: k.Status, Permissions: list(k.Permissions),
		AgentID: k.AgentID, IdentityMode: k.IdentityMode, AllowedOrigins: list(k.AllowedOrigins),
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

func (s *Server) createKey(ctx context.Context, c *call) (reply, error) {
	var b keyBody
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	var v problems
	in := account.KeyInput{
		Name: v.present("/name", b.Name), Permissions: b.Permissions,
		AgentID: b.AgentID, IdentityMode: b.IdentityMode, AllowedOrigins: b.AllowedOrigins,
	}
	if err := v.err(); err != nil {
		return reply{}, err
	}
	key, err := s.Keys.CreateKey(ctx, c.who.TenantID, c.who.UserID, in)
	if err != nil {
		return reply{}, err
	}
	return created("/v1/api-keys/"+key.ID.String(), viewKey(key)), nil
}

// listKeys answers with a bare array: the specification shows no pages here.
func (s *Server) listKeys(ctx context.Context, c *call) (reply, error) {
	status, _ := c.query("status")
	keys, err := s.Keys.ListKeys(ctx, c.who.TenantID, status)
	if err != nil {
		return reply{}, err
	}
	views := make([]keyView, len(keys))
	for i, k := range keys {
		views[i] = viewKey(k)
	}
	return ok(views), nil
}

func (s *Server) revokeKey(ctx context.Context, c *call) (reply, error) {
	if err := s.Keys.RevokeKey(ctx, c.who.TenantID, c.param("id")); err != nil {
		return reply{}, err
	}
	return ok(map[string]bool{"deleted": true}), nil
}
