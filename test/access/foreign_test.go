package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// probe is a call that names a resource: "{}" in path and body stands for its id.
type probe struct {
	method, path, body string
	// key calls with an API key that may do everything, else with the token.
	key bool
	// of is the kind of resource whose ids fit here.
	of string
}

// probes lists every place of the API that takes an id, in path, query or body.
func probes() []probe {
	return []probe{
		{"GET", "/v1/results/{}", "", false, "execution"},
		{"GET", "/v1/results/{}", "", true, "execution"},
		{"GET", "/v1/executions/{}", "", false, "execution"},
		{"GET", "/v1/executions/{}", "", true, "execution"},
		{"GET", "/v1/executions/{}/files/" + someID, "", false, "execution"},
		{"GET", "/v1/executions/{}/files/" + someID, "", true, "execution"},
		{"POST", "/v1/executions/{}/cancel", "", false, "execution"},
		{"POST", "/v1/executions/{}/cancel", "", true, "execution"},
		{"POST", "/v1/executions/{}/resolve", `{"outcome":"executed","reason":"mine now"}`, false, "execution"},
		{"POST", "/v1/executions/{}/resolve", `{"outcome":"executed","reason":"mine now"}`, true, "execution"},
		{"GET", "/v1/approvals/{}", "", false, "approval"},
		{"GET", "/v1/approvals/{}", "", true, "approval"},
		{"POST", "/v1/approvals/{}/approve", `{"reason":"mine now"}`, false, "approval"},
		{"POST", "/v1/approvals/{}/approve", `{"edited_args":{"order_id":"ord_1001"}}`, false, "approval"},
		{"POST", "/v1/approvals/{}/approve", "", true, "approval"},
		{"POST", "/v1/approvals/{}/reject", "", false, "approval"},
		{"POST", "/v1/approvals/{}/reject", "", true, "approval"},
		{"POST", "/v1/approvals/batch", `{"decisions":[{"id":"{}","decision":"reject"}]}`, false, "approval"},
		{"GET", "/v1/approvals?provider={}", "", false, "provider"},
		{"GET", "/v1/grants/{}", "", false, "grant"},
		{"GET", "/v1/grants/{}", "", true, "grant"},
		{"PATCH", "/v1/grants/{}", `{"max_uses":1}`, false, "grant"},
		{"PATCH", "/v1/grants/{}", `{"max_uses":1}`, true, "grant"},
		{"DELETE", "/v1/grants/{}", "", false, "grant"},
		{"DELETE", "/v1/grants/{}", "", true, "grant"},
		{"GET", "/v1/grants?provider={}", "", false, "provider"},
		{"POST", "/v1/grants", `{"verb":"{}","expires_at":"` + soon() + `","max_uses":1,"reason":"x"}`, false, "verb"},
		{"PUT", "/v1/budgets", `{"key_id":"{}","model_tokens":null,"money_micros":null,"write_calls":1}`, false, "key"},
		{"GET", "/v1/model-providers/{}", "", false, "modelProvider"},
		{"PATCH", "/v1/model-providers/{}", "{}", false, "modelProvider"},
		{"DELETE", "/v1/model-providers/{}", "", false, "modelProvider"},
		{"GET", "/v1/kill-switch/{}", "", false, "killSwitch"},
		{"DELETE", "/v1/kill-switch/{}", "", false, "killSwitch"},
		{"POST", "/v1/kill-switch", `{"scope":"provider","target":"{}","reason":"x"}`, false, "provider"},
		{"POST", "/v1/kill-switch", `{"scope":"verb","target":"{}","reason":"x"}`, false, "verb"},
		{"GET", "/v1/customers/{}", "", false, "customer"},
		{"GET", "/v1/customers/{}", "", true, "customer"},
		{"PATCH", "/v1/customers/{}", `{"name":"mine now"}`, false, "customer"},
		{"PATCH", "/v1/customers/{}", `{"name":"mine now"}`, true, "customer"},
		{"POST", "/v1/customers/{}/merge", `{"customer_id":"alpha-customer"}`, false, "customer"},
		{"POST", "/v1/customers/alpha-customer/merge", `{"customer_id":"{}"}`, true, "customer"},
		{"DELETE", "/v1/customers/{}", "", false, "customer"},
		{"DELETE", "/v1/customers/{}", "", true, "customer"},
		{"GET", "/v1/customers/{}/export", "", false, "customer"},
		{"GET", "/v1/customers/{}/export", "", true, "customer"},
		{"GET", "/v1/customers/{}/erasure", "", false, "erasure"},
		{"GET", "/v1/customers/{}/erasure", "", true, "erasure"},
		{"GET", "/v1/executions?customer_id={}", "", false, "customer"},
		{"GET", "/v1/customers?external_id={}", "", false, "customer"},
		{"GET", "/v1/policies/{}", "", false, "policy"},
		{"GET", "/v1/policies/{}", "", true, "policy"},
		{"PUT", "/v1/policies/{}", aPolicy, false, "policy"},
		{"PUT", "/v1/policies/{}", aPolicy, true, "policy"},
		{"PATCH", "/v1/policies/{}", `{"enabled":false}`, false, "policy"},
		{"PATCH", "/v1/policies/{}", `{"enabled":false}`, true, "policy"},
		{"POST", "/v1/policies/{}/versions/1/restore", "", false, "policy"},
		{"POST", "/v1/policies/{}/versions/1/restore", "", true, "policy"},
		{"DELETE", "/v1/policies/{}", "", false, "policy"},
		{"DELETE", "/v1/policies/{}", "", true, "policy"},
		{"GET", "/v1/policies/{}/versions", "", false, "policy"},
		{"GET", "/v1/policies/{}/coverage", "", false, "policy"},
		{"POST", "/v1/policies/simulate", `{"policy":{"id":"{}","name":"p","action":{"type":"block"}}}`, false, "policy"},
		{"GET", "/v1/policies?verb={}", "", false, "verb"},
		{"POST", "/v1/policies", `{"name":"p","action":{"type":"require_approval"},"approval":{"approvers":[{"type":"user","value":"{}"}]}}`, false, "user"},
		{"GET", "/v1/providers/{}", "", false, "provider"},
		{"GET", "/v1/providers/{}", "", true, "provider"},
		{"GET", "/v1/providers/{}/document", "", false, "provider"},
		{"GET", "/v1/providers/{}/document", "", true, "provider"},
		{"PATCH", "/v1/providers/{}", `{"name":"changed"}`, false, "provider"},
		{"PATCH", "/v1/providers/{}", `{"name":"changed"}`, true, "provider"},
		{"PATCH", "/v1/providers/{}", `{"base_url":"https://shop.example.com"}`, false, "provider"},
		{"GET", "/v1/providers/{}/verbs", "", false, "provider"},
		{"POST", "/v1/providers/{}/verbs/list_orders/accept", "", false, "provider"},
		{"PATCH", "/v1/providers/{}/verbs/list_orders", `{"trust":"own"}`, false, "provider"},
		{"POST", "/v1/providers/{}/enable", "", false, "provider"},
		{"POST", "/v1/providers/{}/disable", "", false, "provider"},
		{"DELETE", "/v1/providers/{}", "", false, "provider"},
		{"GET", "/v1/credentials/{}", "", false, "credential"},
		{"GET", "/v1/credentials/{}", "", true, "credential"},
		{"PATCH", "/v1/credentials/{}", `{"status":"revoked"}`, false, "credential"},
		{"PATCH", "/v1/credentials/{}", `{"status":"revoked"}`, true, "credential"},
		{"DELETE", "/v1/credentials/{}", "", false, "credential"},
		{"DELETE", "/v1/credentials/{}", "", true, "credential"},
		{"POST", "/v1/credentials/{}/validate", "", false, "credential"},
		{"POST", "/v1/credentials/{}/validate", "", true, "credential"},
		{"POST", "/v1/credentials/{}/rotate", `{"data":{"key":"x"}}`, false, "credential"},
		{"POST", "/v1/credentials/{}/rotate", `{"data":{"key":"x"}}`, true, "credential"},
		{"POST", "/v1/maps", `{"schema_version":"1","name":"m","steps":[{"id":"ask","type":"approval","title":"Go?","approvers":[{"type":"user","value":"{}"}]}]}`, false, "user"},
		{"POST", "/v1/maps/validate", `{"schema_version":"1","name":"m","steps":[{"id":"ask","type":"approval","title":"Go?","approvers":[{"type":"user","value":"{}"}]}]}`, false, "user"},
		{"GET", "/v1/maps/{}", "", false, "map"},
		{"GET", "/v1/maps/{}", "", true, "map"},
		{"PUT", "/v1/maps/{}", aMap, false, "map"},
		{"PUT", "/v1/maps/{}", aMap, true, "map"},
		{"PUT", "/v1/maps/{}", "{}", false, "map"},
		{"DELETE", "/v1/maps/{}", "", false, "map"},
		{"DELETE", "/v1/maps/{}", "", true, "map"},
		{"GET", "/v1/maps/{}/versions", "", false, "map"},
		{"GET", "/v1/maps/{}/versions/1", "", false, "map"},
		{"POST", "/v1/maps/{}/publish", "", false, "map"},
		{"POST", "/v1/maps/{}/publish", `{"version":1}`, true, "map"},
		{"GET", "/v1/maps/{}/graph", "", false, "map"},
		{"POST", "/v1/maps/{}/trigger", "{}", false, "map"},
		{"POST", "/v1/maps/{}/trigger", "{}", true, "map"},
		{"GET", "/v1/agents/{}", "", false, "agent"},
		{"GET", "/v1/agents/{}", "", true, "agent"},
		{"PATCH", "/v1/agents/{}", `{"status":"paused"}`, false, "agent"},
		{"PATCH", "/v1/agents/{}", `{"name":"x"}`, true, "agent"},
		{"DELETE", "/v1/agents/{}", "", false, "agent"},
		{"DELETE", "/v1/agents/{}", "", true, "agent"},
		{"GET", "/v1/agents/{}/versions", "", false, "agent"},
		{"GET", "/v1/agents/{}/versions/1", "", true, "agent"},
		{"POST", "/v1/agents/{}/versions/1/publish", "", false, "agent"},
		{"POST", "/v1/agents/{}/versions/1/publish", "", true, "agent"},
		{"GET", "/v1/agents/{}/versions/1/diff?against=1", "", false, "agent"},
		{"POST", "/v1/agents/{}/message", `{"message":"Hello"}`, true, "agent"},
		{"POST", "/v1/agents/{}/goals", `{"goal":"Look"}`, true, "agent"},
		{"GET", "/v1/executions/{}", "", false, "message"},
		{"GET", "/v1/executions/{}", "", true, "message"},
		{"GET", "/v1/executions/{}/stream", "", false, "message"},
		{"GET", "/v1/executions/{}/stream", "", true, "message"},
		{"POST", "/v1/executions/{}/cancel", "", false, "message"},
		{"PUT", "/v1/executions/{}/feedback", `{"rating":"up"}`, false, "message"},
		{"PUT", "/v1/executions/{}/feedback", `{"rating":"up"}`, true, "message"},
		{"GET", "/v1/agents/{}/sessions", "", false, "agent"},
		{"GET", "/v1/agents/{}", "", false, "agentSession"},
		{"GET", "/v1/agents/{}/messages", "", true, "agentSession"},
		{"DELETE", "/v1/agents/{}/sessions/beta-session", "", true, "agent"},
		{"POST", "/v1/agents/{}/sessions/beta-session/takeover", "", false, "agent"},
		{"POST", "/v1/agents/{}/sessions/beta-session/reply", `{"message":"Hello"}`, false, "agent"},
		{"POST", "/v1/agents/{}/sessions/beta-session/handback", "", false, "agent"},
		{"GET", "/v1/executions?kind=message&session_id={}", "", false, "session"},
		{"GET", "/v1/executions?kind=message&agent_id={}", "", false, "agent"},
		{"GET", "/v1/executions?kind=message&customer_id={}", "", false, "ownCustomer"},
		{"POST", "/v1/agents", `{"name":"x","maps":["{}"]}`, false, "map"},
		{"POST", "/v1/api-keys", `{"name":"x","agent_id":"{}"}`, false, "agent"},
		{"GET", "/v1/executions/{}", "", false, "mapExecution"},
		{"GET", "/v1/executions/{}", "", true, "mapExecution"},
		{"GET", "/v1/executions/{}/events", "", false, "execution"},
		{"GET", "/v1/executions/{}/events", "", true, "execution"},
		{"GET", "/v1/executions/{}/stream", "", false, "mapExecution"},
		{"GET", "/v1/executions/{}/stream", "", true, "mapExecution"},
		{"GET", "/v1/executions/{}/graph", "", false, "mapExecution"},
		{"GET", "/v1/executions/{}/graph", "", true, "mapExecution"},
		{"GET", "/v1/executions/{}/changes", "", false, "mapExecution"},
		{"GET", "/v1/executions/{}/changes", "", true, "mapExecution"},
		{"POST", "/v1/executions/{}/changes/decide", `{"approve":"all"}`, false, "mapExecution"},
		{"POST", "/v1/executions/{}/changes/decide", `{"approve":"all"}`, true, "mapExecution"},
		{"GET", "/v1/executions/{}", "", true, "goal"},
		{"GET", "/v1/executions/{}/changes", "", false, "goal"},
		{"GET", "/v1/executions/{}/changes", "", true, "goal"},
		{"POST", "/v1/executions/{}/changes/decide", `{"approve":"all"}`, false, "goal"},
		{"POST", "/v1/executions/{}/changes/decide", `{"approve":"all"}`, true, "goal"},
		{"POST", "/v1/executions/{}/cancel", "", false, "mapExecution"},
		{"POST", "/v1/executions/{}/cancel", "", true, "mapExecution"},
		{"POST", "/v1/executions/{}/pause", "", false, "mapExecution"},
		{"POST", "/v1/executions/{}/pause", "", true, "mapExecution"},
		{"POST", "/v1/executions/{}/resume", "", false, "mapExecution"},
		{"POST", "/v1/executions/{}/resume", "", true, "mapExecution"},
		{"POST", "/v1/executions/{}/retry", "{}", false, "mapExecution"},
		{"POST", "/v1/executions/{}/retry", "{}", true, "mapExecution"},
		{"POST", "/v1/executions/{}/signal", `{"name":"go"}`, false, "mapExecution"},
		{"POST", "/v1/executions/{}/signal", `{"name":"go"}`, true, "mapExecution"},
		{"GET", "/v1/executions?kind=map&map_id={}", "", false, "map"},
		{"GET", "/v1/executions?kind=map&session_id={}", "", false, "session"},
		{"GET", "/v1/maps/{}/graph?format=svg&version=1", "", true, "map"},
		{"POST", "/v1/maps/validate", `{"schema_version":"1","name":"x","steps":[{"id":"a","type":"map","map_id":"{}"}]}`, false, "map"},
		{"POST", "/v1/maps/validate", `{"schema_version":"1","name":"x","steps":[{"id":"a","type":"verb","verb":"{}","args":{"surely":"unknown"}}]}`, true, "verb"},
		{"GET", "/v1/webhooks/{}", "", false, "webhook"},
		{"GET", "/v1/webhooks/{}", "", true, "webhook"},
		{"PATCH", "/v1/webhooks/{}", `{"enabled":false}`, false, "webhook"},
		{"PATCH", "/v1/webhooks/{}", `{"enabled":false}`, true, "webhook"},
		{"DELETE", "/v1/webhooks/{}", "", false, "webhook"},
		{"DELETE", "/v1/webhooks/{}", "", true, "webhook"},
		{"POST", "/v1/webhooks/{}/rotate-secret", `{}`, false, "webhook"},
		{"POST", "/v1/webhooks/{}/rotate-secret", `{}`, true, "webhook"},
		{"POST", "/v1/webhooks/{}/test", "", false, "webhook"},
		{"POST", "/v1/webhooks/{}/test", "", true, "webhook"},
		{"POST", "/v1/webhooks/{}/recover", `{"since":"2026-01-01T00:00:00Z"}`, false, "webhook"},
		{"POST", "/v1/webhooks/{}/recover", `{"since":"2026-01-01T00:00:00Z"}`, true, "webhook"},
		{"GET", "/v1/webhooks/{}/deliveries", "", false, "webhook"},
		{"GET", "/v1/webhooks/{}/deliveries", "", true, "webhook"},
		{"GET", "/v1/webhooks/{}/deliveries/{delivery}", "", false, "webhook"},
		{"GET", "/v1/webhooks/{}/deliveries/{delivery}", "", true, "webhook"},
		{"POST", "/v1/webhooks/{}/deliveries/{delivery}/redeliver", "", false, "webhook"},
		{"POST", "/v1/webhooks/{}/deliveries/{delivery}/redeliver", "", true, "webhook"},
		{"GET", "/v1/webhooks/{webhook}/deliveries/{}", "", false, "delivery"},
		{"POST", "/v1/webhooks/{webhook}/deliveries/{}/redeliver", "", false, "delivery"},
		{"GET", "/v1/events/{}", "", false, "event"},
		{"GET", "/v1/events/{}", "", true, "event"},
		{"GET", "/v1/events?execution_id={}", "", false, "execution"},
		{"GET", "/v1/events?session_id={}", "", true, "session"},
		{"GET", "/v1/events?customer_id={}", "", false, "customer"},
		{"GET", "/v1/audit?execution_id={}", "", false, "execution"},
		{"GET", "/v1/audit?session_id={}", "", false, "session"},
		{"DELETE", "/v1/auth/sessions/{}", "", false, "login"},
		{"GET", "/v1/api-keys/{}", "", false, "key"},
		{"PATCH", "/v1/api-keys/{}", `{"name":"mine now"}`, false, "key"},
		{"POST", "/v1/api-keys/{}/rotate", `{}`, false, "key"},
		{"POST", "/v1/api-keys/{}/rotate-identity-secret", `{}`, false, "key"},
		{"DELETE", "/v1/api-keys/{}", "", false, "key"},
		{"DELETE", "/v1/api-keys/{}", "", true, "key"},
		{"GET", "/v1/users/{}", "", false, "user"},
		{"PATCH", "/v1/users/{}", `{"role":"owner"}`, false, "user"},
		{"DELETE", "/v1/users/{}", "", false, "user"},
		{"DELETE", "/v1/users/{}", "", true, "user"},
		{"POST", "/v1/users/{}/invite", "", false, "user"},
		{"GET", "/v1/runtime/actions/catalog/{}", "", true, "verb"},
		{"POST", "/v1/runtime/governance/evaluate", `{"verb":"{}","args":{}}`, true, "verb"},
		{"POST", "/v1/runtime/actions/run", `{"verb":"{}","args":{}}`, true, "verb"},
		{"POST", "/v1/runtime/actions/run", `{"verb":"{}","args":{},"execution_id":"alpha-tries"}`, true, "verb"},
		{"GET", "/v1/runtime/actions/catalog?provider={}", "", true, "provider"},
		{"GET", "/v1/executions?provider={}", "", false, "provider"},
		{"GET", "/v1/executions?verb={}", "", false, "verb"},
		{"GET", "/v1/executions?session_id={}", "", false, "session"},
		{"GET", "/v1/credentials?provider={}", "", false, "provider"},
	}
}

