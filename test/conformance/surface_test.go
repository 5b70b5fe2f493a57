//go:build conformance

package conformance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// journey is a tenant whose calls all go through prism.
type journey struct {
	t          *testing.T
	w          *watcher
	base       string
	upstream   string // the service itself, without prism
	none       *rig.Client
	user       *rig.Client
	key        *rig.Client // runs and lists
	agent      *rig.Client // neither
	page       *rig.Client // may be used from one page only, and manages
	pageRuns   *rig.Client // may be used from one page only, and runs
	revoked    *rig.Client
	expired    *rig.Client // a secret that a rotation has replaced
	elsewhere  *rig.Client // may be used from another network only
	keyID      string
	approver   *rig.Client // users by JWT, with the roles of these names
	second     *rig.Client // an approver too
	member     *rig.Client
	server     *rig.Client // manages customers and sends events, from servers only
	credential string
	writer     *rig.Client // a key that writes to agents
	delivered  string      // the path of a delivery
	erasure    string      // of a customer who was erased
}

const (
	email    = "conformance@example.com"
	password = "correct horse battery"
	page     = "https://app.example.com"
	nobodys  = "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	s := rig.Dev(t, "PROVIDER_TIMEOUT=1s", "QUOTAS=mail_links_unverified=1000", "TRUSTED_PROXIES=127.0.0.1", "ADDRESS_RATE_LIMIT=3", modelScript(t))
	document := fetchDocument(t, s.APIURL)
	testProxy(t, document)
	w := &watcher{t: t, base: rig.NewHTTP().Transport, ops: readOperations(t, document), seen: map[string]int{}}
	j := &journey{t: t, w: w, base: startPrism(t, document, s.APIURL), upstream: s.APIURL}
	j.none = j.client()

	j.health()
	j.accounts()
	j.keys()
	j.users()
	j.providers()
	j.offers(s.DatabaseURL)
	j.credentials()
	j.catalog()
	j.runs()
	j.results()
	j.faults()
	j.circuits()
	j.races()
	j.executions()
	j.policies()
	j.maps()
	j.mapExecutions()
	j.agents()
	j.messages()
	j.goals()
	j.guided()
	j.sessions()
	j.modelServer(startAimock(t))
	j.grants()
	j.killSwitches()
	j.modelProviders()
	j.budgets()
	j.approvals()
	j.events()
	j.customers()
	j.webhooks()
	j.mails()
	j.audit()
	j.creations()
	j.selves()
	j.conditions()
	j.refusals()
	j.limits()
	j.ends()
	j.verifiedOnly(s)

	require.Empty(t, strings.Join(w.unseen(), "\n"), "documented answers that no call of this test brings about")
	calls := 0
	for _, n := range w.seen {
		calls += n
	}
	t.Logf("%d calls, %d documented answers seen", calls, len(w.seen))
}

// unseen lists the documented answers that were not seen, without those that no call
// can bring about.
func (w *watcher) unseen() []string {
	var out []string
	for _, op := range w.ops {
		for _, answer := range op.answers {
			what := op.method + " " + op.path + " " + answer
			if w.seen[what] == 0 && !outOfReach(what, answer) {
				out = append(out, what)
			}
		}
	}
	slices.Sort(out)
	return out
}

