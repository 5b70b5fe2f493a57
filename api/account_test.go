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
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
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
		Permissions: []string{"agents:message"}, CreatedBy: "user:u", CreatedAt: someday,
	}, d.err
}

func (d *door) ListKeys(_ context.Context, tenant uuid.UUID, status string) ([]account.Key, error) {
	d.args = []any{tenant, status}
	if status == "active" {
		return nil, d.err
	}
	agent := "a"
	return []account.Key{{
		ID: someKey, Preview: "ark_…", Name: "n", Status: account.KeyRevoked, AgentID: &agent, CreatedBy: "user:u",
		CreatedAt: someday, LastUsedAt: &someday, RevokedAt: &someday,
	}}, d.err
}

func (d *door) Me(_ context.Context, who actor.Actor, session uuid.UUID) (account.Identity, error) {
	d.args = []any{who.ID, session}
	me := account.Identity{TenantID: someTenant}
	if who.Kind == actor.Key {
		me.Key = &account.Key{ID: someKey, Name: "k", Permissions: []string{"actions:run"}, AllowedIPs: []string{"10.0.0.0/8"}, CreatedBy: "user:u"}
		return me, d.err
	}
	me.TenantName = "Ada's"
	me.User = &account.User{ID: someUser, Email: "a@example.com", Name: "Ada", Role: actor.RoleOwner}
	me.Session = &account.Session{ID: session, CreatedAt: someday, RefreshedAt: someday, ExpiresAt: someday}
	return me, d.err
}

func (d *door) Sessions(context.Context, actor.Actor) ([]account.Session, error) {
	at := account.Session{ID: someKey, CreatedAt: someday, RefreshedAt: someday, ExpiresAt: someday}
	other := at
	other.ID = someUser
	return []account.Session{at, other}, d.err
}

func (d *door) EndSession(_ context.Context, who actor.Actor, session uuid.UUID) error {
	d.args = []any{who.ID, session}
	return d.err
}

func (d *door) EndOtherSessions(_ context.Context, who actor.Actor, keep uuid.UUID) error {
	d.args = []any{who.ID, keep}
	return d.err
}

func (d *door) ChangePassword(_ context.Context, who actor.Actor, session uuid.UUID, in account.NewPassword) error {
	d.args = []any{who.ID, session, in}
	return d.err
}

func (d *door) Join(_ context.Context, _ actor.Actor, in account.AcceptInput) error {
	d.args = []any{in}
	return d.err
}

func (d *door) ResendVerification(_ context.Context, _ actor.Actor, email string) error {
	d.args = []any{"resend", email}
	return d.err
}

func (d *door) ForgotPassword(_ context.Context, _ actor.Actor, email string) error {
	d.args = []any{"forgot", email}
	return d.err
}

func (d *door) VerifyEmail(_ context.Context, _ actor.Actor, token string) error {
	d.args = []any{"verify", token}
	return d.err
}

func (d *door) ResetPassword(_ context.Context, _ actor.Actor, token, password string) error {
	d.args = []any{"reset", token, password}
	return d.err
}

func (d *door) ChangeEmail(_ context.Context, who actor.Actor, in account.NewEmail) error {
	d.args = []any{who.ID, in}
	return d.err
}

func (d *door) GetKey(_ context.Context, tenant uuid.UUID, id string) (account.Key, error) {
	d.args = []any{tenant, id}
	return account.Key{ID: someKey, Preview: "ark_…", CreatedBy: "user:u"}, d.err
}

func (d *door) ChangeKey(_ context.Context, _ actor.Actor, id string, c account.KeyChange) (account.Key, error) {
	d.args = []any{id, c}
	return account.Key{ID: someKey, Preview: "ark_…", CreatedBy: "user:u"}, d.err
}

func (d *door) RotateIdentitySecret(ctx context.Context, who actor.Actor, id string, overlap time.Duration) (account.Key, error) {
	return d.RotateKey(ctx, who, id, overlap)
}

func (d *door) RotateKey(_ context.Context, _ actor.Actor, id string, overlap time.Duration) (account.Key, error) {
	d.args = []any{id, overlap}
	return account.Key{ID: someKey, Secret: "ark_new", Preview: "ark_…", CreatedBy: "user:u"}, d.err
}

func (d *door) RevokeKey(_ context.Context, who actor.Actor, id string, _ fault.Expect[account.Key]) error {
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
		Auth: d, Revocations: d, Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) ([]string, error) { return nil, nil },
		Accounts: d, Keys: d, Catalog: struct{ Catalog }{}, Providers: struct{ providers }{}, Importer: struct{ Importer }{},
		Credentials: struct{ Credentials }{}, Runs: struct{ Runs }{}, Files: struct{ Files }{}, Customers: struct{ Customers }{}, Facts: struct{ Facts }{}, Budgets: struct{ Budgets }{}, KillSwitches: struct{ KillSwitches }{}, ModelProviders: struct{ ModelProviders }{}, Approvals: struct{ Approvals }{}, Policies: struct{ Policies }{},
		Audit: struct{ Audit }{}, Events: struct{ Events }{}, Webhooks: struct{ Webhooks }{}, Creations: struct{ Creations }{}, RateLimits: struct{ RateLimits }{}, Addresses: anyAddress(), Maps: struct{ Maps }{}, Agents: struct{ Agents }{}, Advice: struct{ Advice }{}, Authoring: struct{ Authoring }{}, Tooling: struct{ Tooling }{}, Executions: struct{ Executions }{}, Conversations: struct{ Conversations }{}, GoalChanges: struct{ GoalChanges }{}, AgentSessions: struct{ AgentSessions }{}, Sandboxes: struct{ Sandboxes }{}, Proxies: wire.Proxies{netip.MustParsePrefix("192.0.2.128/25")},
	})
	require.NoError(t, err)
	return s
}

