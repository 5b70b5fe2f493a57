package api

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/action/approval"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
)

// grantView is an approval that was given in advance.
type grantView struct {
	ID         uuid.UUID              `json:"id"`
	Status     string                 `json:"status"`
	Verb       string                 `json:"verb"`
	Provider   string                 `json:"provider"`
	Conditions []governance.Condition `json:"conditions"`
	KeyID      *uuid.UUID             `json:"key_id"`
	AgentID    *string                `json:"agent_id"`
	CustomerID *string                `json:"customer_id"`
	Reason     string                 `json:"reason"`
	CreatedBy  uuid.UUID              `json:"created_by"`
	CreatedAt  time.Time              `json:"created_at"`
	ExpiresAt  time.Time              `json:"expires_at"`
	MaxUses    int32                  `json:"max_uses"`
	Uses       int32                  `json:"uses"`
	RevokedAt  *time.Time             `json:"revoked_at"`
	RevokedBy  *uuid.UUID             `json:"revoked_by"`
}

func (s *Server) viewGrant(g approval.Grant) grantView {
	return grantView{
		ID: g.ID, Status: g.Status(s.Now()), Verb: g.Verb.String(), Provider: g.Verb.Provider, Conditions: list(g.Conditions),
		KeyID: g.KeyID, AgentID: g.AgentID, CustomerID: g.CustomerID, Reason: g.Reason, CreatedBy: g.CreatedBy, CreatedAt: g.CreatedAt,
		ExpiresAt: g.ExpiresAt, MaxUses: g.MaxUses, Uses: g.Uses, RevokedAt: g.RevokedAt, RevokedBy: g.RevokedBy,
	}
}

type grantBody struct {
	Verb       *string         `json:"verb"`
	Conditions []conditionBody `json:"conditions"`
	KeyID      *string         `json:"key_id"`
	AgentID    *string         `json:"agent_id"`
	CustomerID *string         `json:"customer_id"`
	ExpiresAt  *string         `json:"expires_at"`
	MaxUses    *int32          `json:"max_uses"`
	Reason     *string         `json:"reason"`
}

// grant reads what has a form; the domain judges the content.
func (b grantBody) grant() (approval.NewGrant, error) {
	var v problems
	g := approval.NewGrant{
		Verb: v.text("/verb", b.Verb, 255), Reason: v.text("/reason", b.Reason, maxReason),
		Conditions: make([]governance.Condition, len(b.Conditions)), AgentID: b.AgentID, CustomerID: b.CustomerID,
	}
	for i, c := range b.Conditions {
		g.Conditions[i] = governance.Condition(c)
	}
	v.optionalText("/agent_id", b.AgentID, 1, 255)
	v.optionalText("/customer_id", b.CustomerID, 1, 255)
	if b.KeyID != nil {
		id, err := uuid.Parse(*b.KeyID)
		if err != nil {
			v.add("/key_id", "format", "key_id is the id of an API key.")
		}
		g.KeyID = &id
	}
	if b.MaxUses == nil {
		v.add("/max_uses", "required", "max_uses is required: a grant is for so many calls and no more.")
	} else {
		g.MaxUses = *b.MaxUses
	}
	g.ExpiresAt = v.instant("/expires_at", b.ExpiresAt)
	return g, v.err()
}

// instant requires an RFC 3339 time.
func (v *problems) instant(path string, s *string) time.Time {
	if s == nil {
		v.add(path, "required", path[1:]+" is required.")
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, *s)
	if err != nil {
		v.add(path, "format", path[1:]+" is a time as in RFC 3339, for example 2026-01-31T09:00:00Z.")
	}
	return t
}

func (s *Server) createGrant(ctx context.Context, c *call) (reply, error) {
	var b grantBody
	if err := c.decodeExact(&b, conditionValues); err != nil {
		return reply{}, err
	}
	in, err := b.grant()
	if err != nil {
		return reply{}, err
	}
	g, err := s.Approvals.CreateGrant(ctx, c.approver(), in)
	if err != nil {
		return reply{}, err
	}
	return created("/v1/grants/"+g.ID.String(), s.viewGrant(g)), nil
}

func (s *Server) getGrant(ctx context.Context, c *call) (reply, error) {
	g, err := s.Approvals.GetGrant(ctx, c.who.TenantID, c.id())
	if err != nil {
		return reply{}, err
	}
	return ok(s.viewGrant(g)), nil
}

func (s *Server) revokeGrant(ctx context.Context, c *call) (reply, error) {
	g, err := s.Approvals.RevokeGrant(ctx, c.approver(), c.id())
	if err != nil {
		return reply{}, err
	}
	return ok(s.viewGrant(g)), nil
}

func (s *Server) listGrants(ctx context.Context, c *call) (reply, error) {
	f, err := c.grantFilter()
	if err != nil {
		return reply{}, err
	}
	grants, more, err := s.Approvals.Grants(ctx, c.who.TenantID, f)
	if err != nil {
		return reply{}, err
	}
	views := make([]grantView, len(grants))
	var last uuid.UUID
	for i, g := range grants {
		views[i], last = s.viewGrant(g), g.ID
	}
	return reply{data: views, page: pageOf(f.Limit, more, last)}, nil
}

func (c *call) grantFilter() (f approval.GrantFilter, err error) {
	if f.Limit, err = c.limit(); err != nil {
		return f, err
	}
	if f.Before, err = c.cursor(); err != nil {
		return f, err
	}
	var v problems
	f.Provider = v.queryText(c, "provider")
	if raw, given := c.query("usable"); given {
		usable := strings.EqualFold(raw, "true")
		if !usable && !strings.EqualFold(raw, "false") {
			return f, fault.Invalid("query.usable", "enum", "usable is true or false.")
		}
		f.Usable = &usable
	}
	if raw, given := c.query("verb"); given {
		name, err := verb.Parse(raw)
		if err != nil {
			return f, err
		}
		f.Provider, f.Verb = name.Provider, name.Verb
	}
	return f, v.err()
}