// outOfReach are the answers that this test cannot bring about.
func outOfReach(what, answer string) bool {
	status, code, _ := strings.Cut(answer, " ")
	switch {
	case status == "500", status == "503" && code != "CIRCUIT_OPEN":
		return true // these need a broken service
	case code == "TOKEN_EXPIRED":
		return true // a token lives for an hour at least; api has tests of it
	case code == "QUOTA_EXCEEDED" && what != "POST /v1/policies 403 QUOTA_EXCEEDED":
		return true // test/bounds fills each quota
	case what == "POST /v1/auth/signup 429 LOGIN_THROTTLED":
		return true // that needs hundreds of callers at once; account has tests
	case code == "SIGNUP_CLOSED":
		return true // this installation is open; test/e2e has one that is closed
	case code == "EXECUTION_UNREADABLE":
		return true // the row was changed in the database; internal/action/run has tests of it
	case code == "CREDENTIAL_EXPIRED":
		return true // no call makes a credential expire
	case what == "POST /v1/auth/change-password 429 LOGIN_THROTTLED", what == "POST /v1/auth/change-email 429 LOGIN_THROTTLED":
		return true // a known address is slowed down only; account has tests
	case what == "POST /v1/auth/reset-password 429 LOGIN_THROTTLED":
		return true // that takes hundreds of callers with a valid token at once; account has tests
	case what == "POST /v1/auth/change-password 409 CONFLICT":
		return true // that takes a race; account has tests
	case what == "PATCH /v1/policies/{id} 409 CONFLICT":
		return true // that takes five other changes, each between a reading and a writing
	case what == "POST /v1/providers 413 PAYLOAD_TOO_LARGE":
		return true // prism itself takes no body of 25 MiB; test/access sends one
	case what == "GET /v1/events/stream 200":
		return true // it does not end, and prism waits for the end; api has tests of it
	case what == "GET /v1/audit/export 409 CONFLICT":
		return true // the chain was tampered with in the database; api has a test of it
	}
	return false
}

func (j *journey) client() *rig.Client {
	return &rig.Client{Base: j.base, HTTP: &http.Client{Transport: j.w}}
}

func (j *journey) withKey(key string) *rig.Client {
	c := j.client()
	c.Key = key
	return c
}

// call asks for a status and returns the answer.
func (j *journey) call(c *rig.Client, status int, method, path string, body any, headers ...string) rig.Answer {
	j.t.Helper()
	a := c.Do(method, path, body, headers...)
	require.NoError(j.t, a.Err)
	require.Equal(j.t, status, a.Status, "%s %s: %s", method, path, a.Body)
	return a
}

func (j *journey) get(c *rig.Client, status int, path string) {
	j.t.Helper()
	j.call(c, status, http.MethodGet, path, nil)
}

func (j *journey) post(c *rig.Client, status int, path string, body any, headers ...string) rig.Answer {
	j.t.Helper()
	return j.call(c, status, http.MethodPost, path, body, headers...)
}

// object is a JSON object.
type object = map[string]any

func (j *journey) health() {
	j.get(j.none, 200, "/healthz")
	j.get(j.none, 200, "/readyz")
}

func (j *journey) accounts() {
	j.post(j.none, 201, "/v1/auth/signup", object{"email": email, "password": password, "name": "Conformance"})
	j.post(j.none, 201, "/v1/auth/signup", object{"email": email, "password": password})
	j.post(j.none, 400, "/v1/auth/signup", object{"email": email})
	j.post(j.none, 400, "/v1/auth/signup", []byte("[]"))
	j.post(j.none, 422, "/v1/auth/signup", object{"email": "a@example.com", "password": "short"})
	j.user = j.logIn(email)
	j.post(j.none, 400, "/v1/auth/login", object{"email": email})
	for range 10 {
		j.post(j.none, 401, "/v1/auth/login", object{"email": "nobody@example.com", "password": password})
	}
	j.post(j.none, 429, "/v1/auth/login", object{"email": "nobody@example.com", "password": password})
	var login struct {
		RefreshToken string `json:"refresh_token"`
	}
	j.post(j.none, 200, "/v1/auth/login", object{"email": email, "password": password}).Data(j.t, &login)
	j.post(j.none, 200, "/v1/auth/refresh", object{"refresh_token": login.RefreshToken})
	j.post(j.none, 401, "/v1/auth/refresh", object{"refresh_token": login.RefreshToken})
	j.post(j.none, 400, "/v1/auth/refresh", object{})
}

func (j *journey) logIn(email string) *rig.Client {
	j.t.Helper()
	var login struct{ Token string }
	j.post(j.none, 200, "/v1/auth/login", object{"email": email, "password": password}).Data(j.t, &login)
	c := j.client()
	c.Token = login.Token
	return c
}

