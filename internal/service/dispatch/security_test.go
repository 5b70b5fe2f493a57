package dispatch_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/service/dispatch"
)

// securedDocument has an operation for each way to say what a call must present.
const securedDocument = `{"openapi":"3.1.0","info":{"title":"Shop"},"security":[{"k1":[]}],
	"components":{"securitySchemes":{
		"k1":{"type":"apiKey","in":"header","name":"X-K1"},"k2":{"type":"apiKey","in":"query","name":"k2"},
		"login":{"type":"http","scheme":"basic"},"token":{"type":"http","scheme":"bearer"},
		"oauth":{"type":"oauth2","flows":{}},"digest":{"type":"http","scheme":"digest"}}},
	"paths":{
		"/default":{"get":{"operationId":"default"}},
		"/both":{"get":{"operationId":"both","security":[{"k1":[],"k2":[]}]}},
		"/second":{"get":{"operationId":"second","security":[{"k2":[]}]}},
		"/either":{"get":{"operationId":"either","security":[{"login":[]},{"k1":[]}]}},
		"/scoped":{"get":{"operationId":"scoped","security":[{"digest":[]},{"oauth":["read","write"]}]}},
		"/public":{"get":{"operationId":"public","security":[]}},
		"/optional":{"get":{"operationId":"optional","security":[{"k1":[]},{}]}},
		"/never":{"get":{"operationId":"never","security":[{"digest":[]}]}}}}`

// shop is a dispatcher over a tenant that has imported securedDocument, and its provider.
type shop struct {
	*dispatch.Dispatcher
	db     testkit.DB
	shelf  *catalog.Catalog
	vault  *vault.Vault
	by     actor.Actor
	got    chan *http.Request
	report *openapi.Imported
}

func newShop(t *testing.T, auth *credential.Auth) *shop {
	t.Helper()
	s := &shop{got: make(chan *http.Request, 1)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.got <- r
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(server.Close)
	on := testkit.Database(t)
	s.db = on
	s.by = actor.Actor{Kind: actor.User, TenantID: uuid.New(), ID: uuid.New()}
	require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), on.Tenant(s.by.TenantID), dbsqlc.InsertTenantParams{ID: s.by.TenantID, Name: "t"}))
	shelf, err := catalog.New(catalog.Deps{DB: on.Pool})
	require.NoError(t, err)
	s.shelf = shelf
	kms, err := vault.NewLocalKMS("k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	s.vault, err = vault.Open(vault.Deps{DB: on.Pool, KMS: kms, CheckURL: egress.Config{AllowLoopback: true}.CheckURL})
	require.NoError(t, err)
	sets, err := policy.NewSets(on.Pool)
	require.NoError(t, err)
	client, err := httpcall.NewClient(server.Client(), time.Now)
	require.NoError(t, err)
	s.Dispatcher, err = dispatch.New(dispatch.Config{Timeout: time.Minute}, dispatch.Deps{
		DB: on.Pool, Catalog: shelf, Vault: s.vault, Policies: sets, Log: testkit.Quiet(),
		Callers: map[verb.PlanKind]dispatch.Caller{verb.KindHTTP: dispatch.HTTP(client, nil)},
	})
	require.NoError(t, err)
	s.report, err = openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", BaseURL: server.URL, Auth: auth, Document: json.RawMessage(securedDocument)})
	require.NoError(t, err)
	raw, err := json.Marshal(s.report.Auth)
	require.NoError(t, err)
	_, err = shelf.Replace(t.Context(), s.by, catalog.Provider{Slug: "shop", BaseURL: server.URL, AuthType: s.report.Auth.Type, Auth: raw}, s.report.Verbs)
	require.NoError(t, err)
	return s
}

func (s *shop) store(t *testing.T, kind, data string) uuid.UUID {
	t.Helper()
	c, err := s.vault.Create(t.Context(), s.by, vault.New{Provider: "shop", Type: kind, Data: json.RawMessage(data)})
	require.NoError(t, err)
	return c.ID
}

