// Package access tests the whole surface from outside: who may call what, what one
// tenant sees of another, and how bad input is answered. Each answer to any of its
// calls is also checked against the served document.
package access

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/sandbox"
	"agentruntime/test/rig"
)

// One stack serves all tests of the package.
var shared = struct {
	suite *rig.Suite
	once  sync.Once
	world *world
}{suite: rig.NewSuite("access")}

// TestMain stops the stack after all tests.
func TestMain(m *testing.M) {
	code := m.Run()
	shared.suite.Close()
	os.Exit(code)
}

// world is a running service with two tenants, A who calls and B who is called at.
type world struct {
	*rig.Stack
	doc  *document
	http *http.Client // not judged
	seed ed25519.PrivateKey
	a, b *tenant
}

// tenant is a tenant and one of everything it owns.
type tenant struct {
	*rig.Tenant
	id, name, email, ownerID                                  string
	token                                                     string
	provider, execution, policy, approval, credential, apiKey string // ids
	grant                                                     string // its id
	modelProvider                                             string // its id
	killSwitch                                                string // its id
	customer, erased                                          string // its id, and that of one that was erased
	fact                                                      string // about the customer
	event                                                     string // the id of one
	mapID                                                     string // of a published Map
	agent                                                     string // its id
	mapExecution                                              string // of an execution of that Map
	webhook, delivery                                         string // the id of one, and of its test, which has ended
	sender                                                    string // a key that sends events
	talker                                                    string // a key that writes to agents
	message, goal                                             string // of executions of a message, and of a dry run of a goal
	// people by role, and "removed" and "invited"; none where hire was not called.
	people map[string]person
}

// person is a user besides the owner. The token is a JWT, also for a user who was
// removed since; for an invited user it is the invitation's.
type person struct{ id, email, token string }

