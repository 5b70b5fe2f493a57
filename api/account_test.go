package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/tenant/account"
	"agentruntime/internal/tenant/auth"
)

var (
	someUser   = uuid.MustParse("01900000-0000-7000-8000-000000000001")
	someTenant = uuid.MustParse("01900000-0000-7000-8000-000000000002")
	someKey    = uuid.MustParse("01900000-0000-7000-8000-000000000003")
	someday    = time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.UTC)
)

// providers is Providers under another name, so that its method Providers stays visible.
type providers = Providers

// door replaces authentication and the account domain. It records the calls that it gets.
type door struct {
	signup account.SignupInput
	login  account.LoginInput
	key    account.KeyInput
	who    actor.Actor
	args   []any
	err    error
}

func (*door) Key(context.Context, string) (auth.Principal, error) {
	return auth.Principal{Kind: actor.Key, TenantID: someTenant, KeyID: someKey, Permissions: auth.Permissions()}, nil
}

func (*door) Token(context.Context, string) (auth.Principal, error) {
	return auth.Principal{Kind: actor.User, TenantID: someTenant, UserID: someUser, SessionID: someKey, Role: actor.RoleOwner}, nil
}

func (*door) Bind(ctx context.Context, _ auth.Principal) (context.Context, func()) {
	return ctx, func() {}
}

func (d *door) SignUp(_ context.Context, who actor.Actor, in account.SignupInput) (account.SignedUp, error) {
	d.signup, d.who = in, who
	return account.SignedUp{UserID: someUser, Message: "m"}, d.err
}

func (d *door) LogIn(_ context.Context, who actor.Actor, in account.LoginInput) (account.Login, error) {
	d.login, d.who = in, who
	return someLogin(), d.err
}

func (d *door) Refresh(_ context.Context, who actor.Actor, token string) (account.Login, error) {
	d.args, d.who = []any{token}, who
	return someLogin(), d.err
}

func (d *door) LogOut(_ context.Context, who actor.Actor, session uuid.UUID) error {
	d.args, d.who = []any{who.TenantID, session}, who
	return d.err
}

func (d *door) AcceptInvitation(_ context.Context, who actor.Actor, in account.AcceptInput) (account.Login, error) {
	d.args, d.who = []any{in}, who
	return someLogin(), d.err
}

func (d *door) CreateKey(_ context.Context, who actor.Actor, in account.KeyInput) (account.Key, error) {
	d.key, d.args = in, []any{who.TenantID, who.ID}
	return account.Key{
		ID: someKey, Secret: "ark_secret", Preview: "ark_…", Name: in.Name, Status: account.KeyActive,
		Permissions: []string{"agents:message"}, CreatedAt: someday,
	}, d.err
}

func (d *door) ListKeys(_ context.Context, tenant uuid.UUID, status string) ([]account.Key, error) {
	d.args = []any{tenant, status}
	if status == "active" {
		return nil, d.err
	}
	agent := "a"
	return []account.Key{{
		ID: someKey, Preview: "ark_…", Name: "n", Status: account.KeyRevoked, AgentID: &agent,
		CreatedAt: someday, LastUsedAt: &someday, RevokedAt: &someday,
	}}, d.err
}

func (d *door) RevokeKey(_ context.Context, who actor.Actor, id string) error {
	d.args = []any{who.TenantID, id}
	return d.err
}

func someLogin() account.Login {
	return account.Login{
		Token: "jwt", ExpiresIn: time.Hour, RefreshToken: "art_x", UserID: someUser, TenantID: someTenant, Email: "a@example.com",
	}
}

func accountServer(t *testing.T, d *door) *Server {
	t.Helper()
	s, err := New(Deps{
		Auth: d, Revocations: d, Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil },
		Accounts: d, Keys: d, Catalog: struct{ Catalog }{}, Providers: struct{ providers }{}, Importer: struct{ Importer }{},
		Credentials: struct{ Credentials }{}, Runs: struct{ Runs }{}, Approvals: struct{ Approvals }{}, Policies: struct{ Policies }{},
		Audit: struct{ Audit }{}, Proxies: wire.Proxies{netip.MustParsePrefix("192.0.2.128/25")},
	})
	require.NoError(t, err)
	return s
}

