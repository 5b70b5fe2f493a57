package api

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/auth"
)

// anyone admits every caller, to all that its kind may do.
type anyone struct{}

func (anyone) Key(context.Context, string) (auth.Principal, error) {
	return auth.Principal{Kind: actor.Key, Permissions: auth.Permissions()}, nil
}

func (anyone) Token(context.Context, string) (auth.Principal, error) {
	return auth.Principal{Kind: actor.User, Role: actor.RoleOwner}, nil
}

func (anyone) Bind(ctx context.Context, _ auth.Principal) (context.Context, func()) {
	return ctx, func() {}
}

// hollow is a server whose services are missing: a call that reaches one fails with 500.
func hollow(t *testing.T) *Server {
	t.Helper()
	s, err := New(Deps{
		Auth: anyone{}, Revocations: anyone{}, Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) ([]string, error) { return nil, nil },
		Accounts: struct{ Accounts }{}, Keys: struct{ Keys }{}, Catalog: struct{ Catalog }{}, Providers: struct{ providers }{},
		Importer: struct{ Importer }{}, Credentials: struct{ Credentials }{}, Runs: struct{ Runs }{}, Files: struct{ Files }{}, Customers: struct{ Customers }{}, Facts: struct{ Facts }{}, Budgets: struct{ Budgets }{}, KillSwitches: struct{ KillSwitches }{}, ModelProviders: struct{ ModelProviders }{}, Approvals: struct{ Approvals }{},
		Policies: struct{ Policies }{}, Audit: struct{ Audit }{}, Events: struct{ Events }{}, Webhooks: struct{ Webhooks }{}, Creations: struct{ Creations }{}, RateLimits: struct{ RateLimits }{}, Addresses: anyAddress(),
		Maps: struct{ Maps }{}, Agents: struct{ Agents }{}, Advice: struct{ Advice }{}, Authoring: struct{ Authoring }{}, Tooling: struct{ Tooling }{}, Executions: struct{ Executions }{}, Conversations: struct{ Conversations }{}, GoalChanges: struct{ GoalChanges }{}, AgentSessions: struct{ AgentSessions }{}, Sandboxes: struct{ Sandboxes }{},
	})
	require.NoError(t, err)
	return s
}

// refusal is the error object of an answer.
type refusal struct {
	Error struct {
		Code    fault.Code
		Details []fault.Detail
	}
}

// call sends a request to a route and returns the status with the error object.
func call(t *testing.T, s *Server, rt route, query, body string) (int, refusal) {
	t.Helper()
	path := strings.NewReplacer("{id}", "none", "{slug}", "none", "{verb}", "a:b").Replace(rt.path)
	r := httptest.NewRequestWithContext(t.Context(), rt.method, path+query, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer x")
	if rt.takes == takesKey {
		r.Header.Set("X-API-Key", "x")
	}
	if rt.body > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var answer refusal
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
	return w.Code, answer
}

func TestQueryParameterUnknownIsRefusedByEachRoute(t *testing.T) {
	t.Parallel()
	s := hollow(t)
	for _, rt := range s.routes() {
		status, got := call(t, s, rt, "?limti=1&zz_top=x", "{}")
		require.Equal(t, http.StatusBadRequest, status, "%s %s", rt.method, rt.path)
		require.Equal(t, fault.CodeValidation, got.Error.Code, "%s %s", rt.method, rt.path)
		paths := []string{}
		for _, d := range got.Error.Details {
			require.Equal(t, "unknown_field", d.Rule)
			paths = append(paths, d.Path)
		}
		require.Equal(t, []string{"query.limti", "query.zz_top"}, paths, "%s %s", rt.method, rt.path)
		status, got = call(t, s, rt, "?a=%zz", "{}")
		require.Equal(t, http.StatusBadRequest, status, "%s %s", rt.method, rt.path)
		require.Equal(t, "query", got.Error.Details[0].Path)
	}
}

func TestQueryParameterUnknownIsNamedWithThoseThatExist(t *testing.T) {
	t.Parallel()
	s := hollow(t)
	executions := s.routes()[slices.IndexFunc(s.routes(), func(rt route) bool { return rt.path == "/v1/executions" })]
	_, got := call(t, s, executions, "?stauts=failed", "")
	require.Contains(t, got.Error.Details[0].Message, "status, provider, verb")
	_, got = call(t, s, executions, "?"+strings.Repeat("n", 65)+"=1", "")
	require.Equal(t, "query", got.Error.Details[0].Path)
	_, got = call(t, s, executions, "?a1&a2&a3&a4&a5&a6&a7&a8&a9&b1&b2", "")
	require.Len(t, got.Error.Details, 10)
}

func TestQueryParameterUnknownIsIgnoredByHealth(t *testing.T) {
	t.Parallel()
	s := hollow(t)
	for _, path := range []string{"/healthz?t=1", "/readyz?t=1", "/docs?t=1"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		require.Equal(t, http.StatusOK, w.Code, path)
	}
}

// A body's schema says whether unknown members are refused, and the route does as it says. Those
// that ignore them are few and listed here.
func TestBodyMemberUnknownIsRefusedAsDocumented(t *testing.T) {
	t.Parallel()
	s, doc := hollow(t), contract(t)
	var open []string
	for _, rt := range s.routes() {
		if rt.body == 0 || rt.body == bodyDefinition {
			continue // a definition is judged as a whole
		}
		id := rt.method + " " + rt.path
		schema := resolve(t, doc, at(t, doc, "paths", rt.path, strings.ToLower(rt.method), "requestBody", "content", "application/json", "schema"))
		if schema["additionalProperties"] != false {
			open = append(open, id)
		}
		status, got := call(t, s, rt, "", `{"zz_top":1,"verb":7,"email":7,"refresh_token":7,"token":7}`)
		require.Equal(t, http.StatusBadRequest, status, id)
		unknown := slices.ContainsFunc(got.Error.Details, func(d fault.Detail) bool { return d.Path == "/zz_top" && d.Rule == "unknown_field" })
		require.Equal(t, schema["additionalProperties"] == false, unknown, "%s: %v", id, got.Error.Details)
	}
	require.ElementsMatch(t, []string{
		"POST /v1/auth/signup", "POST /v1/auth/login", "POST /v1/auth/refresh", "POST /v1/auth/accept-invitation",
		"POST /v1/runtime/governance/evaluate",
	}, open)
}

// A cursor that was made up has any time, and Postgres does not know all of them.
func TestCursorOfSessionsHasATimeOfPostgres(t *testing.T) {
	t.Parallel()
	for at, want := range map[uint64]bool{0: true, math.MaxInt64: true, 1 << 63: false, math.MaxUint64: false} {
		_, ok := sessionPlaceOf(string(binary.BigEndian.AppendUint64(nil, at)) + strings.Repeat("x", 16))
		require.Equal(t, want, ok, at)
	}
}
