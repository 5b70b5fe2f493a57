package api

import (
	"context"
	"fmt"
	"net/http"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
)

// trustOf reads whose words results are; nil where nothing is said.
func trustOf(v *wire.Validation, text *string) *verb.Trust {
	if text == nil {
		return nil
	}
	trust := verb.Trust(*text)
	if trust != verb.Own && trust != verb.External {
		v.Add("/trust", "enum", near.Enum("trust", trust, verb.Own, verb.External))
	}
	return &trust
}

// trustProvider says whose words the results of a provider are. It is a change of its own: an import
// ends the trust of what it changes.
func (h *providerHandlers) trustProvider(ctx context.Context, c *wire.Call, b providerPatch) (wire.Reply, error) {
	var v wire.Validation
	trust := trustOf(&v, b.Trust)
	if b.others() {
		v.Add("/trust", "alone", "Change trust in a call of its own: another address or other verbs end it.")
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	p, err := h.providers.Trust(ctx, c.Actor, c.Param("slug"), *trust, wire.Expect(c, providerTag))
	if err != nil {
		return wire.Reply{}, err
	}
	view, err := h.viewImported(ctx, c, p)
	rep := wire.OK(view)
	rep.Header = http.Header{"Etag": {providerTag(p)}}
	return rep, err
}

// trustVerb changes what the tenant says of a verb: whose words its results are, which places taint all the
// same, and whether it reaches an address of the caller's choice.
func (h *providerHandlers) trustVerb(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b struct {
		Trust  *string   `json:"trust"`
		Taint  *[]string `json:"taint"`
		Egress *bool     `json:"egress"`
	}
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	trust := trustOf(&v, b.Trust)
	var places []string
	if b.Taint != nil {
		if places = append([]string{}, *b.Taint...); len(places) > taint.MaxPlaces {
			v.Add("/taint", "maxItems", fmt.Sprintf("taint has at most %d places.", taint.MaxPlaces))
		}
		for i, place := range places[:min(len(places), taint.MaxPlaces)] {
			if err := taint.CheckPlace(place); err != nil {
				v.Add(fmt.Sprintf("/taint/%d", i), "pointer", "A place "+err.Error()+".")
			}
		}
	}
	if trust == nil && places == nil && b.Egress == nil {
		v.Add("", "minProperties", "Say at least one of trust, taint and egress.")
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	name, err := verbOfPath(c)
	if err != nil {
		return wire.Reply{}, err
	}
	changed, err := h.catalog.TrustVerb(ctx, c.Actor, name, catalog.Said{Trust: trust, Places: places, Egress: b.Egress})
	return wire.Answer(viewVerb, changed, err)
}

// verbOfPath returns the verb that the path names.
func verbOfPath(c *wire.Call) (verb.Name, error) {
	name, err := verb.Parse(c.Param("slug") + ":" + c.Param("name"))
	switch {
	case err == nil:
		return name, nil
	case !verb.ValidSlug(c.Param("slug")):
		return name, fault.New(fault.CodeProviderNotFound, "")
	default:
		return name, fault.New(fault.CodeVerbNotFound, "")
	}
}
