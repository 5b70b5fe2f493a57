package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/dev/toolrules"
	"agentruntime/test/rig"
)

// heard keeps what a provider was called with.
type heard struct {
	mu    sync.Mutex
	calls []string
}

func (h *heard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	h.calls = append(h.calls, r.URL.RawQuery+" "+string(body))
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, fine)
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// oddDocument has names that makers of chat models refuse, at the top and below.
const oddDocument = `{"openapi":"3.1.0","info":{"title":"odd","version":"1"},"paths":{"/things":{"post":{"operationId":"find","parameters":[
	{"name":"filter[state]","in":"query","schema":{"type":"string"}}],
	"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"$top":{"type":"integer"},"inner":{"type":"object","properties":{"a:b":{"type":"string"}}}}}}}},
	"responses":{"200":{"description":"ok"}}}}}}`

// A caller passes on what a chat model made of the tool, and the provider gets the verb's own names.
func TestToolCallsAreRunByTheNamesOfTheTool(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	tenant, h := newTenant(s), &heard{}
	tenant.Connect(t, "odd", rig.Serve(t, h), json.RawMessage(oddDocument), "bearer", map[string]string{"token": "t0ken"})
	tenant.User.NewPolicy(t, map[string]any{
		"name": "closed is blocked", "verbMatchers": []any{map[string]any{"type": "provider", "value": "odd"}},
		"conditions": []any{map[string]any{"field": "args.filter[state]", "operator": "equals", "value": "closed"}}, "action": map[string]any{"type": "block"},
	})

	for _, format := range tooldef.Formats() {
		var shown struct {
			ToolDefinition json.RawMessage `json:"tool_definition"`
		}
		tenant.Runtime.Do(http.MethodGet, "/v1/runtime/actions/catalog/odd:find?format="+string(format), nil).Data(t, &shown)
		require.Empty(t, toolrules.Violations(format, shown.ToolDefinition), "%s", shown.ToolDefinition)
	}
	names := toolNames(t, tenant)
	args := map[string]any{names["filter[state]"]: "open", names["$top"]: 3, "inner": map[string]any{names["a:b"]: "c"}}
	d := requireRun(t, tenant.Runtime.Run("odd:find", args, "tool-1"))
	require.Equal(t, "executed", d.FenceStatus)
	require.Equal(t, []string{`filter%5Bstate%5D=open {"$top":3,"inner":{"a:b":"c"}}`}, h.all())

	var again struct {
		FenceStatus string `json:"fence_status"`
		ArgsMatch   bool   `json:"args_match"`
	}
	tenant.Runtime.Run("odd:find", map[string]any{"filter[state]": "open", "$top": 3, "inner": map[string]any{"a:b": "c"}}, "tool-1").Data(t, &again)
	require.Equal(t, "cached", again.FenceStatus)
	require.True(t, again.ArgsMatch, "it is one call by either name")

	blocked := map[string]any{names["filter[state]"]: "closed"}
	requireCode(t, tenant.Runtime.Run("odd:find", blocked, "tool-2"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	var e struct{ Decision string }
	tenant.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", map[string]any{"verb": "odd:find", "args": blocked}).Data(t, &e)
	require.Equal(t, "block", e.Decision)
	requireCode(t, tenant.Runtime.Run("odd:find", map[string]any{names["$top"]: 3, "$top": 4}, "tool-3"), http.StatusBadRequest, "VALIDATION_ERROR")
	require.Len(t, h.all(), 1)
}

// toolNames returns the names that the tool has for arguments, by the arguments.
func toolNames(t *testing.T, tenant *rig.Tenant) map[string]string {
	t.Helper()
	type properties map[string]struct {
		Description string
		Properties  map[string]struct{ Description string }
	}
	var shown struct {
		ToolDefinition struct {
			Schema struct{ Properties properties } `json:"input_schema"`
		} `json:"tool_definition"`
	}
	tenant.Runtime.Do(http.MethodGet, "/v1/runtime/actions/catalog/odd:find?format=anthropic", nil).Data(t, &shown)
	names := map[string]string{}
	note := func(name, description string) {
		if own, is := strings.CutPrefix(description, `"`); is {
			own, _, _ = strings.Cut(own, `"`)
			names[own] = name
		}
	}
	for name, p := range shown.ToolDefinition.Schema.Properties {
		note(name, p.Description)
		for inner, q := range p.Properties {
			note(inner, q.Description)
		}
	}
	require.Len(t, names, 3)
	return names
}