// theWorld returns the service that all tests share.
func theWorld(t *testing.T) *world {
	t.Helper()
	shared.once.Do(func() { shared.world = newWorld(shared.suite) })
	require.NotNil(t, shared.world, "the service did not start")
	return shared.world
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{Stack: rig.Dev(tb, modelScript(tb), "QUOTAS=mail_links_unverified=1000"), http: rig.NewHTTP()}
	res, err := w.http.Get(w.APIURL + "/openapi.json")
	require.NoError(tb, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	require.NoError(tb, err)
	require.Equal(tb, http.StatusOK, res.StatusCode)
	w.doc = parseDocument(tb, raw)
	text, err := os.ReadFile(filepath.Join(w.Dir, "data", "keys", "jwt"))
	require.NoError(tb, err)
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(tb, err)
	w.seed = ed25519.NewKeyFromSeed(seed)
	w.a, w.b = w.newTenant(tb, "alpha"), w.newTenant(tb, "beta")
	w.hire(tb, w.a)
	w.hire(tb, w.b)
	for _, own := range []*tenant{w.a, w.b} {
		w.age(tb, own)
		own.seal(tb)
	}
	return w
}

// age adds the rows that only days, faults or a platform's own providers bring about.
func (w *world) age(tb testing.TB, own *tenant) {
	tb.Helper()
	for _, insert := range []string{
		`INSERT INTO enabled_providers (tenant_id, slug, enabled_at) VALUES ($1, $2 || '-shared', now())`,
		`INSERT INTO disabled_providers (tenant_id, slug, disabled_at) VALUES ($1, $2 || '-shared', now())`,
		`INSERT INTO circuits (tenant_id, provider) VALUES ($1, $2 || '-shop')`,
		`INSERT INTO run_erasures (tenant_id, look_at) SELECT $1, now() + interval '1 day' WHERE $2 <> ''`,
		`INSERT INTO runs_left (tenant_id, run_id, look_at) SELECT $1, $1, now() + interval '1 day' WHERE $2 <> ''`,
		`INSERT INTO turn_stream (tenant_id, turn, seq, event, body) SELECT tenant_id, id, 1, 'message.delta', '' FROM turns WHERE tenant_id = $1 AND $2 <> ''`,
		`INSERT INTO conversation_summaries (tenant_id, conversation, upto, body, tainted, model, at) SELECT tenant_id, id, 0, '', false, '', now() FROM conversations WHERE tenant_id = $1 AND $2 <> ''`,
		`INSERT INTO budgets (tenant_id, id, measure, subject, most, since) SELECT $1, $1, 'model_tokens', $1, 5000000, now() WHERE $2 <> ''`,
		`INSERT INTO budget_counters (tenant_id, budget_id, month, stripe, share, level) SELECT $1, $1, 209912, 0, 5000000, 0 WHERE $2 <> ''`,
		`INSERT INTO budget_reservations (tenant_id, id, month, charged, tokens, money, state, until)
		 SELECT $1, $1, 209912, ARRAY[$1], 1, 0, 'open', now() + interval '1 day' WHERE $2 <> ''`,
		`INSERT INTO policy_windows (tenant_id, series, id, per, filled, seen) SELECT $1, $1, decode(repeat('00', 16), 'hex'), 60, true, $1 WHERE $2 <> ''`,
		`INSERT INTO window_entries (tenant_id, run_id, series, value, minute, up, down, done)
		 SELECT $1, $1, $1, decode(repeat('00', 16), 'hex'), extract(epoch FROM now())::integer / 60, 1, 0, true WHERE $2 <> ''`,
		`INSERT INTO window_counts (tenant_id, series, value, grain, minute, done, ups, downs, unknown)
		 SELECT $1, $1, decode(repeat('00', 16), 'hex'), 1, extract(epoch FROM now())::integer / 60, 1, 0, 0, 0 WHERE $2 <> ''`,
		`INSERT INTO run_files (tenant_id, id, bytes) SELECT $1, $1, 1 WHERE $2 <> ''`,
		`INSERT INTO run_file_parts (tenant_id, file_id, part, content) SELECT $1, $1, 0, '' WHERE $2 <> ''`,
		`INSERT INTO accepted_verbs (tenant_id, provider, name, risk_level, schema, bytes) SELECT $1, $2 || '-gone', 'list', 'low', '{}', 2`,
	} {
		_, err := w.admin(tb).Exec(context.Background(), strings.ReplaceAll(strings.ReplaceAll(insert, "$1", "$1::uuid"), "$2", "$2::text"), own.id, own.name)
		require.NoError(tb, err, insert)
	}
}

// shopKey is long enough for the service to recognize it in arguments.
const shopKey = "key-of-the-shop-0123456789"

// newTenant makes a tenant that owns one resource of each kind. Everything it owns
// has its name in it, so that a stray bit of it is found anywhere.
func (w *world) newTenant(tb testing.TB, name string) *tenant {
	tb.Helper()
	own := &tenant{name: name, email: name + "@example.com", provider: name + "-shop", execution: name + "-execution"}
	own.Tenant = w.NewTenant(own.email)
	own.token = own.User.Token
	shop, err := sandbox.New(sandbox.Config{APIKey: shopKey})
	require.NoError(tb, err)
	base := rig.Serve(tb, shop)
	own.Connect(tb, own.provider, base, sandbox.Document(base), "", nil)
	trusted := own.User.Do(http.MethodPatch, "/v1/providers/"+own.provider, map[string]any{"trust": "own"})
	require.Equal(tb, http.StatusOK, trusted.Status, "%s", trusted.Body)
	gone := "/v1/providers/" + own.provider + "-gone"
	own.Connect(tb, own.provider+"-gone", base, sandbox.Document(base), "", nil)
	require.Equal(tb, http.StatusOK, own.User.Do(http.MethodDelete, gone, nil).Status)
	var made struct {
		ID string `json:"id"`
	}
	own.User.Do(http.MethodPost, "/v1/credentials", map[string]any{
		"provider": own.provider, "type": "api_key", "label": name + " label", "data": map[string]string{"key": shopKey},
	}).Data(tb, &made)
	own.credential = made.ID
	own.policy = own.User.NewPolicy(tb, rig.Policy(name+" policy", "notify", own.provider+":list_orders", nil))
	ran := own.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
		"verb": own.provider + ":list_orders", "args": map[string]any{"limit": 1}, "execution_id": own.execution, "session_id": name + "-session",
		"metadata": map[string]string{"customer_id": name + "-customer"},
	})
	require.Equal(tb, http.StatusOK, ran.Status, "%s", ran.Body)
	blocked := own.Runtime.Run(own.provider+":create_refund", map[string]any{"order_id": "ord_1001", "amount": 1}, name+"-blocked")
	own.approval = blocked.Envelope(tb).Error.ApprovalID
	require.NotEmpty(tb, own.approval, "%s", blocked.Body)
	var granted struct {
		ID string `json:"id"`
	}
	own.User.Do(http.MethodPost, "/v1/grants", map[string]any{
		"verb": own.provider + ":create_refund", "expires_at": soon(), "max_uses": 1, "reason": name + " reason",
	}, "Idempotency-Key: "+name+"-grant").Data(tb, &granted)
	own.grant = granted.ID
	own.User.Do(http.MethodPost, "/v1/customers", map[string]any{
		"external_id": name + "-customer", "email": name + "-customer@example.com", "name": name + " customer", "metadata": map[string]string{"of": name}, "tags": []string{name + "-tag"},
	}).Data(tb, &made)
	own.customer = made.ID
	own.User.Do(http.MethodPost, "/v1/customers/"+own.customer+"/memory", map[string]any{"text": name + " likes tea"}).Data(tb, &made)
	own.fact = made.ID
	own.User.Do(http.MethodPost, "/v1/customers", map[string]any{"external_id": name + "-erased"}).Data(tb, &made)
	own.erased = made.ID
	erased := own.User.Do(http.MethodDelete, "/v1/customers/"+own.erased, nil)
	require.Equal(tb, http.StatusOK, erased.Status, "%s", erased.Body)
	own.awaitErasure(tb, own.erased) // it would add rows later
	// It stops an agent that no call names.
	own.User.Do(http.MethodPost, "/v1/kill-switch", map[string]any{"scope": "agent", "target": name + "-agent", "reason": name + " reason"}).Data(tb, &made)
	own.killSwitch = made.ID
	own.User.Do(http.MethodPost, "/v1/model-providers", map[string]any{"slug": name, "api": "openai", "base_url": "https://example.com/v1"}).Data(tb, &made)
	own.modelProvider = made.ID
	own.User.Do(http.MethodPost, "/v1/maps?publish=true", map[string]any{
		"schema_version": "1", "name": name + " map",
		"steps": []any{
			map[string]any{"id": "large", "type": "transform", "expr": "${[range(9000)]}"}, // it is stored apart
			map[string]any{"id": "list", "type": "verb", "verb": own.provider + ":list_orders", "args": map[string]any{"limit": 1}},
		},
	}).Data(tb, &made)
	own.mapID = made.ID
	own.User.Do(http.MethodPost, "/v1/agents", map[string]any{"name": name + " agent", "maps": []string{own.mapID}}).Data(tb, &made)
	own.agent = made.ID
	own.mapExecution = own.anExecution(tb)
	own.aWait(tb)
	own.aDryRun(tb)
	own.aModelCall(tb)
	own.decide(tb)
	own.event = own.anEvent(tb)
	own.webhook, own.delivery = own.aWebhook(tb)
	var key struct{ Key string }
	own.User.Do(http.MethodPost, "/v1/api-keys", map[string]any{"name": name + " sender", "permissions": []string{"events:send"}}).Data(tb, &key)
	own.sender = key.Key
	own.aMessage(tb)
	own.apiKey, own.id, own.ownerID = own.RuntimeKeyID, own.ID, own.OwnerID
	own.seal(tb)
	return own
}

