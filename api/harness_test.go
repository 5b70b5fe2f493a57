package api_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/api"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/chain"
	"agentruntime/internal/record/event"
	"agentruntime/internal/service/importing"
	"agentruntime/internal/service/tooling"
	"agentruntime/internal/tenant/auth"
	"agentruntime/internal/tenant/budget"
	"agentruntime/internal/tenant/limits"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// callers replaces authentication. A key or token is the name of its principal.
type callers struct {
	principals map[string]auth.Principal
	// refusals are returned with the principal.
	refusals map[string]error
}

func (c callers) Key(_ context.Context, raw string) (auth.Principal, error) {
	if p, ok := c.principals[raw]; ok && p.Kind == actor.Key {
		return p, c.refusals[raw]
	}
	return auth.Principal{}, fault.New(fault.CodeInvalidAPIKey, "")
}

func (c callers) Token(_ context.Context, raw string) (auth.Principal, error) {
	if p, ok := c.principals[raw]; ok && p.Kind == actor.User {
		return p, c.refusals[raw]
	}
	return auth.Principal{}, fault.New(fault.CodeInvalidToken, "")
}

// revocable cancels the request that was bound last, when a test says so.
type revocable struct {
	last atomic.Pointer[context.CancelCauseFunc]
}

func (r *revocable) Bind(ctx context.Context, _ auth.Principal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.last.Store(&cancel)
	return ctx, func() { cancel(nil) }
}

func (r *revocable) revoke() { (*r.last.Load())(fault.New(fault.CodeAPIKeyRevoked, "")) }

// site is the API over the real catalog and vault, with two tenants. The callers are
// "user", "foreign" (a user of the other tenant), "runtime" (a key with the catalog
// permission), "calls" (without it), "manager" (with every manage permission) and "agent" (with none of these).
type site struct {
	server *api.Server
	db     testkit.DB
	log    *bytes.Buffer
	tenant uuid.UUID
	trail  *audit.Trail
	// journal has what the runs and the approvals have not written yet.
	journal *audit.Journal
	keys    map[string]bool
	callers callers
	events  *event.Events
	// ahead is how far the server's clock is ahead of ours, in nanoseconds. ended: all sessions
	// have ended.
	ahead     atomic.Int64
	ended     atomic.Bool
	revocable revocable
}

// sessions are callers whose sessions can end.
type sessions struct {
	callers

	ended *atomic.Bool
}

