package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
)

// grantView is an approval that was given in advance.
type grantView struct {
	ID         uuid.UUID              `json:"id"`
	Status     string                 `json:"status"`
	Verb       string                 `json:"verb"`
	Provider   string                 `json:"provider"`
	Conditions []governance.Condition `json:"conditions"`
	APIKeyID   *uuid.UUID             `json:"api_key_id"`
	AgentID    *string                `json:"agent_id"`
	CustomerID *string                `json:"customer_id"`
	MapID      *uuid.UUID             `json:"map_id"`
	Reason     string                 `json:"reason"`
	CreatedBy  string                 `json:"created_by"`
	CreatedAt  time.Time              `json:"created_at"`
	ExpiresAt  time.Time              `json:"expires_at"`
	MaxUses    int32                  `json:"max_uses"`
	Uses       int32                  `json:"uses"`
	RevokedAt  *time.Time             `json:"revoked_at"`
	RevokedBy  *string                `json:"revoked_by"`
	Warnings   []desk.GrantWarning    `json:"warnings"`

	repeatMark
}

func viewGrant(g desk.Grant, now time.Time) grantView {
	return grantView{
		ID: g.ID, Status: g.Status(now), Verb: g.Verb.String(), Provider: g.Verb.Provider, Conditions: wire.Array(g.Conditions),
		APIKeyID: g.KeyID, AgentID: g.AgentID, CustomerID: g.CustomerID, MapID: g.MapID, Reason: g.Reason, CreatedBy: *byUser(&g.CreatedBy), CreatedAt: g.CreatedAt,
		ExpiresAt: g.ExpiresAt, MaxUses: g.MaxUses, Uses: g.Uses, RevokedAt: g.RevokedAt, RevokedBy: byUser(g.RevokedBy), Warnings: wire.Array(g.Warnings()),
	}
}

type grantBody struct {
	Verb       *string         `json:"verb"`
	Conditions []conditionBody `json:"conditions"`
	APIKeyID   *string         `json:"api_key_id"`
	AgentID    *string         `json:"agent_id"`
	CustomerID *string         `json:"customer_id"`
	MapID      *string         `json:"map_id"`
	ExpiresAt  *string         `json:"expires_at"`
	MaxUses    *int32          `json:"max_uses"`
	Reason     *string         `json:"reason"`
}

// grant checks the form of the body. The domain judges its content.
func (b grantBody) grant() (desk.NewGrant, error) {
	var v wire.Validation
	g := desk.NewGrant{
		Verb: v.Text("/verb", b.Verb, 255), Reason: v.Text("/reason", b.Reason, maxReason),
		Conditions: make([]governance.Condition, len(b.Conditions)), AgentID: b.AgentID, CustomerID: b.CustomerID,
	}
	for i, c := range b.Conditions {
		g.Conditions[i] = governance.Condition(c)
	}
	v.OptionalText("/agent_id", b.AgentID, 1, 255)
	v.OptionalText("/customer_id", b.CustomerID, 1, 255)
	if b.APIKeyID != nil {
		id, err := uuid.Parse(*b.APIKeyID)
		if err != nil {
			v.Add("/api_key_id", "format", "api_key_id is the id of an API key.")
		}
		g.KeyID = &id
	}
	if b.MapID != nil {
		id, err := uuid.Parse(*b.MapID)
		if err != nil {
			v.Add("/map_id", "format", "map_id is the id of a Map.")
		}
		g.MapID = &id
	}
	if b.MaxUses == nil {
		v.Add("/max_uses", "required", "max_uses is required: it is how many calls the grant lets through.")
	} else {
		g.MaxUses = *b.MaxUses
	}
	g.ExpiresAt = v.Time("/expires_at", b.ExpiresAt)
	return g, v.Err()
}

func (h *approvalHandlers) createGrant(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b grantBody
	if err := c.DecodeExact(&b, conditionValues); err != nil {
		return wire.Reply{}, err
	}
	in, err := b.grant()
	if err != nil {
		return wire.Reply{}, err
	}
	g, err := h.approvals.CreateGrant(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, h.suggestions.suggest(ctx, c, in.Verb, err)
	}
	return wire.Created("/v1/grants/"+g.ID.String(), viewGrant(g, h.now())), nil
}

func (h *approvalHandlers) getGrant(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	g, err := h.approvals.GetGrant(ctx, c.Actor.TenantID, c.ID())
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(viewGrant(g, h.now())), nil
}

type grantPatch struct {
	ExpiresAt *string `json:"expires_at"`
	MaxUses   *int32  `json:"max_uses"`
}

func (h *approvalHandlers) patchGrant(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b grantPatch
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	p := desk.GrantPatch{MaxUses: b.MaxUses, Expect: wire.Expect(c, h.grantTag)}
	if b.ExpiresAt != nil {
		var v wire.Validation
		at := v.Time("/expires_at", b.ExpiresAt)
		if err := v.Err(); err != nil {
			return wire.Reply{}, err
		}
		p.ExpiresAt = &at
	}
	g, err := h.approvals.NarrowGrant(ctx, c.Actor, c.ID(), p)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(viewGrant(g, h.now())), nil
}

func (h *approvalHandlers) grantTag(g desk.Grant) string { return wire.ViewTag(viewGrant(g, h.now())) }

func (h *approvalHandlers) revokeGrant(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.approvals.RevokeGrant(ctx, c.Actor, c.ID(), wire.Expect(c, h.grantTag)))
}

func (h *approvalHandlers) listGrants(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, err := grantFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	grants, more, err := h.approvals.Grants(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, grants, more, func(g desk.Grant) grantView { return viewGrant(g, h.now()) }, func(g desk.Grant) uuid.UUID { return g.ID }), nil
}

func grantFilter(c *wire.Call) (f desk.GrantFilter, err error) {
	if f.Limit, f.Before, err = c.PageByID(); err != nil {
		return f, err
	}
	var v wire.Validation
	f.Provider = v.QueryText(c, "provider")
	if f.Usable, err = c.QueryBool("usable"); err != nil {
		return f, err
	}
	if name, given, err := c.QueryVerb(); err != nil {
		return f, err
	} else if given {
		f.Provider, f.Verb = name.Provider, name.Verb
	}
	return f, v.Err()
}
