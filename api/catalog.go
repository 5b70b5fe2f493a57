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
}

// verbView is the catalog verb of the specification.
type verbView struct {
	Verb           string          `json:"verb"`
	Provider       string          `json:"provider"`
	Domain         string          `json:"domain"`
	Description    string          `json:"description"`
	RiskLevel      verb.Risk       `json:"risk_level"`
	OperationType  verb.Operation  `json:"operation_type"`
	Connected      bool            `json:"connected"`
	Schema         json.RawMessage `json:"schema"`
	ToolDefinition *toolDefinition `json:"tool_definition,omitempty"`
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
		OperationType: v.Operation, Connected: v.Connected, Schema: v.Schema,
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
		return wire.Reply{}, err
	}
	return wire.OK(viewVerb(v, tools)), nil
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