func (j *journey) newKey(body object) (c *rig.Client, id string) {
	j.t.Helper()
	var key struct{ ID, Key string }
	j.post(j.user, 201, "/v1/api-keys", body).Data(j.t, &key)
	return j.withKey(key.Key), key.ID
}

func (j *journey) keys() {
	j.key, j.keyID = j.newKey(object{"name": "runtime", "permissions": []string{"actions:run", "actions:catalog"}})
	var agent struct{ ID string }
	j.post(j.user, 201, agentsPath, object{"name": "Locked"}).Data(j.t, &agent)
	j.agent, _ = j.newKey(object{"name": "agent", "agent_id": agent.ID, "identity_mode": "required"})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, "/v1/api-keys", object{"name": "agent", "agent_id": nobodys})
	j.page, _ = j.newKey(object{"name": "page", "allowed_origins": []string{page}, "permissions": []string{
		"actions:catalog", "approvals:manage", "audit:manage", "credentials:manage", "events:read", "policies:manage", "providers:manage", "webhooks:manage",
	}})
	j.server, _ = j.newKey(object{"name": "server", "permissions": []string{"customers:manage", "events:send"}})
	j.pageRuns, _ = j.newKey(object{"name": "page that runs", "allowed_origins": []string{page}, "permissions": []string{"actions:run", "agents:manage", "agents:message", "maps:manage", "maps:trigger"}})
	var id string
	j.revoked, id = j.newKey(object{"name": "revoked", "permissions": []string{"actions:run"}})
	j.call(j.user, 200, http.MethodDelete, "/v1/api-keys/"+id, nil)
	j.call(j.user, 404, http.MethodDelete, "/v1/api-keys/"+id, nil)
	j.expired, id = j.newKey(object{"name": "rotated"})
	j.post(j.user, 200, "/v1/api-keys/"+id+"/rotate", nil)
	j.post(j.user, 404, "/v1/api-keys/"+nobodys+"/rotate", nil)
	j.elsewhere, id = j.newKey(object{"name": "elsewhere", "allowed_ips": []string{"203.0.113.0/24"}})
	j.get(j.user, 200, "/v1/api-keys/"+id)
	j.get(j.user, 404, "/v1/api-keys/"+nobodys)
	j.call(j.user, 404, http.MethodPatch, "/v1/api-keys/"+nobodys, object{})
	j.get(j.user, 200, "/v1/api-keys")
	j.get(j.user, 200, "/v1/api-keys?status=all")
	j.get(j.user, 400, "/v1/api-keys?status=nonsense")
	j.post(j.user, 400, "/v1/api-keys", object{"name": "x", "permissions": []string{"none"}})
}

func (j *journey) credentials() {
	var made struct{ ID string }
	create := func(provider, kind string, data object) string {
		j.post(j.user, 201, "/v1/credentials", object{"provider": provider, "type": kind, "label": "l", "data": data}).Data(j.t, &made)
		return made.ID
	}
	first := create("shop", "bearer", object{"token": "t"})
	create("crm", "basic", object{"username": "u", "password": "p"})
	create("erp", "custom_header", object{"headers": object{"X-A": "b"}})
	j.credential = create("shop", "api_key", object{"key": "k"})
	j.post(j.user, 400, "/v1/credentials", object{"provider": "shop", "type": "bearer", "data": object{"key": "k"}})
	j.get(j.user, 200, "/v1/credentials?limit=2")
	j.get(j.user, 200, "/v1/credentials?provider=shop&status=active")
	j.get(j.user, 400, "/v1/credentials?cursor=nonsense")
	j.get(j.user, 200, "/v1/credentials/"+first)
	j.get(j.user, 404, "/v1/credentials/"+nobodys)
	one := "/v1/credentials/" + first
	const private = "https://10.0.0.1"
	j.refused(j.user, 422, "URL_NOT_ALLOWED", http.MethodPost, "/v1/credentials", object{"provider": "shop", "type": "bearer", "data": object{"token": "t"}, "origin": private})
	j.refused(j.user, 422, "URL_NOT_ALLOWED", http.MethodPatch, one, object{"origin": private})
	j.post(j.user, 200, one+"/validate", nil)
	j.call(j.user, 200, http.MethodPatch, one, object{"label": "new", "allowed_hosts": []string{"api.example.com"}, "status": "revoked"})
	j.post(j.user, 200, one+"/validate", nil)
	j.call(j.user, 400, http.MethodPatch, one, object{"status": "expired"})
	j.post(j.user, 200, one+"/rotate", object{"data": object{"token": "u"}})
	j.post(j.user, 400, one+"/rotate", object{"data": object{"key": "u"}})
	j.call(j.user, 200, http.MethodDelete, one, nil)
	for _, c := range []struct{ method, more string }{{"DELETE", ""}, {"POST", "/validate"}} {
		j.call(j.user, 404, c.method, one+c.more, nil)
	}
	j.call(j.user, 404, http.MethodPatch, one, object{"label": "l"})
	j.post(j.user, 404, one+"/rotate", object{"data": object{"token": "u"}})
}