// ask sends one request; credential is "jwt", "key" or "".
func ask(t *testing.T, s *Server, method, path, credential, body string, header ...string) *httptest.ResponseRecorder {
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
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
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
			`{"success":true,"data":{"id":"01900000-0000-7000-8000-000000000003","key":"ark_secret","name":"n","status":"active","permissions":["agents:message"],"agent_id":null,"identity_mode":null,"identity_verification":false,"allowed_origins":[],"allowed_ips":[],"limits":{"requests_per_minute":null,"requests_per_hour":null,"requests_per_day":null},"created_by":"user:u","createdAt":"2026-01-02T03:04:05.678Z","lastUsedAt":null,"expires_at":null,"rotated_at":null,"previous_until":null,"revoked_at":null}}`,
			"/v1/api-keys/01900000-0000-7000-8000-000000000003",
		},
		"empty list": {http.MethodGet, "/v1/api-keys?status=active", "jwt", "", 200, `{"success":true,"data":[]}`, ""},
		"list": {
			http.MethodGet, "/v1/api-keys?status=all", "jwt", "", 200,
			`{"success":true,"data":[{"id":"01900000-0000-7000-8000-000000000003","key":"ark_…","name":"n","status":"revoked","permissions":[],"agent_id":"a","identity_mode":null,"identity_verification":false,"allowed_origins":[],"allowed_ips":[],"limits":{"requests_per_minute":null,"requests_per_hour":null,"requests_per_day":null},"created_by":"user:u","createdAt":"2026-01-02T03:04:05.678Z","lastUsedAt":"2026-01-02T03:04:05.678Z","expires_at":null,"rotated_at":null,"previous_until":null,"revoked_at":"2026-01-02T03:04:05.678Z"}]}`, "",
		},
		"revoke": {http.MethodDelete, "/v1/api-keys/x", "jwt", "", 200, `{"success":true,"data":{"deleted":true}}`, ""},
		"me as a user": {
			http.MethodGet, "/v1/me", "jwt", "", 200,
			`{"success":true,"data":{"type":"user","tenant":{"id":"01900000-0000-7000-8000-000000000002","name":"Ada's"},"user":{"id":"01900000-0000-7000-8000-000000000001","email":"a@example.com","name":"Ada","role":"owner","email_verified":false},"session":{"id":"01900000-0000-7000-8000-000000000003","current":true,"created_at":"2026-01-02T03:04:05.678Z","refreshed_at":"2026-01-02T03:04:05.678Z","expires_at":"2026-01-02T03:04:05.678Z"},"api_key":null}}`, "",
		},
		"me as a key": {
			http.MethodGet, "/v1/me", "key", "", 200,
			`{"success":true,"data":{"type":"key","tenant":{"id":"01900000-0000-7000-8000-000000000002","name":null},"user":null,"session":null,"api_key":{"id":"01900000-0000-7000-8000-000000000003","name":"k","permissions":["actions:run"],"agent_id":null,"identity_mode":null,"expires_at":null}}}`, "",
		},
		"sessions": {
			http.MethodGet, "/v1/auth/sessions", "jwt", "", 200,
			`{"success":true,"data":[{"id":"01900000-0000-7000-8000-000000000003","current":true,"created_at":"2026-01-02T03:04:05.678Z","refreshed_at":"2026-01-02T03:04:05.678Z","expires_at":"2026-01-02T03:04:05.678Z"},{"id":"01900000-0000-7000-8000-000000000001","current":false,"created_at":"2026-01-02T03:04:05.678Z","refreshed_at":"2026-01-02T03:04:05.678Z","expires_at":"2026-01-02T03:04:05.678Z"}]}`, "",
		},
		"end others":      {http.MethodDelete, "/v1/auth/sessions", "jwt", "", 200, `{"success":true,"data":{"deleted":true}}`, ""},
		"end one":         {http.MethodDelete, "/v1/auth/sessions/x", "jwt", "", 200, `{"success":true,"data":{"deleted":true}}`, ""},
		"change password": {http.MethodPost, "/v1/auth/change-password", "jwt", `{"current_password":"a","new_password":"b"}`, 200, `{"success":true,"data":{"changed":true}}`, ""},
		"verify":          {http.MethodPost, "/v1/auth/verify-email", "", `{"token":"t"}`, 200, `{"success":true,"data":{"verified":true}}`, ""},
		"reset":           {http.MethodPost, "/v1/auth/reset-password", "", `{"token":"t","new_password":"p"}`, 200, `{"success":true,"data":{"changed":true}}`, ""},
		"forgot":          {http.MethodPost, "/v1/auth/forgot-password", "", `{"email":"a"}`, 202, `{"success":true,"data":{"message":"If the address has a user, a mail with a link is on its way."}}`, ""},
		"resend":          {http.MethodPost, "/v1/auth/resend-verification", "", `{"email":"a"}`, 202, `{"success":true,"data":{"message":"If the address has a user who has not verified it, a mail with a link is on its way."}}`, ""},
		"change email":    {http.MethodPost, "/v1/auth/change-email", "jwt", `{"current_password":"p","email":"a"}`, 202, `{"success":true,"data":{"message":"A mail to the new address has a link to confirm it."}}`, ""},
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
	ask(t, s, http.MethodPost, "/v1/api-keys", "jwt", `{"name":"n","permissions":[],"agent_id":"a","identity_mode":"required","allowed_origins":["o"],"allowed_ips":["i"],"expires_at":"2026-01-02T03:04:05.678Z"}`)
	agent, mode := "a", "required"
	require.Equal(t, account.KeyInput{Name: "n", Permissions: []string{}, AgentID: &agent, IdentityMode: &mode, AllowedOrigins: []string{"o"}, AllowedIPs: []string{"i"}, ExpiresAt: &someday}, d.key)
	require.Equal(t, []any{someTenant, someUser}, d.args)
	ask(t, s, http.MethodDelete, "/v1/api-keys/a%2Fb", "jwt", "")
	require.Equal(t, []any{someTenant, "a/b"}, d.args)
}

