package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/tenant/account"
)

// Self is what the endpoints about the caller need of the account domain.
type Self interface {
	Me(ctx context.Context, who actor.Actor, session uuid.UUID) (account.Identity, error)
	Sessions(ctx context.Context, who actor.Actor) ([]account.Session, error)
	EndSession(ctx context.Context, who actor.Actor, session uuid.UUID) error
	EndOtherSessions(ctx context.Context, who actor.Actor, keep uuid.UUID) error
	ChangePassword(ctx context.Context, who actor.Actor, session uuid.UUID, in account.NewPassword) error
}

// meView is the caller. The members that a caller of its type has not are null.
type meView struct {
	Type    actor.Kind   `json:"type"`
	Tenant  tenantView   `json:"tenant"`
	User    *meUser      `json:"user"`
	Session *sessionView `json:"session"`
	Key     *ownKeyView  `json:"api_key"`
}

type tenantView struct {
	ID   uuid.UUID `json:"id"`
	Name *string   `json:"name"` // null for a key
}

type meUser struct {
	ID            uuid.UUID  `json:"id"`
	Email         string     `json:"email"`
	Name          string     `json:"name"`
	Role          actor.Role `json:"role"`
	EmailVerified bool       `json:"email_verified"`
}

// ownKeyView is an API key as it sees itself.
type ownKeyView struct {
	ID           uuid.UUID  `json:"id"`
	Name         string     `json:"name"`
	Permissions  []string   `json:"permissions"`
	AgentID      *string    `json:"agent_id"`
	IdentityMode *string    `json:"identity_mode"`
	ExpiresAt    *time.Time `json:"expires_at"`
}

type sessionView struct {
	ID          uuid.UUID `json:"id"`
	Current     bool      `json:"current"`
	CreatedAt   time.Time `json:"created_at"`
	RefreshedAt time.Time `json:"refreshed_at"`
	ExpiresAt   time.Time `json:"expires_at"`
}

func viewSession(s account.Session, current uuid.UUID) sessionView {
	return sessionView{ID: s.ID, Current: s.ID == current, CreatedAt: s.CreatedAt, RefreshedAt: s.RefreshedAt, ExpiresAt: s.ExpiresAt}
}

func (h *accountHandlers) me(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	me, err := h.accounts.Me(ctx, c.Actor, c.SessionID)
	if err != nil {
		return wire.Reply{}, err
	}
	v := meView{Type: c.Actor.Kind, Tenant: tenantView{ID: me.TenantID}}
	if k := me.Key; k != nil {
		v.Key = &ownKeyView{
			ID: k.ID, Name: k.Name, Permissions: wire.Array(k.Permissions), AgentID: k.AgentID, IdentityMode: k.IdentityMode, ExpiresAt: k.ExpiresAt,
		}
		return wire.OK(v), nil
	}
	v.Tenant.Name = &me.TenantName
	if me.User != nil {
		v.User = &meUser{ID: me.User.ID, Email: me.User.Email, Name: me.User.Name, Role: me.User.Role, EmailVerified: me.User.EmailVerifiedAt != nil}
	}
	if me.Session != nil {
		session := viewSession(*me.Session, c.SessionID)
		v.Session = &session
	}
	return wire.OK(v), nil
}

// listSessions answers with an array without pages: a user has few sessions.
func (h *accountHandlers) listSessions(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	sessions, err := h.accounts.Sessions(ctx, c.Actor)
	if err != nil {
		return wire.Reply{}, err
	}
	views := make([]sessionView, len(sessions))
	for i, found := range sessions {
		views[i] = viewSession(found, c.SessionID)
	}
	return wire.OK(views), nil
}

func (h *accountHandlers) endSession(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.accounts.EndSession(ctx, c.Actor, c.ID()))
}

func (h *accountHandlers) endOtherSessions(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.accounts.EndOtherSessions(ctx, c.Actor, c.SessionID))
}

type passwordBody struct {
	Current *string `json:"current_password"`
	New     *string `json:"new_password"`
}

func (h *accountHandlers) changePassword(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b passwordBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := account.NewPassword{Current: v.Required("/current_password", b.Current), New: v.Required("/new_password", b.New)}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if err := h.accounts.ChangePassword(ctx, c.Actor, c.SessionID, in); err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(map[string]bool{"changed": true}), nil
}