// ask sends one request; credential is "jwt", "key" or "".
func ask(t *testing.T, s *Server, method, path, credential, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.7:1234"
	r.Header.Set("X-Request-Id", "req-1")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	switch credential {
	case "jwt":
		r.Header.Set("Authorization", "Bearer x")
	case "key":
		r.Header.Set("X-API-Key", "x")
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestAccountAnswers(t *testing.T) {
	t.Parallel()
	const loginData = `{"success":true,"data":{"token":"jwt","expires_in":3600,"refresh_token":"art_x","user":{"id":"01900000-0000-7000-8000-000000000001","email":"a@example.com","tenantId":"01900000-0000-7000-8000-000000000002"}}}`
	for name, tc := range map[string]struct {
		method, path, credential, body string
		status                         int
		want, location                 string
	}{
		"signup": {
			http.MethodPost, "/v1/auth/signup", "", `{"email":"a@example.com","password":"correct horse","name":null,"other":1}`, 201,
			`{"success":true,"data":{"userId":"01900000-0000-7000-8000-000000000001","message":"m"}}`, "",
		},
		"login":   {http.MethodPost, "/v1/auth/login", "", `{"email":"a@example.com","password":"correct horse"}`, 200, loginData, ""},
		"refresh": {http.MethodPost, "/v1/auth/refresh", "", `{"refresh_token":"art_x"}`, 200, loginData, ""},
		"logout":  {http.MethodPost, "/v1/auth/logout", "jwt", "", 200, `{"success":true,"data":{"logged_out":true}}`, ""},
		"create": {
			http.MethodPost, "/v1/api-keys", "jwt", `{"name":"n"}`, 201,
			`{"success":true,"data":{"id":"01900000-0000-7000-8000-000000000003","key":"ark_secret","name":"n","status":"active","permissions":["agents:message"],"agent_id":null,"identity_mode":null,"allowed_origins":[],"createdAt":"2026-01-02T03:04:05.678Z","lastUsedAt":null}}`,
			"/v1/api-keys/01900000-0000-7000-8000-000000000003",
		},
		"empty list": {http.MethodGet, "/v1/api-keys?status=active", "jwt", "", 200, `{"success":true,"data":[]}`, ""},
		"list": {
			http.MethodGet, "/v1/api-keys?status=all", "jwt", "", 200,
			`{"success":true,"data":[{"id":"01900000-0000-7000-8000-000000000003","key":"ark_…","name":"n","status":"revoked","permissions":[],"agent_id":"a","identity_mode":null,"allowed_origins":[],"createdAt":"2026-01-02T03:04:05.678Z","lastUsedAt":"2026-01-02T03:04:05.678Z","revoked_at":"2026-01-02T03:04:05.678Z"}]}`, "",
		},
		"revoke": {http.MethodDelete, "/v1/api-keys/x", "jwt", "", 200, `{"success":true,"data":{"deleted":true}}`, ""},
		"signup without fields": {
			http.MethodPost, "/v1/auth/signup", "", `{}`, 400,
			`{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The request is not valid.","requestId":"req-1","details":[{"path":"/email","rule":"required","message":"email is required."},{"path":"/password","rule":"required","message":"password is required."}]}}`, "",
		},
		"key without a name": {
			http.MethodPost, "/v1/api-keys", "jwt", `{}`, 400,
			`{"success":false,"error":{"code":"VALIDATION_ERROR","message":"name is required.","requestId":"req-1","details":[{"path":"/name","rule":"required","message":"name is required."}]}}`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(t, accountServer(t, &door{}), tc.method, tc.path, tc.credential, tc.body)
			require.Equal(t, tc.want, w.Body.String())
			require.Equal(t, tc.status, w.Code)
			require.Equal(t, tc.location, w.Header().Get("Location"))
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		})
	}
}

func TestAccountInputs(t *testing.T) {
	t.Parallel()
	d := &door{}
	s := accountServer(t, d)
	ask(t, s, http.MethodPost, "/v1/auth/signup", "", `{"email":"e","password":"p","name":"n"}`)
	require.Equal(t, account.SignupInput{Email: "e", Password: "p", Name: "n"}, d.signup)
	ask(t, s, http.MethodPost, "/v1/auth/login", "", `{"email":"e","password":"p"}`)
	require.Equal(t, "192.0.2.7", d.who.SourceAddr)
	ask(t, s, http.MethodPost, "/v1/auth/refresh", "", `{"refresh_token":"t"}`)
	require.Equal(t, []any{"t"}, d.args)
	ask(t, s, http.MethodPost, "/v1/auth/logout", "jwt", "")
	require.Equal(t, []any{someTenant, someKey}, d.args)
	ask(t, s, http.MethodPost, "/v1/api-keys", "jwt", `{"name":"n","permissions":[],"agent_id":"a","identity_mode":"required","allowed_origins":["o"]}`)
	agent, mode := "a", "required"
	require.Equal(t, account.KeyInput{Name: "n", Permissions: []string{}, AgentID: &agent, IdentityMode: &mode, AllowedOrigins: []string{"o"}}, d.key)
	require.Equal(t, []any{someTenant, someUser}, d.args)
	ask(t, s, http.MethodDelete, "/v1/api-keys/a%2Fb", "jwt", "")
	require.Equal(t, []any{someTenant, "a/b"}, d.args)
}

func TestKeysCannotManageKeys(t *testing.T) {
	t.Parallel()
	s := accountServer(t, &door{})
	for _, path := range []struct{ method, path string }{
		{http.MethodPost, "/v1/api-keys"}, {http.MethodGet, "/v1/api-keys"}, {http.MethodDelete, "/v1/api-keys/x"}, {http.MethodPost, "/v1/auth/logout"},
	} {
		w := ask(t, s, path.method, path.path, "key", "")
		require.Equal(t, http.StatusForbidden, w.Code, path)
		require.Contains(t, w.Body.String(), fault.CodeInsufficientPermissions)
		w = ask(t, s, path.method, path.path, "", "")
		require.Equal(t, http.StatusUnauthorized, w.Code, path)
	}
}

func TestThrottledLoginSaysWhen(t *testing.T) {
	t.Parallel()
	throttled := fault.New(fault.CodeLoginThrottled, "")
	throttled.RetryAfter = 90*time.Second + time.Millisecond
	w := ask(t, accountServer(t, &door{err: throttled}), http.MethodPost, "/v1/auth/login", "", `{"email":"e","password":"p"}`)
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "91", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `"retry_after_ms":90001`)
}

func TestLoginBehindATrustedProxyHasTheCallersAddress(t *testing.T) {
	t.Parallel()
	for peer, want := range map[string]string{"192.0.2.200:1": "203.0.113.9", "192.0.2.7:1": "192.0.2.7"} {
		d := &door{}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/auth/login", strings.NewReader(`{"email":"e","password":"p"}`))
		r.RemoteAddr = peer
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Forwarded-For", "198.51.100.7, 203.0.113.9")
		accountServer(t, d).ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, want, d.who.SourceAddr)
	}
}
