package api

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/service/tooling"
)

// Catalog is what the catalog endpoints need of the catalog domain.
type Catalog interface {
	List(ctx context.Context, tenant uuid.UUID, f catalog.Filter) (catalog.Page, error)
	Verb(ctx context.Context, tenant uuid.UUID, name verb.Name) (catalog.Verb, error)
	// Accept ends the quarantine of a verb; form is the one that the caller has seen, or "".
	Accept(ctx context.Context, who actor.Actor, name verb.Name, form string) (catalog.Verb, error)
	// Near returns what a name which the catalog does not have may mean.
	Near(ctx context.Context, tenant uuid.UUID, name verb.Name) (catalog.Meant, error)
	// KnownProvider reports whether the tenant can call a provider, and which one may be meant.
	KnownProvider(ctx context.Context, tenant uuid.UUID, slug string) (known bool, meant string, err error)
	// TrustVerb changes what the tenant says of a verb.
	TrustVerb(ctx context.Context, who actor.Actor, name verb.Name, is catalog.Said) (catalog.Verb, error)
	// Offer returns what the platform has under a slug.
	Offer(ctx context.Context, tenant uuid.UUID, slug string) (catalog.Offer, error)
}

// Tooling writes verbs as tools for chat models.
type Tooling interface {
	Tools(ctx context.Context, tenant uuid.UUID, verbs []catalog.Verb, form tooling.Form) ([]tooling.Tool, error)
}

// verbView is the catalog verb of the specification.
type verbView struct {
	Verb          string           `json:"verb"`
	Provider      string           `json:"provider"`
	Domain        string           `json:"domain"`
	Description   string           `json:"description"`
	RiskLevel     verb.Risk        `json:"risk_level"`
	OperationType verb.Operation   `json:"operation_type"`
	Idempotency   verb.Idempotency `json:"idempotency"`
	Connected     bool             `json:"connected"`
	Trust         verb.Trust       `json:"trust,omitempty"` // not in lists, as taint
	Taint         []string         `json:"taint,omitempty"`
	Egress        bool             `json:"egress,omitempty"`
	Security      []alternative    `json:"security"`
	Quarantined   bool             `json:"quarantined"`
	Quarantine    *quarantineView  `json:"quarantine,omitempty"`
	Schema        json.RawMessage  `json:"schema"`
	// ToolDefinition is that of package tooldef, in the format that was asked for. ToolOmits says what
	// of the schema it does not have.
	ToolDefinition any      `json:"tool_definition,omitempty"`
	ToolOmits      []string `json:"tool_omits,omitempty"`
}

// alternative is one way to be let in: all of these secrets together.
type alternative struct {
	Schemes []schemeView `json:"schemes"`
}

type schemeView struct {
	Scheme string   `json:"scheme,omitempty"`
	Type   string   `json:"type"`
	In     string   `json:"in,omitempty"`
	Name   string   `json:"name,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
}

// viewSecurity shows what a call presents: [] where that is nothing.
func viewSecurity(s verb.Security) []alternative {
	views := make([]alternative, len(s))
	empty := true
	for i, schemes := range s {
		views[i].Schemes = make([]schemeView, len(schemes))
		for j, scheme := range schemes {
			empty = false
			views[i].Schemes[j] = schemeView{Scheme: scheme.Name, Type: scheme.Type, In: scheme.In, Name: scheme.Wire, Scopes: strings.Fields(scheme.Scopes)}
		}
	}
	if empty {
		return []alternative{}
	}
	return views
}

func viewVerb(v catalog.Verb) verbView {
	return verbView{
		Verb: v.Name.String(), Provider: v.Name.Provider, Domain: v.Domain, Description: v.Description, RiskLevel: v.Risk,
		OperationType: v.Operation, Idempotency: v.Idempotency, Connected: v.Connected, Trust: v.Trust, Taint: v.Taint, Egress: v.Egress, Security: viewSecurity(v.Security), Schema: v.Schema,
		Quarantined: v.Quarantine != nil, Quarantine: viewQuarantine(v.Quarantine, false),
	}
}

// viewVerbs shows verbs, with their tools where form asks for them.
func (h *providerHandlers) viewVerbs(ctx context.Context, c *wire.Call, verbs []catalog.Verb, form tooling.Form) ([]verbView, error) {
	views := make([]verbView, len(verbs))
	for i, v := range verbs {
		views[i] = viewVerb(v)
	}
	if form.Format == "" {
		return views, nil
	}
	tools, err := h.tooling.Tools(ctx, c.Actor.TenantID, verbs, form)
	if err != nil {
		return nil, err
	}
	for i, t := range tools {
		views[i].ToolDefinition, views[i].ToolOmits = t.Definition, t.Omits
	}
	return views, nil
}

type verbList struct {
	Verbs              []verbView     `json:"verbs"`
	Total              int64          `json:"total"`
	ProvidersConnected []string       `json:"providers_connected"`
	Pagination         offsetPosition `json:"pagination"`
}

// offsetPosition is the pagination of the catalog, which the specification fixes.
type offsetPosition struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"has_more"`
}

func (h *providerHandlers) listVerbs(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, form, err := verbFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	page, err := h.catalog.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	verbs, err := h.viewVerbs(ctx, c, page.Verbs, form)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(verbList{
		Verbs: verbs, Total: page.Total, ProvidersConnected: page.ProvidersConnected,
		Pagination: offsetPosition{Limit: f.Limit, Offset: f.Offset, HasMore: page.HasMore},
	}), nil
}