// soon is a time that a grant may last to.
func soon() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }

// sessionIn returns the session that a token names.
func sessionIn(token string) string {
	parts := strings.Split(token, ".")
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ SID string }
	_ = json.Unmarshal(text, &claims)
	return claims.SID
}

// keys returns two keys of the first tenant that may do together what keys may.
func (w *world) keys(t *testing.T) (calls, manages http.Header) {
	t.Helper()
	add := func(permissions ...string) http.Header {
		secret, _ := w.a.newKey(t, map[string]any{"name": "everything", "permissions": permissions})
		return headers("X-API-Key", secret)
	}
	return add("actions:run", "actions:catalog", "approvals:manage", "maps:manage", "agents:manage", "agents:message"),
		add("actions:catalog", "approvals:manage", "policies:manage", "providers:manage", "credentials:manage", "customers:manage", "events:read", "webhooks:manage")
}

func TestIDOfAnotherTenantIsUnknown(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	calls, manages := w.keys(t)
	before := w.rowsOf(t, w.b)
	covered := map[string]bool{}
	cells := 0
	for _, p := range slices.Concat(probes(), memoryProbes()) {
		header := bearer(w.a.token)
		if p.key {
			header = manages
			if strings.HasPrefix(p.path, "/v1/runtime/") || strings.HasPrefix(p.path, "/v1/results/") || strings.HasPrefix(p.path, "/v1/maps/") || strings.HasPrefix(p.path, "/v1/agents") {
				header = calls
			}
		}
		send := func(id string) rig.Answer {
			path := strings.NewReplacer("{}", id, "{delivery}", w.a.delivery, "{webhook}", w.a.webhook).Replace(p.path)
			r := request{method: p.method, path: path, header: header}
			if p.body != "" {
				r.body = []byte(strings.Replace(p.body, "{}", id, 1))
			}
			if op, _ := w.doc.find(r.method, strings.Split(r.path, "?")[0]); op != nil {
				covered[op.id()] = true
			}
			a := w.call(t, r)
			// They may say what they answer for.
			provider, _, isVerb := strings.Cut(id, ":")
			if isVerb {
				a.Body = []byte(strings.ReplaceAll(string(a.Body), provider, ""))
			} else if strings.HasSuffix(r.path, "/batch") {
				a.Body = []byte(strings.ReplaceAll(string(a.Body), id, ""))
			}
			return a
		}
		want := send(unknown(p.of))
		othersRuns := p.key && (p.of == "execution" || p.of == "mapExecution" || p.of == "message" || p.of == "goal") // another key made them
		if p.method == http.MethodGet && !othersRuns {
			for _, id := range w.a.ids(p.of) {
				own := send(id)
				if strings.Contains(p.path, "/files/") { // it has none
					require.Equal(t, "FILE_NOT_FOUND", code(t, own))
					continue
				}
				if own.Status != http.StatusConflict || !strings.HasPrefix(p.path, "/v1/results/") { // a blocked run has no result
					require.Equal(t, http.StatusOK, own.Status, "%s %s with %s: %s", p.method, p.path, id, own.Body)
				}
				require.NotEqual(t, anonymous(want), anonymous(own), "%s %s tells nothing apart", p.method, p.path)
			}
		}
		for _, id := range w.b.ids(p.of) {
			got := send(id)
			require.Equal(t, want.Status, got.Status, "%s %s with %s: %s", p.method, p.path, id, got.Body)
			require.Equal(t, anonymous(want), anonymous(got), "%s %s with %s", p.method, p.path, id)
			cells++
		}
	}
	for _, op := range w.doc.ops {
		if strings.Contains(op.path, "{") {
			require.True(t, covered[op.id()], "%s takes an id and no probe tries another tenant's there", op.id())
		}
	}
	require.Equal(t, withoutSeals(before), withoutSeals(w.rowsOf(t, w.b)), "something of the other tenant has changed")
	t.Logf("%d cells", cells)
}