func (j *journey) catalog() {
	const catalog = "/v1/runtime/actions/catalog"
	for _, query := range []string{"", "?limit=3&offset=2", "?provider=shop&risk_level=high&connected_only=true", "?format=tools", "?q=create%20order", "?limit=501", "?provider=none"} {
		j.get(j.key, 200, catalog+query)
	}
	j.get(j.key, 400, catalog+"?risk_level=none")
	j.get(j.key, 200, catalog+"/shop:create_order")
	j.get(j.key, 200, catalog+"/shop:create_order?format=tools")
	j.get(j.key, 404, catalog+"/shop:none")
	j.refused(j.key, 400, "INVALID_VERB", http.MethodGet, catalog+"/none", nil)
	j.refused(j.key, 400, "VALIDATION_ERROR", http.MethodGet, catalog+"/shop:create_order?format=none", nil)
	for _, verb := range []string{"shop:list_orders", "shop:create_order", "shop:create_refund"} {
		j.post(j.key, 200, evaluate, object{"verb": verb, "args": object{}})
	}
	j.post(j.key, 404, evaluate, object{"verb": "shop:none"})
	j.post(j.key, 400, evaluate, object{"verb": "none"})
}

const run = "/v1/runtime/actions/run"

func (j *journey) runs() {
	j.post(j.key, 200, run, order("order-1"))
	j.post(j.key, 200, run, order("order-1"))
	other := order("order-1")
	other["args"] = object{"customer_id": "cus_1001", "amount": 1, "currency": "eur"}
	j.post(j.key, 200, run, other)
	j.post(j.key, 200, run, object{"verb": "shop:list_orders", "args": object{"limit": 2}})
	j.post(j.key, 200, run, object{"verb": "faulty:list", "args": object{}})
	j.post(j.key, 202, run, order("order-2"), "Prefer: wait=0")
	dry := order("order-3")
	dry["metadata"] = object{"dryRun": true}
	j.post(j.key, 200, run, dry)
	j.post(j.key, 200, run, dry)
	j.post(j.key, 403, run, object{"verb": "shop:create_refund", "args": object{"order_id": "ord_1001", "amount": 1}, "execution_id": "refund-1"})
	j.post(j.key, 404, run, object{"verb": "shop:none", "args": object{}})
	j.post(j.key, 400, run, object{"verb": "none", "args": object{}})
	j.post(j.key, 400, run, object{"verb": "shop:list_orders", "args": object{}, "execution_id": "a b"})
	j.post(j.key, 422, run, object{"verb": "shop:create_order", "args": object{"nosuch": 1}})
	j.post(j.key, 422, run, object{"verb": "shop:list_orders", "args": object{}, "execution_id": "order-1"})
	j.post(j.key, 200, run, order("order-5"))
	both := order("order-5")
	both["idempotency_key"] = "order-1"
	j.refused(j.key, 422, "IDEMPOTENCY_CONFLICT", http.MethodPost, run, both)
	j.post(j.key, 424, run, object{"verb": "unconnected:list_orders", "args": object{}})
}