func (h *providerHandlers) getVerb(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	name, err := verb.Parse(c.Param("verb"))
	if err != nil {
		return wire.Reply{}, err
	}
	form, err := toolForm(c)
	if err != nil {
		return wire.Reply{}, err
	}
	v, err := h.catalog.Verb(ctx, c.Actor.TenantID, name)
	if err != nil {
		return wire.Reply{}, h.suggestions.suggest(ctx, c, name.String(), err)
	}
	views, err := h.viewVerbs(ctx, c, []catalog.Verb{v}, form)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(views[0]), nil
}

// verbFilter reads the query parameters of the catalog.
func verbFilter(c *wire.Call) (f catalog.Filter, form tooling.Form, err error) {
	if f.Limit, err = c.Limit(); err != nil {
		return f, form, err
	}
	if f.Offset, err = c.Offset(); err != nil {
		return f, form, err
	}
	if f.ConnectedOnly, err = flag(c, "connected_only"); err != nil {
		return f, form, err
	}
	if form, err = toolForm(c); err != nil {
		return f, form, err
	}
	if raw, given := c.Query("risk_level"); given {
		f.Risk = verb.Risk(strings.ToLower(raw))
		if f.Risk != verb.RiskLow && f.Risk != verb.RiskMedium && f.Risk != verb.RiskHigh {
			return f, form, fault.Invalid("query.risk_level", "enum", near.Enum("risk_level", f.Risk, verb.RiskLow, verb.RiskMedium, verb.RiskHigh))
		}
	}
	if f.Operation, err = operationType(c); err != nil {
		return f, form, err
	}
	f.Provider, _ = c.Query("provider")
	f.Domain, _ = c.Query("domain")
	f.Q, _ = c.Query("q")
	return f, form, nil
}

// The budget of a tool in bytes: what compact=true means, and what may be asked for.
const (
	usualBudget = 16 << 10
	leastBudget = 1 << 10
	mostBudget  = 128 << 10
)

// toolForm returns how tool definitions are asked for, the zero Form where they are not.
func toolForm(c *wire.Call) (form tooling.Form, err error) {
	var v wire.Validation
	format := wire.QueryOneOf(&v, c, "format", tooldef.Formats()...)
	if err := v.Err(); err != nil {
		return form, err
	}
	compact, err := flag(c, "compact")
	if err != nil {
		return form, err
	}
	raw, given := c.Query("budget")
	budget := usualBudget
	if given {
		budget, err = strconv.Atoi(raw)
		if err != nil || budget < leastBudget || budget > mostBudget {
			return form, fault.Invalid("query.budget", "range", "budget is a number of bytes from 1024 to 131072.")
		}
	}
	switch {
	case format == "" && (compact || given):
		return form, fault.Invalid("query.format", "required", "compact and budget are about tool definitions: format says which.")
	case !compact && given:
		return form, fault.Invalid("query.compact", "required", "budget is for compact=true.")
	case !compact:
		budget = 0
	}
	return tooling.Form{Format: format, Budget: budget}, nil
}

// flag reads a boolean query parameter; absent is false.
func flag(c *wire.Call, name string) (bool, error) {
	raw, given := c.Query(name)
	switch {
	case !given, strings.EqualFold(raw, "false"), raw == "0":
		return false, nil
	case strings.EqualFold(raw, "true"), raw == "1":
		return true, nil
	}
	return false, fault.Invalid("query."+name, "type", name+" is true or false.")
}

// operationType reads ?operation_type=; "" where it is absent.
func operationType(c *wire.Call) (verb.Operation, error) {
	var v wire.Validation
	op := wire.QueryOneOf(&v, c, "operation_type", verb.Read, verb.Write)
	return op, v.Err()
}

// providerVerb is a verb as people see it: also what a call of it sends.
type providerVerb struct {
	verbView

	Method string `json:"method"`
	Path   string `json:"path"`
}

type providerVerbs struct {
	Verbs      []providerVerb `json:"verbs"`
	Total      int64          `json:"total"`
	Pagination offsetPosition `json:"pagination"`
}

// listProviderVerbs is the catalog of one provider, for people.
func (h *providerHandlers) listProviderVerbs(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, form, err := verbFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	slug := c.Param("slug")
	p, err := h.providers.Provider(ctx, c.Actor.TenantID, slug)
	if err == nil && !p.Enabled {
		err = fault.New(fault.CodeConflict, notEnabled(slug))
	}
	if err != nil {
		return wire.Reply{}, err
	}
	if f.Quarantined, err = c.QueryBool("quarantined"); err != nil {
		return wire.Reply{}, err
	}
	f.Provider, f.Routes = slug, true
	page, err := h.catalog.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	list := providerVerbs{
		Verbs: make([]providerVerb, len(page.Verbs)), Total: page.Total,
		Pagination: offsetPosition{Limit: f.Limit, Offset: f.Offset, HasMore: page.HasMore},
	}
	views, err := h.viewVerbs(ctx, c, page.Verbs, form)
	if err != nil {
		return wire.Reply{}, err
	}
	for i, v := range page.Verbs {
		views[i].Quarantine = viewQuarantine(v.Quarantine, true)
		list.Verbs[i] = providerVerb{views[i], v.Method, v.Path}
	}
	return wire.OK(list), nil
}