func (s sessions) Token(ctx context.Context, raw string) (auth.Principal, error) {
	if s.ended.Load() {
		return auth.Principal{}, fault.New(fault.CodeInvalidToken, "")
	}
	return s.callers.Token(ctx, raw)
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{db: testkit.Database(t), log: &bytes.Buffer{}, tenant: uuid.New(), keys: map[string]bool{}}
	other := uuid.New()
	for _, id := range []uuid.UUID{s.tenant, other} {
		require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), s.db.Tenant(id), dbsqlc.InsertTenantParams{ID: id, Name: "t"}))
	}
	key := func(perms ...string) auth.Principal {
		return auth.Principal{Kind: actor.Key, TenantID: s.tenant, KeyID: uuid.New(), Permissions: perms}
	}
	who := map[string]auth.Principal{
		"user":    {Kind: actor.User, TenantID: s.tenant, UserID: uuid.New(), Role: actor.RoleOwner},
		"foreign": {Kind: actor.User, TenantID: other, UserID: uuid.New(), Role: actor.RoleOwner},
		"runtime": key(auth.PermActionsCatalog, auth.PermActionsRun),
		"calls":   key(auth.PermActionsRun),
		"manager": key(auth.PermProvidersManage, auth.PermCredentialsManage, auth.PermAuditManage, auth.PermPoliciesManage),
		"agent":   key(auth.PermAgentsMessage),
		"sender":  key(auth.PermEventsSend),
		"reader":  key(auth.PermEventsRead),
	}
	for name, p := range who {
		s.keys[name] = p.Kind == actor.Key
	}
	s.callers = callers{principals: who, refusals: map[string]error{}}
	shelf, err := catalog.New(catalog.Deps{DB: s.db.Pool})
	require.NoError(t, err)
	kms, err := vault.NewLocalKMS("k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	safe, err := vault.Open(vault.Deps{DB: s.db.Pool, KMS: kms, CheckURL: egress.Config{}.CheckURL})
	require.NoError(t, err)
	importer, err := importing.New(egress.Config{}, importing.Deps{Catalog: shelf, Vault: safe})
	require.NoError(t, err)
	signer, err := chain.NewSigner(bytes.Repeat([]byte{7}, 32))
	require.NoError(t, err)
	s.trail, err = audit.New(audit.Config{}, audit.Deps{DB: s.db.Pool, Signer: signer, Log: testkit.Quiet()})
	require.NoError(t, err)
	limited, err := limits.New(rate.Plan{}, limits.Deps{DB: s.db.Pool})
	require.NoError(t, err)
	budgets, err := budget.New(budget.Config{}, budget.Deps{DB: s.db.Pool})
	require.NoError(t, err)
	agents, err := roster.New(roster.Deps{DB: s.db.Pool})
	require.NoError(t, err)
	tools, err := tooling.New()
	require.NoError(t, err)
	box, err := tooling.NewToolbox(tooling.ToolboxDeps{Catalog: shelf, Names: struct{ tooling.Names }{}, Tools: tools})
	require.NoError(t, err)
	sets, err := policy.NewSets(s.db.Pool)
	require.NoError(t, err)
	advice, err := tooling.NewAdviser(tooling.AdviserDeps{Toolbox: box, Catalog: shelf, Policies: sets})
	require.NoError(t, err)
	addresses, err := rate.NewAddresses(rate.AddressConfig{PerMinute: 1000, Loopback: rate.Most})
	require.NoError(t, err)
	policies, runs, journal := governed(t, s.db, shelf, safe)
	s.journal = journal
	s.events, err = event.New(event.Deps{DB: s.db.Pool, Keys: safe, Log: testkit.Quiet()})
	require.NoError(t, err)
	s.server, err = api.New(api.Deps{
		Auth: sessions{s.callers, &s.ended}, Revocations: &s.revocable, Log: slog.New(slog.NewTextHandler(s.log, nil)), Ready: func(context.Context) ([]string, error) { return nil, nil },
		Catalog: shelf, Providers: shelf, Importer: importer, Credentials: safe,
		Accounts: struct{ api.Accounts }{}, Keys: struct{ api.Keys }{}, Runs: runs, Files: struct{ api.Files }{}, Customers: struct{ api.Customers }{}, Facts: struct{ api.Facts }{}, KillSwitches: struct{ api.KillSwitches }{}, ModelProviders: struct{ api.ModelProviders }{}, Approvals: struct{ api.Approvals }{}, Policies: policies, Audit: s.trail,
		Events: s.events, Webhooks: struct{ api.Webhooks }{}, Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) },
		Creations: struct{ api.Creations }{}, RateLimits: limited, Budgets: budgets, Addresses: oneMinute{addresses},
		Maps: struct{ api.Maps }{}, Agents: agents, Advice: advice, Authoring: struct{ api.Authoring }{}, Tooling: tools, Executions: struct{ api.Executions }{}, Conversations: struct{ api.Conversations }{}, GoalChanges: struct{ api.GoalChanges }{}, AgentSessions: struct{ api.AgentSessions }{}, Sandboxes: struct{ api.Sandboxes }{},
	})
	require.NoError(t, err)
	return s
}

// oneMinute counts every request in the same minute, so that no test meets the end of one: a
// request is counted a moment after it is answered, and a thousand of them take seconds.
type oneMinute struct{ addresses *rate.Addresses }

func (m oneMinute) See(address string, _ time.Time) rate.State {
	return m.addresses.See(address, time.Unix(0, 0))
}

func (m oneMinute) Count(address string, _ time.Time) rate.State {
	return m.addresses.Count(address, time.Unix(0, 0))
}

// limited has a caller's requests find these windows, and be refused with err if it is not nil.
func (s *site) limited(as string, found rate.State, err error) {
	p := s.callers.principals[as]
	p.Rate = found
	s.callers.principals[as], s.callers.refusals[as] = p, err
}

// answer is a response with the parts of its envelope.
type answer struct {
	status     int
	header     http.Header
	body       string
	data       json.RawMessage
	pagination json.RawMessage
	code       string
	paths      []string
}

// do sends a request as one of the callers. An empty body means no body; header lists
// names and values in turn.
func (s *site) do(t *testing.T, as, method, path, body string, header ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.keys[as] {
		r.Header.Set("X-API-Key", as)
	} else {
		r.Header.Set("Authorization", "Bearer "+as)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Result().Header, body: w.Body.String()}
	var envelope struct {
		Success    bool
		Data       json.RawMessage
		Pagination json.RawMessage
		Error      struct {
			Code, RequestID string
			Details         []fault.Detail
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &envelope), a.body)
	require.Equal(t, w.Code < 400, envelope.Success, a.body)
	require.Less(t, w.Code, 500, a.body)
	if !envelope.Success {
		require.Equal(t, a.header.Get("X-Request-Id"), envelope.Error.RequestID)
	}
	a.data, a.pagination, a.code = envelope.Data, envelope.Pagination, envelope.Error.Code
	for _, d := range envelope.Error.Details {
		a.paths = append(a.paths, d.Path)
	}
	return a
}

// into requires the status and decodes the data.
func (a answer) into(t *testing.T, status int, dst any) {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	require.NoError(t, json.Unmarshal(a.data, dst), a.body)
}

// refused requires a status and an error code.
func (a answer) refused(t *testing.T, status int, code fault.Code) {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	require.Equal(t, string(code), a.code, a.body)
}