func (j *journey) faults() {
	j.post(j.key, 504, run, object{"verb": "faulty:hang", "args": object{}})
	j.post(j.key, 504, run, object{"verb": "faulty:hang_write", "args": object{}, "execution_id": "unknown-1"})
	j.post(j.key, 504, run, object{"verb": "faulty:hang_write", "args": object{}, "execution_id": "unknown-1"})
	j.post(j.key, 422, run, object{"verb": "faulty:refuse", "args": object{}, "execution_id": "refused-1"})
	j.post(j.key, 502, run, object{"verb": "faulty:fail", "args": object{}})
	j.post(j.key, 422, run, object{"verb": "shop:get_order", "args": object{"order_id": "ord_none"}})
	j.refused(j.key, 504, "RUN_EXPIRED", http.MethodPost, run, object{"verb": "faulty:wait", "args": object{}, "expires_in": 1}, "Prefer: wait=20")
}

// circuits lets a provider fail until its circuit opens.
func (j *journey) circuits() {
	j.post(j.user, 201, "/v1/providers", object{"slug": "broken", "base_url": rig.Serve(j.t, http.HandlerFunc(faulty)), "auth": object{"type": "none"}, "openapi": json.RawMessage(faultyDocument)})
	j.get(j.user, 200, "/v1/providers/broken")
	for range 10 {
		j.refused(j.key, 502, "PROVIDER_ERROR", http.MethodPost, run, object{"verb": "broken:fail_write", "args": object{}})
	}
	j.refused(j.key, 503, "CIRCUIT_OPEN", http.MethodPost, run, object{"verb": "broken:list", "args": object{}, "execution_id": "refused-2"})
	j.get(j.user, 200, "/v1/executions/refused-2")
	j.get(j.user, 200, "/v1/providers/broken")
	j.get(j.user, 200, "/v1/rate-limits")
	j.call(j.user, 200, http.MethodDelete, "/v1/providers/broken", nil)
}

// races brings about the answers that need two calls at once.
func (j *journey) races() {
	ran := make(chan rig.Answer, 1)
	go func() {
		ran <- j.key.Do(http.MethodPost, run, object{"verb": "faulty:wait", "args": object{}, "execution_id": "waits-1"}, "Prefer: wait=30")
	}()
	rig.Until(j.t, 20*time.Second, "a run that its provider holds back is cancelled", func() bool {
		return j.user.Do(http.MethodPost, "/v1/executions/waits-1/cancel", nil).Status == http.StatusOK
	})
	a := <-ran
	require.NoError(j.t, a.Err)
	require.Equal(j.t, http.StatusConflict, a.Status, "%s", a.Body)
	j.get(j.user, 200, "/v1/executions/waits-1")

	j.atOnce("two rotations meet", http.MethodPost, "/v1/credentials/"+j.credential+"/rotate", object{"data": object{"key": "k"}})
}

// atOnce makes the same change several times at once, until one meets another and is refused.
func (j *journey) atOnce(why, method, path string, body object) {
	j.t.Helper()
	rig.Until(j.t, 20*time.Second, why, func() bool {
		const at = 8
		statuses := make(chan int, at)
		for range at {
			go func() { statuses <- j.user.Do(method, path, body).Status }()
		}
		met := false
		for range at {
			met = <-statuses == http.StatusConflict || met
		}
		return met
	})
}

