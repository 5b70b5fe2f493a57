package api

import (
	"context"

	"agentruntime/internal/action/policy"
)

// maskingBody is what a tenant has masked besides what looks secret.
type maskingBody struct {
	Paths []policy.MaskPath `json:"paths"`
}

func (s *Server) getMasking(ctx context.Context, c *call) (reply, error) {
	paths, err := s.Policies.Masking(ctx, c.who.TenantID)
	if err != nil {
		return reply{}, err
	}
	return ok(maskingBody{list(paths)}), nil
}

func (s *Server) putMasking(ctx context.Context, c *call) (reply, error) {
	var b maskingBody
	if err := c.decodeExact(&b); err != nil {
		return reply{}, err
	}
	var v problems
	if b.Paths == nil {
		v.add("/paths", "required", "paths is required: a list, [] for none.")
	}
	if err := v.err(); err != nil {
		return reply{}, err
	}
	paths, err := s.Policies.SetMasking(ctx, c.who.TenantID, b.Paths)
	if err != nil {
		return reply{}, err
	}
	return ok(maskingBody{list(paths)}), nil
}