// seal exports the audit records, which seals those so far: no seal is added later to a tenant that
// does nothing.
func (own *tenant) seal(tb testing.TB) {
	tb.Helper()
	sealed := own.User.Do(http.MethodGet, "/v1/audit/export", nil)
	require.Equal(tb, http.StatusOK, sealed.Status, "%s", sealed.Body)
}

// awaitErasure waits until all is erased of a customer, and returns the report.
func (own *tenant) awaitErasure(tb testing.TB, id string) rig.Answer {
	tb.Helper()
	var a rig.Answer
	require.Eventually(tb, func() bool {
		a = own.User.Do(http.MethodGet, "/v1/customers/"+id+"/erasure", nil)
		var report struct{ Status string }
		a.Data(tb, &report)
		return report.Status == "completed"
	}, time.Minute, 50*time.Millisecond)
	return a
}

// decide makes a call that a policy holds, and rejects it.
func (own *tenant) decide(tb testing.TB) {
	tb.Helper()
	verb := own.provider + ":create_ticket"
	own.User.NewPolicy(tb, rig.RequireApproval(own.name+" gate", verb, nil))
	held := own.Runtime.Run(verb, map[string]any{"customer_id": "cus_1001", "subject": own.name, "body": own.name}, own.name+"-held")
	a := own.User.Decide(held.Envelope(tb).Error.ApprovalID, "reject", map[string]string{"reason": own.name})
	require.Equal(tb, http.StatusOK, a.Status, "%s after %s", a.Body, held.Body)
}

// hire gives the tenant a user of each role besides the owner, a removed user and an
// invited one.
func (w *world) hire(tb testing.TB, own *tenant) {
	tb.Helper()
	own.people = map[string]person{"owner": {id: own.ownerID, email: own.email, token: own.token}}
	for name, role := range map[string]string{"admin": "admin", "approver": "approver", "member": "member", "removed": "admin", "invited": "admin"} {
		var made rig.Invitation
		p := person{email: own.name + "-" + name + "@example.com"}
		own.User.Invite(p.email, role).Data(tb, &made)
		p.id, p.token = made.ID, made.Token
		if name != "invited" {
			p.token = own.User.Joined(tb, own.User.Accept(made.Token)).Token
		}
		own.people[name] = p
	}
	require.Equal(tb, http.StatusOK, own.User.Do(http.MethodDelete, "/v1/users/"+own.people["removed"].id, nil).Status)
}

