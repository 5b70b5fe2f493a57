package api

import (
	"context"
	"encoding/json"
	"net/http"

	"agentruntime/api/wire"
	"agentruntime/internal/provider/correction"
	"agentruntime/internal/service/importing"
)

type providerPatch struct {
	Name    *string           `json:"name"`
	Domain  *string           `json:"domain"`
	BaseURL *string           `json:"base_url"`
	Auth    *importAuth       `json:"auth"`
	Rules   []correction.Rule `json:"rules"`
	Overlay json.RawMessage   `json:"overlay"`
	Trust   *string           `json:"trust"`
	importServers
}

// others reports whether the patch has members besides trust.
func (b providerPatch) others() bool {
	return b.Name != nil || b.Domain != nil || b.BaseURL != nil || b.Auth != nil || b.Rules != nil || b.Overlay != nil || b.Servers != nil || b.Variables != nil
}

// change checks the form of the patch.
func (b providerPatch) change() (importing.Patch, error) {
	var v wire.Validation
	v.OptionalText("/name", b.Name, 1, 255)
	v.OptionalText("/domain", b.Domain, 1, 64)
	v.OptionalText("/base_url", b.BaseURL, 1, 2048)
	p := importing.Patch{Name: b.Name, Domain: b.Domain, BaseURL: b.BaseURL, Auth: b.Auth.input(&v), Rules: b.Rules, Overlay: b.Overlay}
	p.Servers, p.ServerVariables = b.where(&v)
	return p, v.Err()
}

func (h *providerHandlers) patchProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b providerPatch
	if err := c.DecodeExact(&b, "/overlay", "/server_variables", freeInRules); err != nil {
		return wire.Reply{}, err
	}
	if b.Trust != nil {
		return h.trustProvider(ctx, c, b)
	}
	change, err := b.change()
	if err != nil {
		return wire.Reply{}, err
	}
	change.Expect = wire.Expect(c, providerTag)
	change.Room = func(size int64) error { return h.uploads.room(ctx, c, size) }
	p, err := h.importer.Update(ctx, c.Actor, c.Param("slug"), change)
	if err != nil {
		return wire.Reply{}, err
	}
	view, err := h.viewImported(ctx, c, p)
	rep := wire.OK(view)
	rep.Header = http.Header{"Etag": {providerTag(p)}} // the one that a GET has
	return rep, err
}
