package dispatch_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/service/dispatch"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// echo is a caller of a second kind. It answers with what it was sent, credential and all.
type echo struct{ compiled int }

// Compile implements dispatch.Caller.
func (e *echo) Compile(plan json.RawMessage) (dispatch.Plan, error) {
	e.compiled++
	var p echoPlan
	return &p, json.Unmarshal(plan, &p)
}

type echoPlan struct{ Tool string }

// Prepare implements dispatch.Plan.
func (p *echoPlan) Prepare(baseURL string, args json.RawMessage) (dispatch.Request, error) {
	return &echoRequest{url: baseURL + "/" + p.Tool, args: args}, nil
}

// Preview implements dispatch.Plan.
func (p *echoPlan) Preview(_ string, masked json.RawMessage) json.RawMessage {
	return json.RawMessage(`{"tool":"` + p.Tool + `","args":` + string(masked) + `}`)
}

type echoRequest struct {
	url  string
	args json.RawMessage
	key  string
}

// Address implements dispatch.Request.
func (r *echoRequest) Address() string { return r.url }

// Apply implements dispatch.Request.
func (r *echoRequest) Apply(_ credential.Auth, secret credential.Secret) error {
	r.key = secret.Key()
	return nil
}

// Send implements dispatch.Request.
func (r *echoRequest) Send(_ context.Context, a dispatch.Attempt) run.Answer {
	leaks := a.Leaks != nil && a.Leaks([]byte("a file with "+r.key))
	body := a.Clean([]byte(`{"url":"` + r.url + `","args":` + string(r.args) + `,"key":"` + r.key + `","leaks":` + strconv.FormatBool(leaks) + `}`))
	return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: body}
}

// noHTTP stands for the caller of HTTP plans.
type noHTTP struct{ *testing.T }

// Compile implements dispatch.Caller.
func (h noHTTP) Compile(plan json.RawMessage) (dispatch.Plan, error) {
	require.NotContains(h, string(plan), "echo")
	var p echoPlan
	return &p, nil
}

// tools is a dispatcher over a tenant whose provider "tools" has verbs of several kinds.
type tools struct {
	*dispatch.Dispatcher
	vault  *vault.Vault
	shelf  *catalog.Catalog
	caller *echo
	by     actor.Actor
	db     testkit.DB
}

func newTools(t *testing.T) *tools {
	t.Helper()
	db := testkit.Database(t)
	tenant := uuid.New()
	require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), db.Tenant(tenant), dbsqlc.InsertTenantParams{ID: tenant, Name: "t"}))
	by := actor.Actor{Kind: actor.User, TenantID: tenant, ID: uuid.New()}
	shelf, err := catalog.New(catalog.Deps{DB: db.Pool})
	require.NoError(t, err)
	kms, err := vault.NewLocalKMS("k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	safe, err := vault.Open(vault.Deps{DB: db.Pool, KMS: kms, CheckURL: egress.Config{}.CheckURL})
	require.NoError(t, err)
	sets, err := policy.NewSets(db.Pool)
	require.NoError(t, err)
	caller := &echo{}
	d, err := dispatch.New(dispatch.Config{Timeout: time.Second}, dispatch.Deps{
		DB: db.Pool, Catalog: shelf, Vault: safe, Policies: sets, Log: testkit.Quiet(),
		Callers: map[verb.PlanKind]dispatch.Caller{"echo": caller, verb.KindHTTP: noHTTP{t}},
	})
	require.NoError(t, err)
	def := func(name, plan string) verb.Definition {
		return verb.Definition{
			Name: name, Domain: "tools", Risk: verb.RiskLow, Operation: verb.Read, Idempotency: verb.IdempotencyIntrinsic,
			Schema: json.RawMessage(`{"type":"object","properties":{"pin":{"type":"string","writeOnly":true}}}`), Plan: json.RawMessage(plan),
		}
	}
	_, err = shelf.Replace(t.Context(), by, catalog.Provider{
		Slug: "tools", BaseURL: "https://tools.example", AuthType: credential.APIKey, Auth: json.RawMessage(`{"type":"api_key"}`),
	}, []verb.Definition{
		def("say", `{"kind":"echo","tool":"say"}`), def("old", `{"method":"GET","path":"/"}`), def("odd", `{"kind":"odd"}`),
		def("refuses", `{"kind":"echo","tool":"a","error_when":".other == null"}`), def("says_nothing", `{"kind":"echo","tool":"a","error_when":".error"}`),
		def("says_text", `{"kind":"echo","tool":"a","error_when":".url"}`), def("fails", `{"kind":"echo","tool":"a","error_when":".url | tonumber"}`),
	})
	require.NoError(t, err)
	return &tools{Dispatcher: d, vault: safe, shelf: shelf, caller: caller, by: by, db: db}
}

// credential stores a key of one of the tenant's customers, or of the tenant where customer
// is "".
func (w *tools) credential(t *testing.T, customer, key string) {
	t.Helper()
	_, err := w.vault.Create(t.Context(), w.by, vault.New{
		Provider: "tools", Type: "api_key", CustomerID: customer, Data: json.RawMessage(`{"key":"` + key + `"}`),
	})
	require.NoError(t, err)
}

// target returns the verb for a call that is made for the customer.
func (w *tools) target(t *testing.T, name, customer string) run.Target {
	t.Helper()
	target, err := w.Target(t.Context(), w.by.TenantID, verb.Name{Provider: "tools", Verb: name}, run.Account{Customer: customer}, nil)
	require.NoError(t, err)
	return target
}

func TestPlanKindChoosesTheCaller(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	w.credential(t, "", "s3cret-value")
	args := json.RawMessage(`{"pin":"1234"}`)
	for range 2 {
		call, err := w.target(t, "say", "").Prepare(t.Context(), args)
		require.NoError(t, err)
		preview := string(call.Preview(args))
		require.Contains(t, preview, `"tool":"say"`)
		require.NotContains(t, preview, "1234")
		answer := call.Send(t.Context(), "", func() bool { return true })
		require.Contains(t, string(answer.Result), `"url":"https://tools.example/say"`)
		require.NotContains(t, string(answer.Result), "s3cret-value")
	}
	require.Equal(t, 1, w.caller.compiled)

	w.target(t, "old", "")
	_, err := w.Target(t.Context(), w.by.TenantID, verb.Name{Provider: "tools", Verb: "odd"}, run.Account{}, nil)
	require.ErrorContains(t, err, `kind "odd"`)
}

func TestCustomersCredentialComesBeforeTheTenants(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	customer := "cus_1"
	w.credential(t, customer, "the-customers-own-key")
	require.Nil(t, w.target(t, "say", customer).Connected())
	for _, other := range []string{"", "cus_2"} {
		require.Equal(t, fault.CodeProviderNotConnected, w.target(t, "say", other).Connected().Code, "it is nobody else's: %q", other)
	}
	w.credential(t, "", "the-key-of-the-tenant") // newer, and still second
	own, shared := w.target(t, "say", customer).CredentialID(), w.target(t, "say", "").CredentialID()
	require.NotEqual(t, *own, *shared)
	require.Equal(t, *shared, *w.target(t, "say", "cus_2").CredentialID(), "a customer without one has the tenant's")
}