func (j *journey) executions() {
	for _, query := range []string{"", "?limit=2", "?status=executed", "?verb=shop:create_order", "?provider=shop&session_id=s-1&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z", "?dry_run=true&decision=allow&risk_level=medium"} {
		j.get(j.user, 200, "/v1/executions"+query)
		j.get(j.key, 200, "/v1/executions"+query)
	}
	j.get(j.user, 400, "/v1/executions?from=yesterday")
	j.get(j.user, 400, "/v1/executions?verb=none")
	for _, id := range []string{"order-1", "order-3", "refund-1", "unknown-1", "refused-1"} {
		j.get(j.user, 200, "/v1/executions/"+id)
	}
	j.get(j.user, 404, "/v1/executions/none")
	j.post(j.key, 409, "/v1/executions/order-1/cancel", nil)
	j.post(j.key, 404, "/v1/executions/none/cancel", nil)
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, "/v1/executions/order-1/cancel", nil)
	settle := object{"outcome": "executed", "result": object{"id": "x"}, "reason": "It is there."}
	j.post(j.user, 400, "/v1/executions/unknown-1/resolve", object{"outcome": "perhaps", "reason": "r"})
	j.post(j.user, 200, "/v1/executions/unknown-1/resolve", settle)
	j.post(j.user, 409, "/v1/executions/unknown-1/resolve", settle)
	j.post(j.user, 404, "/v1/executions/none/resolve", settle)
	j.post(j.key, 200, run, object{"verb": "faulty:hang_write", "args": object{}, "execution_id": "unknown-1"})
	j.get(j.user, 200, "/v1/executions/unknown-1")
}

// refusals goes over every endpoint with the credentials and bodies that any of
// them refuses, and takes the answer that comes where the document has it.
func (j *journey) refusals() {
	large := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)
	forged := j.client()
	forged.Token = "none"
	for _, op := range j.w.ops {
		path := op.some()
		if slices.Contains(op.answers, "400 VALIDATION_ERROR") {
			j.twice(op, path)
		}
		var body any
		if slices.Contains(op.statuses, "415") {
			body = object{}
		}
		if !slices.Contains(op.statuses, "401") {
			j.bodies(op, j.none, path, large)
			continue
		}
		for _, c := range []*rig.Client{j.none, j.revoked, j.expired, j.elsewhere, j.agent, j.page, j.pageRuns, j.server, j.withKey("ark_none"), forged} {
			a := c.Do(op.method, path, body, "Origin: https://elsewhere.example.com")
			require.NoError(j.t, a.Err)
		}
		c := j.user
		if strings.HasPrefix(op.path, "/v1/runtime/") {
			c = j.key
			require.Equal(j.t, http.StatusUnauthorized, j.user.Do(op.method, path, body).Status)
		}
		if op.path == "/v1/events" {
			c = j.server
		}
		if strings.HasSuffix(op.path, "/message") || strings.HasSuffix(op.path, "/goals") {
			c = j.writer
		}
		j.bodies(op, c, path, large)
	}
}

// twice sends a header twice, to the service itself: prism would make one line of the two.
func (j *journey) twice(op operation, path string) {
	j.t.Helper()
	r, err := http.NewRequestWithContext(j.t.Context(), op.method, j.upstream+path, http.NoBody)
	require.NoError(j.t, err)
	r.Header["X-Api-Key"] = []string{"one", "two"}
	res, err := j.w.RoundTrip(r)
	require.NoError(j.t, err)
	res.Body.Close()
	require.Equal(j.t, http.StatusBadRequest, res.StatusCode, "%s %s", op.method, path)
}

func (j *journey) bodies(op operation, c *rig.Client, path string, large []byte) {
	if !slices.Contains(op.statuses, "415") || op.path == "/v1/auth/logout" {
		return
	}
	j.call(c, 415, op.method, path, []byte("a"), "Content-Type: text/plain")
	if !op.takesDefinition() { // what is wrong with one is another code
		j.call(c, 400, op.method, path, []byte("[]"))
	}
	// prism itself refuses what is no JSON at all, and passes on what is too deep.
	const deep = 129 // that of a definition is 128, and of other bodies 64
	j.refused(c, 400, "INVALID_JSON", op.method, path, []byte(`{"a":`+strings.Repeat("[", deep)+strings.Repeat("]", deep)+"}"))
	if op.path != "/v1/providers" {
		j.call(c, 413, op.method, path, large)
	}
}

// ends logs out, after which the token is worth nothing.
func (j *journey) ends() {
	c := j.logIn(email)
	j.post(c, 200, "/v1/auth/logout", nil)
	j.post(c, 401, "/v1/auth/logout", nil)
}