// withoutSeals leaves out what the sealer adds in its own time. It follows from the
// audit records, which stay.
func withoutSeals(rows map[string][]string) map[string][]string {
	out := maps.Clone(rows)
	for _, table := range []string{"audit_seals", "audit_checkpoints", "audit_clusters"} {
		delete(out, table)
	}
	return out
}

// anonymous is an answer without what differs between any two: the request's id,
// and the time.
func anonymous(a rig.Answer) string {
	h := a.Header.Clone()
	id := h.Get("X-Request-Id")
	h.Del("X-Request-Id")
	h.Del("Date")
	// Each request changes what is left of a window. Which window that is changes by itself.
	for _, name := range []string{"RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		h.Del(name)
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		lines = append(lines, name+": "+strings.Join(h[name], ", "))
	}
	return strings.Join(lines, "\n") + "\n\n" + strings.ReplaceAll(string(a.Body), id, "")
}

// The same names in two tenants are two things: neither hides, answers for nor
// replaces the other.
func TestNameInTwoTenantsIsTwoThings(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	c, d := w.newTenant(t, "gamma"), w.newTenant(t, "delta")
	sent := func(own *tenant) {
		a := own.User.With(own.sender, "").Do(http.MethodPost, "/v1/events", map[string]string{"id": "the-same", "type": "custom.of_" + own.name})
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	}
	sent(d)
	before := w.rowsOf(t, d)

	// The other's slug, execution id and session.
	c.Connect(t, d.provider, "https://shop.example.com", []byte(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/only":{"get":{"operationId":"only"}}}}`), "", nil)
	a := c.Runtime.Run(c.provider+":list_orders", map[string]any{"limit": 2}, d.execution)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	var ran rig.RunData
	a.Data(t, &ran)
	require.Equal(t, "executed", ran.FenceStatus, "a run of another tenant answered for ours")
	require.Equal(t, http.StatusOK, c.User.Do(http.MethodDelete, "/v1/providers/"+d.provider, nil).Status)

	// The other's customer by all identifiers, and an event of the other's id.
	same := map[string]string{"external_id": d.name + "-customer", "email": d.name + "-customer@example.com"}
	require.Equal(t, http.StatusCreated, c.User.Do(http.MethodPost, "/v1/customers", same).Status)
	sent(c)

	require.Equal(t, before, w.rowsOf(t, d), "something of the other tenant has changed")
	a = d.User.Do(http.MethodGet, "/v1/executions/"+d.execution, nil)
	require.Contains(t, string(a.Body), `"verb":"delta-shop:list_orders"`)
}

func TestListShowsNothingOfOtherTenants(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	calls, manages := w.keys(t)
	lists := 0
	for _, op := range w.doc.ops {
		if op.method != http.MethodGet || strings.Contains(op.path, "{") || op.path == eventStream {
			continue
		}
		for _, query := range []string{"", "?limit=500", "?limit=500&status=all", "?status=active&limit=500", "?format=tools&limit=500", "?q=beta", "?search=beta", "?order=asc&limit=500"} {
			for _, header := range []http.Header{bearer(w.a.token), calls, manages} {
				a := w.call(t, request{method: op.method, path: op.path + query, header: header})
				name := "beta"
				if strings.HasPrefix(op.path, "/v1/audit") {
					name = w.b.email // other tests of A ask for B's verbs by name, which A's own trail records
				}
				for _, theirs := range []string{name, w.b.id, w.b.approval, w.b.grant, w.b.credential, w.b.apiKey, w.b.customer, w.b.webhook, w.b.delivery, w.b.killSwitch, w.b.modelProvider} {
					require.NotContains(t, string(a.Body), theirs, "%s%s", op.id(), query)
				}
				lists++
			}
		}
	}
	require.Contains(t, string(w.call(t, request{method: "GET", path: "/v1/executions", header: bearer(w.a.token)}).Body), w.a.execution,
		"the lists show nothing at all")
	t.Logf("%d lists", lists)
}

// Executions are the key's own: another key of the same tenant does not see them.
func TestKeySeesOnlyItsOwnExecutions(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	other, _ := w.a.newKey(t, map[string]any{"name": "other", "permissions": []string{"actions:run"}})
	send := func(method, path string, h http.Header) rig.Answer {
		return w.call(t, request{method: method, path: path, header: h})
	}
	own, others := headers("X-API-Key", w.a.Runtime.Key), headers("X-API-Key", other)
	for _, path := range []string{"GET /v1/executions/%s", "POST /v1/executions/%s/cancel"} {
		method, path, _ := strings.Cut(path, " ")
		unknown := send(method, fmt.Sprintf(path, "alpha-no-such"), others)
		require.Equal(t, anonymous(unknown), anonymous(send(method, fmt.Sprintf(path, w.a.execution), others)))
		require.NotEqual(t, http.StatusNotFound, send(method, fmt.Sprintf(path, w.a.execution), own).Status)
	}
	require.NotContains(t, string(send("GET", "/v1/executions", others).Body), w.a.execution)
	require.Contains(t, string(send("GET", "/v1/executions", own).Body), w.a.execution)
	require.Contains(t, string(send("GET", "/v1/executions", bearer(w.a.token)).Body), w.a.execution)
}

// admin connects as the role that row-level security does not bind.
func (w *world) admin(tb testing.TB) *pgx.Conn {
	tb.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, w.DatabaseURL)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close(ctx) })
	return conn
}

