package api

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/provider/catalog"
)

// Catalog is what the catalog endpoints need of the catalog domain.
type Catalog interface {
	List(ctx context.Context, tenant uuid.UUID, f catalog.Filter) (catalog.Page, error)
	Verb(ctx context.Context, tenant uuid.UUID, name verb.Name) (catalog.Verb, error)
	// Near returns a few verbs whose names are like one that the catalog does not have.
	Near(ctx context.Context, tenant uuid.UUID, name verb.Name) ([]verb.Name, error)
}

// verbView is the catalog verb of the specification.
type verbView struct {
	Verb           string           `json:"verb"`
	Provider       string           `json:"provider"`
	Domain         string           `json:"domain"`
	Description    string           `json:"description"`
	RiskLevel      verb.Risk        `json:"risk_level"`
	OperationType  verb.Operation   `json:"operation_type"`
	Idempotency    verb.Idempotency `json:"idempotency"`
	Connected      bool             `json:"connected"`
	Schema         json.RawMessage  `json:"schema"`
	ToolDefinition *toolDefinition  `json:"tool_definition,omitempty"`
}

// toolDefinition is the function-calling block of chat-model tool formats.
type toolDefinition struct {
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

func viewVerb(v catalog.Verb, tools bool) verbView {
	view := verbView{
		Verb: v.Name.String(), Provider: v.Name.Provider, Domain: v.Domain, Description: v.Description, RiskLevel: v.Risk,
		OperationType: v.Operation, Idempotency: v.Idempotency, Connected: v.Connected, Schema: v.Schema,
	}
	if tools {
		view.ToolDefinition = &toolDefinition{
			Type:     "function",
			Function: toolFunction{Name: v.Name.ToolName(), Description: v.Description, Parameters: v.Schema},
		}
	}
	return view
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

func (s *Server) listVerbs(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, tools, err := verbFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	page, err := s.deps.Catalog.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	list := verbList{
		Verbs: make([]verbView, len(page.Verbs)), Total: page.Total, ProvidersConnected: page.ProvidersConnected,
		Pagination: offsetPosition{Limit: f.Limit, Offset: f.Offset, HasMore: page.HasMore},
	}
	for i, v := range page.Verbs {
		list.Verbs[i] = viewVerb(v, tools)
	}
	return wire.OK(list), nil
}

func (s *Server) getVerb(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	name, err := verb.Parse(c.Param("verb"))
	if err != nil {
		return wire.Reply{}, err
	}
	tools, err := toolFormat(c)
	if err != nil {
		return wire.Reply{}, err
	}
	v, err := s.deps.Catalog.Verb(ctx, c.Actor.TenantID, name)
	if err != nil {
		return wire.Reply{}, s.suggest(ctx, c, name.String(), err)
	}
	return wire.OK(viewVerb(v, tools)), nil
}

// suggest returns err, and where it is VERB_NOT_FOUND with verbs whose names are like the one
// that was asked for. A caller who may not read the catalog learns none.
func (s *Server) suggest(ctx context.Context, c *wire.Call, text string, err error) error {
	f := fault.As(err)
	name, invalid := verb.Parse(text)
	if f == nil || f.Code != fault.CodeVerbNotFound || !c.ReadsCatalog || invalid != nil {
		return err
	}
	near, lost := s.deps.Catalog.Near(ctx, c.Actor.TenantID, name)
	if lost != nil || len(near) == 0 {
		return err // the refusal stands without suggestions
	}
	told := *f
	for _, n := range near {
		told.Suggestions = append(told.Suggestions, n.String())
	}
	told.Message += " Near names: " + strings.Join(told.Suggestions, ", ") + "."
	return &told
}

// verbFilter reads the query parameters of the catalog.
func verbFilter(c *wire.Call) (f catalog.Filter, tools bool, err error) {
	if f.Limit, err = c.Limit(); err != nil {
		return f, false, err
	}
	if f.Offset, err = c.Offset(); err != nil {
		return f, false, err
	}
	if f.ConnectedOnly, err = flag(c, "connected_only"); err != nil {
		return f, false, err
	}
	if tools, err = toolFormat(c); err != nil {
		return f, false, err
	}
	if raw, given := c.Query("risk_level"); given {
		f.Risk = verb.Risk(strings.ToLower(raw))
		if f.Risk != verb.RiskLow && f.Risk != verb.RiskMedium && f.Risk != verb.RiskHigh {
			return f, false, fault.Invalid("query.risk_level", "enum", "risk_level is low, medium or high.")
		}
	}
	if f.Operation, err = operationType(c); err != nil {
		return f, false, err
	}
	f.Provider, _ = c.Query("provider")
	f.Domain, _ = c.Query("domain")
	f.Q, _ = c.Query("q")
	return f, tools, nil
}

// toolFormat reports whether ?format= asks for tool definitions.
func toolFormat(c *wire.Call) (bool, error) {
	raw, given := c.Query("format")
	if given && !strings.EqualFold(raw, "tools") {
		return false, fault.Invalid("query.format", "enum", "format is tools, or absent for plain JSON Schema.")
	}
	return given, nil
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
func (s *Server) listProviderVerbs(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, tools, err := verbFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	slug := c.Param("slug")
	if _, err := s.deps.Providers.Provider(ctx, c.Actor.TenantID, slug); err != nil {
		return wire.Reply{}, err
	}
	f.Provider, f.Routes = slug, true
	page, err := s.deps.Catalog.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	list := providerVerbs{
		Verbs: make([]providerVerb, len(page.Verbs)), Total: page.Total,
		Pagination: offsetPosition{Limit: f.Limit, Offset: f.Offset, HasMore: page.HasMore},
	}
	for i, v := range page.Verbs {
		list.Verbs[i] = providerVerb{viewVerb(v, tools), v.Method, v.Path}
	}
	return wire.OK(list), nil
}