// sent returns the secrets that a call of the verb sends, by their places.
func (s *shop) sent(t *testing.T, name string) string {
	t.Helper()
	target, err := s.Target(t.Context(), s.by.TenantID, verb.Name{Provider: "shop", Verb: name}, run.Account{}, nil)
	require.NoError(t, err)
	if f := target.Connected(); f != nil {
		_, err := target.Prepare(t.Context(), json.RawMessage(`{}`))
		require.True(t, fault.HasCode(err, f.Code), "%v", err)
		require.Nil(t, target.CredentialID())
		return string(f.Code)
	}
	call, err := target.Prepare(t.Context(), json.RawMessage(`{}`))
	require.NoError(t, err)
	require.Equal(t, 200, call.Send(t.Context(), "", func() bool { return true }).Status)
	r := <-s.got
	var found []string
	for _, place := range []string{"X-K1", "Authorization", "X-Other"} {
		if value := r.Header.Get(place); value != "" {
			found = append(found, place+"="+value)
		}
	}
	if r.URL.RawQuery != "" {
		found = append(found, "?"+r.URL.RawQuery)
	}
	require.Equal(t, len(found) > 0, target.CredentialID() != nil, "the execution names the credential that was sent")
	return strings.Join(found, " ")
}

func TestCallsPresentWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	const none = "PROVIDER_NOT_CONNECTED"
	for name, tt := range map[string]struct {
		kind, data string
		want       map[string]string
	}{
		"nothing": {want: map[string]string{"default": none, "both": none, "second": none, "either": none, "scoped": none, "public": "", "optional": ""}},
		"a key": {"api_key", `{"key":"s1"}`, map[string]string{
			"default": "X-K1=s1", "both": none, "second": "?k2=s1", "either": "X-K1=s1", "scoped": "Authorization=Bearer s1", "public": "", "optional": "X-K1=s1",
		}},
		"a password": {"basic", `{"username":"u","password":"p"}`, map[string]string{
			"default": none, "both": none, "second": none, "either": "Authorization=Basic dTpw", "scoped": "Authorization=Basic dTpw", "public": "", "optional": "",
		}},
		"a token": {"bearer", `{"token":"t1"}`, map[string]string{
			"default": "X-K1=t1", "both": none, "second": "?k2=t1", "either": "Authorization=Bearer t1", "scoped": "Authorization=Bearer t1", "public": "", "optional": "",
		}},
		"headers": {"custom_header", `{"headers":{"X-Other":"h"}}`, map[string]string{
			"default": "X-Other=h", "both": "X-Other=h", "second": "X-Other=h", "either": "X-Other=h", "scoped": "X-Other=h", "public": "", "optional": "X-Other=h",
		}},
		"two keys": {"schemes", `{"schemes":{"k1":{"key":"s1"},"k2":{"key":"s2"}}}`, map[string]string{
			"default": "X-K1=s1", "both": "X-K1=s1 ?k2=s2", "second": "?k2=s2", "either": "X-K1=s1", "scoped": none, "public": "", "optional": "X-K1=s1",
		}},
		"a key and others": {"schemes", `{"schemes":{"k2":{"key":"s2"},"login":{"username":"u","password":"p"},"oauth":{"token":"t1"}}}`, map[string]string{
			"default": none, "both": none, "second": "?k2=s2", "either": "Authorization=Basic dTpw", "scoped": "Authorization=Bearer t1", "public": "", "optional": "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, nil)
			if tt.kind != "" {
				s.store(t, tt.kind, tt.data)
			}
			got := map[string]string{}
			for verb := range tt.want {
				got[verb] = s.sent(t, verb)
			}
			require.Equal(t, tt.want, got)
			s.requireConnected(t, func(name string) bool { return tt.want[name] != none })
		})
	}
}

// requireConnected checks that the catalog calls a verb connected where a call of it would be sent,
// wherever it says so.
func (s *shop) requireConnected(t *testing.T, sent func(name string) bool) {
	t.Helper()
	tenant := s.by.TenantID
	page, err := s.shelf.List(t.Context(), tenant, catalog.Filter{Limit: 100})
	require.NoError(t, err)
	require.Len(t, page.Verbs, 7)
	only, err := s.shelf.List(t.Context(), tenant, catalog.Filter{Limit: 100, ConnectedOnly: true})
	require.NoError(t, err)
	read, err := s.shelf.List(t.Context(), tenant, catalog.Filter{Limit: 100, ConnectedOnly: true, Operation: verb.Read})
	require.NoError(t, err)
	var all []verb.Name
	var connected []catalog.Verb
	for _, v := range page.Verbs {
		require.Equal(t, sent(v.Name.Verb), v.Connected, v.Name)
		one, err := s.shelf.Verb(t.Context(), tenant, v.Name)
		require.NoError(t, err)
		one.Trust = "" // lists do not have it
		require.Equal(t, v, one)
		if all = append(all, v.Name); v.Connected {
			connected = append(connected, v)
		}
	}
	require.Equal(t, connected, only.Verbs)
	require.EqualValues(t, len(connected), only.Total)
	require.Equal(t, connected, read.Verbs)
	require.Equal(t, only.Total, read.Total)
	providers, err := s.shelf.ToolProviders(t.Context(), tenant)
	require.NoError(t, err)
	tools, err := s.shelf.ToolVerbs(t.Context(), tenant, providers, 100)
	require.NoError(t, err)
	b := &db.Batch{}
	many := catalog.QueueMany(b, tenant, all)
	require.NoError(t, s.db.Send(t.Context(), tenant, b))
	for i, v := range page.Verbs {
		require.Equal(t, v.Connected, tools[i].Connected, v.Name)
		require.Equal(t, v.Connected, many()[v.Name].Connected, v.Name)
	}
}

