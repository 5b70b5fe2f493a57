package api_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

const shopDocument = `{
	"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "servers": [{"url": "https://api.shop.test/v1"}],
	"paths": {
		"/orders": {
			"get": {"operationId": "listOrders", "summary": "List orders", "tags": ["orders"], "responses": {"200": {"description": "ok"}}},
			"post": {"operationId": "createOrder", "tags": ["orders"], "requestBody": {"content": {"application/json": {"schema":
				{"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}}}}}, "responses": {"200": {"description": "ok"}}}
		},
		"/orders/{id}": {
			"delete": {"operationId": "deleteOrder", "tags": ["orders"], "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
				"responses": {"200": {"description": "ok"}}}
		}
	}
}`

// importShop imports the shop with extra members of the body, such as `"auth":{…}`.
func (s *site) importShop(t *testing.T, slug, extra string) answer {
	t.Helper()
	if extra != "" {
		extra = "," + extra
	}
	return s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"`+slug+`"`+extra+`,"openapi":`+shopDocument+`}`)
}

type verbBody struct {
	Verb           string
	Provider       string
	RiskLevel      string `json:"risk_level"`
	OperationType  string `json:"operation_type"`
	Idempotency    string
	Method, Path   string
	Connected      bool
	Schema         json.RawMessage
	ToolDefinition *struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	} `json:"tool_definition"`
}

type catalogBody struct {
	Verbs              []verbBody
	Total              int
	ProvidersConnected []string `json:"providers_connected"`
	Pagination         struct {
		Limit, Offset int
		HasMore       bool `json:"has_more"`
	}
}

func TestCatalogListsAndShowsVerbs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	empty := s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog", "")
	require.JSONEq(t, `{"verbs":[],"total":0,"providers_connected":[],"pagination":{"limit":100,"offset":0,"has_more":false}}`, string(empty.data))
	require.Equal(t, http.StatusCreated, s.importShop(t, "shop", "").status)
	require.Equal(t, http.StatusCreated, s.importShop(t, "open", `"auth":{"type":"NONE"}`).status)

	get := func(query string) catalogBody {
		t.Helper()
		var page catalogBody
		s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog?"+query, "").into(t, http.StatusOK, &page)
		return page
	}
	page := get("")
	require.Equal(t, 6, page.Total)
	require.Equal(t, []string{"open"}, page.ProvidersConnected)
	require.Equal(t, "open:create_order", page.Verbs[0].Verb)
	require.Nil(t, page.Verbs[0].ToolDefinition)
	require.True(t, page.Verbs[0].Connected)
	require.False(t, page.Verbs[5].Connected)

	page = get("limit=2&offset=3&provider=&format=TOOLS&domain=orders")
	require.Equal(t, "shop:create_order", page.Verbs[0].Verb)
	require.Equal(t, 3, page.Pagination.Offset)
	require.True(t, page.Pagination.HasMore)
	tool := page.Verbs[0].ToolDefinition
	require.Equal(t, "function", tool.Type)
	require.Equal(t, "shop__create_order", tool.Function.Name)
	require.JSONEq(t, string(page.Verbs[0].Schema), string(tool.Function.Parameters))
	require.Contains(t, string(page.Verbs[0].Schema), `"required":["sku"]`)

	require.Equal(t, 2, get("risk_level=HIGH").Total)
	require.Equal(t, 4, get("operation_type=Write").Total)
	require.Equal(t, []string{"open:list_orders", "shop:list_orders"}, names(get("operation_type=read")))
	require.Equal(t, []string{"shop:delete_order"}, names(get("operation_type=write&provider=shop&risk_level=high")))
	require.Equal(t, 1, get("operation_type=read&q=orders&connected_only=true").Total)
	require.Equal(t, "none", page.Verbs[0].Idempotency)
	require.Empty(t, page.Verbs[0].Method, "which only people see")
	require.Equal(t, 3, get("connected_only=TRUE").Total)
	require.Equal(t, 6, get("connected_only=false").Total)
	require.Equal(t, 2, get("q=list+orders").Total)
	require.Equal(t, 3, get("provider=shop").Total)
	require.Equal(t, 500, get("limit=501").Pagination.Limit)
	require.Equal(t, 500, get("limit=99999999999999999999").Pagination.Limit)
	require.Empty(t, get("offset=1000000").Verbs)

	var one verbBody
	s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog/shop:delete_order?format=tools", "").into(t, http.StatusOK, &one)
	require.Equal(t, "high", one.RiskLevel)
	require.Equal(t, "write", one.OperationType)
	require.NotNil(t, one.ToolDefinition)
	s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog/shop%3Adelete_order", "").into(t, http.StatusOK, &one)
}

func TestToolsComeInTheFormOfEachMaker(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	const one = "/v1/runtime/actions/catalog/shop:create_order"
	for _, path := range []string{one, "/v1/runtime/actions/catalog", "/v1/providers/shop/verbs"} {
		as := "runtime"
		if path == "/v1/providers/shop/verbs" {
			as = "user"
		}
		for query, want := range map[string]string{
			"?format=tools": `"function":{"name":"shop__create_order"`, "?format=OpenAI": "", "?format=anthropic": `"input_schema"`, "?format=gemini": `"parametersJsonSchema"`,
			"?format=MCP&compact=true": `"openWorldHint":true`, "?format=mcp&compact=true&budget=1024": `"inputSchema"`, "?compact=false": `"schema"`,
			"?format=mcp&budget=2048": "", "?compact=true": "", "?budget=2048": "", "?format=mcp&compact=true&budget=1023": "", "?format=mcp&compact=true&budget=x": "", "?format=mcp&compact=x": "",
		} {
			a := s.do(t, as, http.MethodGet, path+query, "")
			if want == "" {
				a.refused(t, http.StatusBadRequest, fault.CodeValidation)
				continue
			}
			require.Equal(t, http.StatusOK, a.status, a.body)
			require.Contains(t, a.body, want, query)
			require.NotContains(t, a.body, "tool_omits")
		}
	}
}

func names(page catalogBody) []string {
	var out []string
	for _, v := range page.Verbs {
		out = append(out, v.Verb)
	}
	return out
}

func TestProviderVerbsShowPeopleWhatACallSends(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	s.importShop(t, "other", "")
	const verbs = "/v1/providers/shop/verbs"
	var page catalogBody
	s.do(t, "user", http.MethodGet, verbs, "").into(t, http.StatusOK, &page)
	require.Equal(t, []string{"shop:create_order", "shop:delete_order", "shop:list_orders"}, names(page))
	require.Equal(t, "DELETE /orders/{id} none", page.Verbs[1].Method+" "+page.Verbs[1].Path+" "+page.Verbs[1].Idempotency)
	require.Equal(t, "POST /orders none", page.Verbs[0].Method+" "+page.Verbs[0].Path+" "+page.Verbs[0].Idempotency)
	require.Equal(t, 3, page.Total)
	s.do(t, "user", http.MethodGet, verbs+"?operation_type=read&format=tools", "").into(t, http.StatusOK, &page)
	require.Equal(t, []string{"shop:list_orders"}, names(page))
	require.NotNil(t, page.Verbs[0].ToolDefinition)
	s.do(t, "user", http.MethodGet, verbs+"?limit=1&offset=1", "").into(t, http.StatusOK, &page)
	require.Equal(t, []string{"shop:delete_order"}, names(page))
	require.True(t, page.Pagination.HasMore)

	s.do(t, "user", http.MethodGet, verbs+"?provider=other", "").refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "user", http.MethodGet, verbs+"?operation_type=both", "").refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "user", http.MethodGet, "/v1/providers/none/verbs", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
	s.do(t, "foreign", http.MethodGet, verbs, "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
	s.do(t, "manager", http.MethodGet, verbs, "").refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
}

func TestMalformedCatalogQueryIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for query, path := range map[string]string{
		"limit=0": "query.limit", "limit=-1": "query.limit", "limit=ten": "query.limit", "limit=1.5": "query.limit",
		"limit=-99999999999999999999": "query.limit", "offset=-1": "query.offset", "offset=x": "query.offset", "offset=99999999999999999999": "query.offset",
		"risk_level=none": "query.risk_level", "operation_type=none": "query.operation_type", "connected_only=maybe": "query.connected_only", "format=yaml": "query.format",
		"provider=%00": "query.provider", "domain=%ff": "query.domain", "q=" + strings.Repeat("a", 300): "query.q",
		"q=" + url.QueryEscape(strings.Repeat("a ", 11)): "query.q",
	} {
		t.Run(query[:min(len(query), 30)], func(t *testing.T) {
			t.Parallel()
			a := s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog?"+query, "")
			a.refused(t, http.StatusBadRequest, fault.CodeValidation)
			require.Equal(t, []string{path}, a.paths)
		})
	}
	const one = "/v1/runtime/actions/catalog/"
	s.do(t, "runtime", http.MethodGet, one+"noverb", "").refused(t, http.StatusBadRequest, fault.CodeInvalidVerb)
	s.do(t, "runtime", http.MethodGet, one+"shop:a%00b", "").refused(t, http.StatusBadRequest, fault.CodeInvalidVerb)
	s.do(t, "runtime", http.MethodGet, one+"shop:nope", "").refused(t, http.StatusNotFound, fault.CodeVerbNotFound)
	s.do(t, "runtime", http.MethodGet, one+"shop:nope?format=x", "").refused(t, http.StatusBadRequest, fault.CodeValidation)

	s.do(t, "user", http.MethodGet, "/v1/runtime/actions/catalog", "").refused(t, http.StatusUnauthorized, fault.CodeUnauthenticated)
	lacks := s.do(t, "agent", http.MethodGet, "/v1/runtime/actions/catalog", "")
	lacks.refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	require.Contains(t, lacks.body, "The API key lacks the permission actions:catalog. Make a key that has it with POST /v1/api-keys.")
}

func TestUnknownVerbIsAnsweredWithNearOnes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	for _, call := range []answer{
		s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog/shop:create_orders", ""),
		s.do(t, "runtime", http.MethodPost, "/v1/runtime/actions/run", `{"verb":"shop:create_orders","args":{}}`),
		s.do(t, "runtime", http.MethodPost, "/v1/runtime/governance/evaluate", `{"verb":"shop:create_orders"}`),
	} {
		call.refused(t, http.StatusNotFound, fault.CodeVerbNotFound)
		require.Contains(t, call.body, `"suggestions":["shop:create_order"]`)
		require.Contains(t, call.body, "Did you mean shop:create_order?")
	}
	blind := s.do(t, "calls", http.MethodPost, "/v1/runtime/actions/run", `{"verb":"shop:create_orders","args":{}}`)
	blind.refused(t, http.StatusNotFound, fault.CodeVerbNotFound)
	require.NotContains(t, blind.body, "create_order", "the key may not read the catalog")
}

func TestCatalogShowsWhatACallPresents(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const document = `{"openapi":"3.1.0","info":{"title":"Shop"},"servers":[{"url":"https://api.shop.test"}],"security":[{"oauth":["orders.read"]},{"oauth":["orders"]}],
		"components":{"securitySchemes":{"oauth":{"type":"oauth2","flows":{}},"again":{"type":"oauth2","flows":{}},"key":{"type":"apiKey","in":"query","name":"key"}}},
		"paths":{"/a":{"get":{"operationId":"scoped"}},"/b":{"get":{"operationId":"public","security":[]}},"/c":{"get":{"operationId":"both","security":[{"key":[],"oauth":[]},{}]}},
			"/d":{"get":{"operationId":"flows","security":[{"oauth":["a","not valid"],"again":["a"]}]}},"/e":{"get":{"operationId":"key","security":[{"key":[]}]}}}}`
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","openapi":`+document+`}`)
	type shown struct {
		Verb      string
		Connected bool
		Security  json.RawMessage
	}
	list := func(as, path string) map[string]shown {
		var page struct{ Verbs []shown }
		s.do(t, as, http.MethodGet, path, "").into(t, http.StatusOK, &page)
		verbs := map[string]shown{}
		for _, v := range page.Verbs {
			verbs[strings.TrimPrefix(v.Verb, "shop:")] = v
		}
		return verbs
	}
	for name, want := range map[string]string{
		"scoped": `[{"schemes":[{"scheme":"oauth","type":"oauth2","scopes":["orders.read"]}]},{"schemes":[{"scheme":"oauth","type":"oauth2","scopes":["orders"]}]}]`,
		"public": `[]`,
		"both":   `[{"schemes":[{"scheme":"key","type":"api_key","in":"query","name":"key"},{"scheme":"oauth","type":"oauth2"}]},{"schemes":[]}]`,
		"flows":  `[{"schemes":[{"scheme":"again","type":"oauth2","scopes":["a"]}]}]`,
		"key":    `[{"schemes":[{"scheme":"key","type":"api_key","in":"query","name":"key"}]}]`,
	} {
		v := list("runtime", "/v1/runtime/actions/catalog")[name]
		require.JSONEq(t, want, string(v.Security), name)
		require.Equal(t, v, list("user", "/v1/providers/shop/verbs")[name])
		var one shown
		s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog/shop:"+name, "").into(t, http.StatusOK, &one)
		require.Equal(t, v, one)
		require.Equal(t, name == "public" || name == "both", v.Connected, name)
	}
	s.do(t, "user", http.MethodPost, "/v1/credentials", `{"provider":"shop","type":"schemes","data":{"schemes":{"oauth":{"token":"t-1"}}}}`)
	connected := list("runtime", "/v1/runtime/actions/catalog?connected_only=true")
	require.Len(t, connected, 3)
	require.Contains(t, connected, "scoped")
	require.NotContains(t, connected, "key", "the credential of the provider has no such secret")
}