// newKey makes an API key of the tenant and returns its secret and id.
func (own *tenant) newKey(tb testing.TB, body map[string]any) (secret, id string) {
	tb.Helper()
	var key rig.Key
	own.User.MakeKey(body).Data(tb, &key)
	return key.Key, key.ID
}

// request is one call in the making.
type request struct {
	method, path string
	body         []byte
	header       http.Header
	// chunked hides the length of the body.
	chunked bool
}

// call sends r and lets the judge look at the answer.
func (w *world) call(tb testing.TB, r request) rig.Answer {
	tb.Helper()
	a := w.try(tb, r)
	require.NoError(tb, a.Err)
	return a
}

func (w *world) try(tb testing.TB, r request) rig.Answer {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var body io.Reader = http.NoBody
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	if r.chunked {
		body = struct{ io.Reader }{body}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, w.APIURL+r.path, body)
	require.NoError(tb, err)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range r.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	res, err := (&http.Client{Transport: judge{tb: tb, doc: w.doc, base: w.http.Transport}}).Do(req)
	if err != nil {
		return rig.Answer{Err: err}
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return rig.Answer{Status: res.StatusCode, Header: res.Header, Body: raw, Err: err}
}

// headers builds a header out of names and values.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func bearer(token string) http.Header { return headers("Authorization", "Bearer "+token) }

// code returns the error code of an answer, "" of a success.
func code(tb testing.TB, a rig.Answer) string {
	tb.Helper()
	var e answer
	require.NoError(tb, json.Unmarshal(a.Body, &e), "%s", a.Body)
	if e.Error == nil {
		return ""
	}
	return e.Error.Code
}

// message returns the error message of an answer.
func message(tb testing.TB, a rig.Answer) string {
	tb.Helper()
	var e answer
	require.NoError(tb, json.Unmarshal(a.Body, &e), "%s", a.Body)
	require.NotNil(tb, e.Error, "%s", a.Body)
	return e.Error.Message
}

func outcome(status int, code string) string { return fmt.Sprintf("%d %s", status, code) }

// anExecution triggers the tenant's Map and returns the id of the execution.
func (own *tenant) anExecution(tb testing.TB) string {
	tb.Helper()
	var ran struct {
		ExecutionID string `json:"execution_id"`
		Status      string
	}
	a := own.User.Do(http.MethodPost, "/v1/maps/"+own.mapID+"/trigger", map[string]any{"session_id": own.name + "-session"}, "Prefer: wait=60")
	require.Equal(tb, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(tb, &ran)
	require.Equal(tb, "completed", ran.Status, "%s", a.Body)
	return ran.ExecutionID
}

// aDryRun makes a dry run with a change that people are asked about.
func (own *tenant) aDryRun(tb testing.TB) {
	tb.Helper()
	var made struct{ ID string }
	own.User.Do(http.MethodPost, "/v1/maps?publish=true", map[string]any{
		"schema_version": "1", "name": own.name + " writes",
		"steps": []any{map[string]any{"id": "w", "type": "verb", "verb": own.provider + ":create_order", "args": map[string]any{"customer_id": "cus_1001", "amount": 1, "currency": "eur"}}},
	}).Data(tb, &made)
	a := own.User.Do(http.MethodPost, "/v1/maps/"+made.ID+"/trigger", map[string]any{"dryRun": true}, "Prefer: wait=60")
	require.Equal(tb, http.StatusOK, a.Status, "%s", a.Body)
}

// modelScript has a model that answers everything with the same words.
func modelScript(tb testing.TB) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "models.json")
	require.NoError(tb, os.WriteFile(file, []byte(`[{"purpose":"summarize","text":"in few words"}]`), 0o600))
	return "MODEL_SCRIPT=" + file
}

// aModelCall has a model do a step of a Map.
func (own *tenant) aModelCall(tb testing.TB) {
	tb.Helper()
	var made struct{ ID string }
	own.User.Do(http.MethodPost, "/v1/maps?publish=true", map[string]any{
		"schema_version": "1", "name": own.name + " sums up",
		"steps": []any{map[string]any{"id": "s", "type": "summarize", "input": own.name + " input", "max_words": 10}},
	}).Data(tb, &made)
	a := own.User.Do(http.MethodPost, "/v1/maps/"+made.ID+"/trigger", map[string]any{}, "Prefer: wait=60")
	require.Equal(tb, http.StatusOK, a.Status, "%s", a.Body)
}

