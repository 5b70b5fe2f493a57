package api

import (
	"context"

	"agentruntime/api/wire"
	"agentruntime/internal/action/policy"
)

// maskingBody lists the paths that a tenant masks besides all that looks secret.
type maskingBody struct {
	Paths []policy.MaskPath `json:"paths"`
}

func viewMasking(paths []policy.MaskPath) maskingBody { return maskingBody{wire.Array(paths)} }

func maskingTag(paths []policy.MaskPath) string { return wire.ViewTag(viewMasking(paths)) }

func (h *policyHandlers) getMasking(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	paths, err := h.policies.Masking(ctx, c.Actor.TenantID)
	return wire.Answer(viewMasking, paths, err)
}

func (h *policyHandlers) putMasking(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b maskingBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	if b.Paths == nil {
		v.Add("/paths", "required", "paths is required: a list, [] for none.")
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	paths, err := h.policies.SetMasking(ctx, c.Actor, b.Paths, wire.Expect(c, maskingTag))
	return wire.Answer(viewMasking, paths, err)
}