func TestKeyChangeReachesTheDomain(t *testing.T) {
	t.Parallel()
	var never *time.Time
	at := &someday
	for body, want := range map[string]account.KeyChange{
		`{}`:                  {},
		`{"name":"n"}`:        {Name: new("n")},
		`{"expires_at":null}`: {ExpiresAt: &never},
		`{"expires_at":"2026-01-02T03:04:05.678Z"}`:                       {ExpiresAt: &at},
		`{"allowed_ips":[],"allowed_origins":[],"permissions":["a","b"]}`: {AllowedIPs: []string{}, AllowedOrigins: []string{}, Permissions: []string{"a", "b"}},
	} {
		d := &door{}
		w := ask(t, accountServer(t, d), http.MethodPatch, "/v1/api-keys/x", "jwt", body)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.Equal(t, []any{"x", want}, d.args, body)
	}
	for _, body := range []string{`{"expires_at":7}`, `{"expires_at":"soon"}`, `{"expires_at":""}`, `{"agent_id":"a"}`, `{"allowed_ip":[]}`} {
		d := &door{}
		require.Equal(t, http.StatusBadRequest, ask(t, accountServer(t, d), http.MethodPatch, "/v1/api-keys/x", "jwt", body).Code, body)
		require.Nil(t, d.args)
	}
}

func TestKeyRotationReachesTheDomain(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]time.Duration{"": 0, `{}`: 0, `{"overlap_seconds":90}`: 90 * time.Second, `{"overlap_seconds":604800}`: account.MaxOverlap} {
		d := &door{}
		w := ask(t, accountServer(t, d), http.MethodPost, "/v1/api-keys/x/rotate", "jwt", body)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.Contains(t, w.Body.String(), `"key":"ark_new"`)
		require.Equal(t, []any{"x", want}, d.args)
	}
	for _, body := range []string{`{"overlap_seconds":-1}`, `{"overlap_seconds":604801}`, `{"overlap_seconds":"1"}`, `{"overlap_second":1}`, `{"overlap_seconds":9223372036854775807}`} {
		require.Equal(t, http.StatusBadRequest, ask(t, accountServer(t, &door{}), http.MethodPost, "/v1/api-keys/x/rotate", "jwt", body).Code, body)
	}
}

func TestKeysCannotManageKeys(t *testing.T) {
	t.Parallel()
	s := accountServer(t, &door{})
	for _, path := range []struct{ method, path string }{
		{http.MethodPost, "/v1/api-keys"},
		{http.MethodGet, "/v1/api-keys"},
		{http.MethodDelete, "/v1/api-keys/x"},
		{http.MethodPost, "/v1/auth/logout"},
		{http.MethodGet, "/v1/api-keys/x"},
		{http.MethodPatch, "/v1/api-keys/x"},
		{http.MethodPost, "/v1/api-keys/x/rotate"},
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

func TestServerNamesTheCollaboratorsItLacks(t *testing.T) {
	t.Parallel()
	_, err := New(Deps{Auth: &door{}, Runs: struct{ Runs }{}})
	require.ErrorContains(t, err, "missing: Revocations, Log, Ready,")
	require.ErrorContains(t, err, "Customers, Facts")
	require.NotContains(t, err.Error(), "Auth,")
	require.NotContains(t, err.Error(), "Runs,")
}