func TestGivenAuthReplacesAllButPublicOperations(t *testing.T) {
	t.Parallel()
	s := newShop(t, &credential.Auth{Type: credential.APIKey, Name: "X-Other"})
	require.Empty(t, s.report.Rejected, "the given one can be met")
	require.Equal(t, "PROVIDER_NOT_CONNECTED", s.sent(t, "default"))
	target, err := s.Target(t.Context(), s.by.TenantID, verb.Name{Provider: "shop", Verb: "default"}, run.Account{}, nil)
	require.NoError(t, err)
	require.Equal(t, []fault.Detail{
		{Path: "/security/0", Rule: "credential", Message: "a credential of type api_key, header X-Other is missing."},
	}, target.Connected().Details)
	require.Empty(t, s.sent(t, "optional"))
	s.store(t, "api_key", `{"key":"s1"}`)
	for _, name := range []string{"default", "both", "second", "either", "scoped", "never", "optional"} {
		require.Equal(t, "X-Other=s1", s.sent(t, name), name)
	}
	require.Empty(t, s.sent(t, "public"))
}

func TestRefusalNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	refusal := func(name string) *fault.Error {
		target, err := s.Target(t.Context(), s.by.TenantID, verb.Name{Provider: "shop", Verb: name}, run.Account{}, nil)
		require.NoError(t, err)
		return target.Connected()
	}
	f := refusal("both")
	require.Equal(t, "shop has no active credential. The call needs k1 (api_key, header X-K1) and k2 (api_key, query k2). "+
		"Store one with POST /v1/credentials, then repeat the call.", f.Message)
	require.Equal(t, []fault.Detail{
		{Path: "/security/0/k1", Rule: "credential", Message: "k1 (api_key, header X-K1) is missing."},
		{Path: "/security/0/k2", Rule: "credential", Message: "k2 (api_key, query k2) is missing."},
	}, f.Details)
	require.Equal(t, []fault.Detail{
		{Path: "/security/0/oauth", Rule: "credential", Message: "oauth (oauth2) is missing. Its token needs the scopes read write."},
	}, refusal("scoped").Details)
	id := s.store(t, "schemes", `{"schemes":{"k1":{"key":"s1"},"login":{"username":"u","password":"p"}}}`)
	f = refusal("both")
	require.Contains(t, f.Message, id.String())
	require.Len(t, f.Details, 1)
	require.Equal(t, "/security/0/k2", f.Details[0].Path)
	require.Equal(t, "The credential "+id.String()+" (schemes) of shop does not have what the call needs: oauth (oauth2). "+
		"Store one that does with POST /v1/credentials, then repeat the call.", refusal("scoped").Message)
}

func TestImportReportsSecurityThatCannotBeMet(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	require.Equal(t, []verb.Report{{Operation: "GET /never", Reason: "no credential can meet its security: the scheme digest is not supported (http digest)"}}, s.report.Rejected)
	require.Equal(t, []verb.Report{{Operation: "GET /scoped", Reason: "an alternative of its security is left out: the scheme digest is not supported (http digest)"}}, s.report.Degraded)
}

func TestPlanWithoutSecurityPresentsTheProvidersAuth(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	require.Contains(t, w.target(t, "say", "").Connected().Message, "The call needs a credential of type api_key.")
	w.credential(t, "", "s3cret-value")
	require.Nil(t, w.target(t, "say", "").Connected())
}