// aMessage writes to the tenant's agent.
func (own *tenant) aMessage(tb testing.TB) {
	tb.Helper()
	own.talker, _ = own.newKey(tb, map[string]any{"name": own.name + " talker", "permissions": []string{"agents:message"}})
	writer := own.Runtime.With(own.talker, "")
	body := map[string]any{"message": own.name + " message", "session_id": own.name + "-session", "customer_id": own.name + "-customer"}
	a := writer.Do(http.MethodPost, "/v1/agents/"+own.agent+"/message", body, "Idempotency-Key: "+own.name+"-message")
	require.Equal(tb, http.StatusOK, a.Status, "%s", a.Body)
	var said struct {
		ExecutionID string `json:"execution_id"`
	}
	a.Data(tb, &said)
	own.message = said.ExecutionID
	a = writer.Do(http.MethodPut, "/v1/executions/"+own.message+"/feedback", map[string]any{"rating": "up", "comment": own.name + " comment"})
	require.Equal(tb, http.StatusOK, a.Status, "%s", a.Body)

	var made struct{ ID string }
	own.User.Do(http.MethodPost, "/v1/agents", map[string]any{"name": own.name + " errands", "executionMode": "goal", "tools": map[string]any{"allow": []string{own.provider + ":*"}}}).Data(tb, &made)
	a = writer.Do(http.MethodPost, "/v1/agents/"+made.ID+"/goals", map[string]any{"goal": "Tell the customer of order ord_1001 by email that the order is on its way.", "dryRun": true})
	require.Equal(tb, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(tb, &said)
	own.goal = said.ExecutionID
}

// aWait has an execution wait for an event that never comes, with a signal that no step uses.
func (own *tenant) aWait(tb testing.TB) {
	tb.Helper()
	var made struct{ ID string }
	own.User.Do(http.MethodPost, "/v1/maps?publish=true", map[string]any{
		"schema_version": "1", "name": own.name + " waits",
		"steps":       []any{map[string]any{"id": "w", "type": "wait", "event": map[string]any{"type": "custom.never"}}, map[string]any{"id": "k", "type": "wait", "event": map[string]any{"type": "kept"}}},
		"concurrency": map[string]any{"key": "all"},
	}).Data(tb, &made)
	a := own.User.Do(http.MethodPost, "/v1/maps/"+made.ID+"/trigger", map[string]any{}, "Prefer: wait=0")
	require.Equal(tb, http.StatusAccepted, a.Status, "%s", a.Body)
	path := a.Header.Get("Location")
	sent := own.User.Do(http.MethodPost, path+"/signal", map[string]any{"name": "kept", "data": own.name + " data"})
	require.Equal(tb, http.StatusOK, sent.Status, "%s", sent.Body)
	require.Eventually(tb, func() bool {
		var now struct{ Status string }
		own.User.Do(http.MethodGet, path, nil).Data(tb, &now)
		return now.Status == "waiting"
	}, time.Minute, 20*time.Millisecond)
}

// aWebhook returns the id of a webhook whose receiver is away, and that of its one delivery.
func (own *tenant) aWebhook(tb testing.TB) (id, delivery string) {
	tb.Helper()
	var made, sent struct{ ID, Status string }
	own.User.Do(http.MethodPost, "/v1/webhooks", map[string]any{"url": "http://127.0.0.1:1/", "events": []string{"*"}, "enabled": false}).Data(tb, &made)
	own.User.Do(http.MethodPost, "/v1/webhooks/"+made.ID+"/test", nil).Data(tb, &sent)
	require.Eventually(tb, func() bool {
		var now struct{ Status string }
		own.User.Do(http.MethodGet, "/v1/webhooks/"+made.ID+"/deliveries/"+sent.ID, nil).Data(tb, &now)
		return now.Status == "failed"
	}, 30*time.Second, 20*time.Millisecond)
	return made.ID, sent.ID
}

// anEvent returns the id of the newest event, once one can be read.
func (own *tenant) anEvent(tb testing.TB) string {
	tb.Helper()
	var events []struct {
		EventID string `json:"event_id"`
	}
	require.Eventually(tb, func() bool {
		own.User.Do(http.MethodGet, "/v1/events?limit=1", nil).Data(tb, &events)
		return len(events) == 1
	}, patience, time.Millisecond)
	return events[0].EventID
}