// tables returns the tables of the service with the column that names the tenant,
// "" where there is none.
func tables(tb testing.TB, conn *pgx.Conn) map[string]string {
	tb.Helper()
	rows, err := conn.Query(context.Background(), `SELECT c.relname::text, coalesce((SELECT a.attname::text FROM pg_attribute a
		WHERE a.attrelid = c.oid AND a.attname = CASE c.relname WHEN 'tenants' THEN 'id' ELSE 'tenant_id' END), '')
		FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition`)
	require.NoError(tb, err)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Table, Column string }])
	require.NoError(tb, err)
	out := map[string]string{}
	for _, row := range list {
		out[row.Table] = row.Column
	}
	return out
}

// rowsOf returns everything that the database has of a tenant, by table.
func (w *world) rowsOf(tb testing.TB, own *tenant) map[string][]string {
	tb.Helper()
	conn := w.admin(tb)
	out := map[string][]string{}
	// What the tenant did before has consequences: executions are told of its events.
	require.Eventually(tb, func() bool {
		var settled bool
		require.NoError(tb, conn.QueryRow(context.Background(), `SELECT
			NOT EXISTS (SELECT FROM events e JOIN map_watches w ON w.tenant_id = e.tenant_id WHERE e.tenant_id = $1 AND (e.xid, e.id) > (w.xid, w.id)) AND
			NOT EXISTS (SELECT FROM map_executions m WHERE m.tenant_id = $1 AND (m.news_at IS NOT NULL OR m.signals <> m.signals_heard))`, own.id).Scan(&settled))
		return settled
	}, time.Minute, 20*time.Millisecond)
	for table, column := range tables(tb, conn) {
		if column == "" {
			continue
		}
		// recheck and watched_at are the sweeper's notes, which it makes in its own time.
		rows, err := conn.Query(context.Background(), fmt.Sprintf(`SELECT (to_jsonb(x) - 'recheck' - 'watched_at')::text FROM %s x WHERE %s = $1 ORDER BY 1`,
			pgx.Identifier{table}.Sanitize(), pgx.Identifier{column}.Sanitize()), own.id)
		require.NoError(tb, err)
		out[table], err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(tb, err)
	}
	return out
}
