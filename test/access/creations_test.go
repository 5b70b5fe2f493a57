package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/sandbox"
	"agentruntime/test/rig"
)

// creation is a call that creates, with two bodies that differ.
type creation struct{ one, two any }

// creations has a call for every endpoint that creates.
func creations(own *tenant) map[string]creation {
	shop := func(name string) any {
		return map[string]any{"slug": own.name + "-made", "name": name, "openapi": json.RawMessage(sandbox.Document("https://shop.example.com"))}
	}
	grant := func(reason string) any {
		return map[string]any{"verb": own.provider + ":create_refund", "expires_at": soon(), "max_uses": 1, "reason": reason}
	}
	stop := func(reason string) any {
		return map[string]any{"scope": "agent", "target": own.name + "-agent", "reason": reason}
	}
	models := func(name string) any {
		return map[string]any{"slug": "made-" + name, "api": "openai", "base_url": "https://example.com/v1"}
	}
	credential := func(label string) any {
		return map[string]any{"provider": own.provider, "type": "api_key", "label": label, "data": map[string]string{"key": shopKey}}
	}
	key := func(name string) any {
		return map[string]any{"name": name, "permissions": []string{"actions:catalog"}}
	}
	user := func(name string) any {
		return map[string]any{"email": own.name + "-made@example.com", "role": "member", "name": name}
	}
	customer := func(name string) any {
		return map[string]any{"external_id": own.name + "-made", "name": name}
	}
	webhook := func(name string) any {
		return map[string]any{"url": "https://example.com/" + name, "events": []string{"*"}, "enabled": false}
	}
	flow := func(name string) any {
		return map[string]any{"schema_version": "1", "name": name, "steps": []any{}}
	}
	return map[string]creation{
		"/v1/agents":    {map[string]any{"name": "one"}, map[string]any{"name": "two"}},
		"/v1/maps":      {flow("one"), flow("two")},
		"/v1/webhooks":  {webhook("one"), webhook("two")},
		"/v1/customers": {customer("one"), customer("two")},

		"/v1/customers/{id}/memory": {map[string]any{"text": "one"}, map[string]any{"text": "two"}},
		"/v1/providers":             {shop("one"), shop("two")},
		"/v1/policies":              {rig.Policy("one", "notify", own.provider+":list_orders", nil), rig.Policy("two", "notify", own.provider+":list_orders", nil)},
		"/v1/grants":                {grant("one"), grant("two")},
		"/v1/model-providers":       {models("one"), models("two")},
		"/v1/kill-switch":           {stop("one"), stop("two")},
		"/v1/credentials":           {credential("one"), credential("two")},
		"/v1/api-keys":              {key("one"), key("two")},
		"/v1/users":                 {user("one"), user("two")},
	}
}

// created is what the answers of these tests say.
type created struct {
	ID         string `json:"id"`
	Slug       string `json:"slug"`
	Idempotent bool   `json:"idempotent"`
}

func (w *world) create(t *testing.T, own *tenant, path, key string, body any) (rig.Answer, created) {
	t.Helper()
	path = strings.Replace(path, "{id}", own.customer, 1)
	a := w.call(t, request{method: http.MethodPost, path: path, header: both(bearer(own.token), headers("Idempotency-Key", key)), body: encode(t, body)})
	var envelope struct{ Data created }
	require.NoError(t, json.Unmarshal(a.Body, &envelope))
	return a, envelope.Data
}

// An event has an id of its sender, which does the same.
// Sign-up needs no key: a second one with the same address creates nothing and answers alike.
func TestEachCreationTakesAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "making")
	calls := creations(own)
	for _, op := range w.doc.ops {
		if _, creates := object(op.node["responses"])["201"]; op.method == http.MethodPost && creates && op.path != "/v1/auth/signup" && op.path != "/v1/events" {
			require.Contains(t, calls, op.path, "an endpoint that creates, and is not tried here")
			require.True(t, slices.ContainsFunc(op.params, func(p map[string]any) bool { return p["name"] == "Idempotency-Key" }), op.path)
		}
	}
	for path, c := range calls {
		first, made := w.create(t, own, path, "k", c.one)
		require.Equal(t, http.StatusCreated, first.Status, "%s: %s", path, first.Body)
		require.False(t, made.Idempotent)
		again, same := w.create(t, own, path, "k", c.one)
		require.Equal(t, http.StatusOK, again.Status, "%s: %s", path, again.Body)
		require.Equal(t, created{made.ID, made.Slug, true}, same, path)
		require.Equal(t, first.Header.Get("Location"), again.Header.Get("Location"), path)
		for _, secret := range secretsIn(t, first.Body) {
			require.NotContains(t, string(again.Body), secret, path)
		}
		other, _ := w.create(t, own, path, "k", c.two)
		require.Equal(t, "422 IDEMPOTENCY_KEY_REUSED", outcome(other.Status, code(t, other)), path)
		for _, bad := range []string{"a b", "", strings.Repeat("k", 256)} {
			refused, _ := w.create(t, own, path, bad, c.one)
			require.Equal(t, "400 INVALID_IDEMPOTENCY_KEY", outcome(refused.Status, code(t, refused)), path)
		}
	}
}

func TestPreviewOfAnImportLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "trying")
	one, two := creations(own)["/v1/providers"].one, creations(own)["/v1/providers"].two
	tried, would := w.create(t, own, "/v1/providers?preview=true", "k", one)
	require.Equal(t, http.StatusOK, tried.Status, "%s", tried.Body)
	require.False(t, would.Idempotent)
	made, _ := w.create(t, own, "/v1/providers", "k", two)
	require.Equal(t, http.StatusCreated, made.Status, "%s", made.Body)
	tried, would = w.create(t, own, "/v1/providers?preview=true", "k", one)
	require.Equal(t, http.StatusOK, tried.Status, "%s", tried.Body)
	require.False(t, would.Idempotent)
}

// secretsIn returns the secrets that the answer to a creation shows.
func secretsIn(t *testing.T, body []byte) (secrets []string) {
	t.Helper()
	var envelope struct {
		Data struct {
			Key      string `json:"key"` // or what is shown of it
			Token    string `json:"invitation_token"`
			Identity string `json:"identity_secret"`
		}
	}
	require.NoError(t, json.Unmarshal(body, &envelope))
	for _, s := range []string{envelope.Data.Key, envelope.Data.Token, envelope.Data.Identity} {
		if s != "" && !strings.Contains(s, "…") {
			secrets = append(secrets, s)
		}
	}
	return secrets
}

func TestCreationsAtOnceUnderOneKeyMakeOne(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "racing")
	for path, c := range creations(own) {
		var group sync.WaitGroup
		var mu sync.Mutex
		statuses, ids := []int{}, map[string]bool{}
		for range 4 {
			group.Go(func() {
				a, made := w.create(t, own, path, "race", c.one)
				mu.Lock()
				defer mu.Unlock()
				statuses = append(statuses, a.Status)
				ids[made.ID+made.Slug] = true
			})
		}
		group.Wait()
		slices.Sort(statuses)
		require.Equal(t, []int{200, 200, 200, 201}, statuses, path)
		require.Len(t, ids, 1, path)
	}
}

// A repeat must not end the secret that the lost answer had: software may use it already.
func TestSecretIsRenewedOnceUnderAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "renewing")
	for path, renew := range map[string]string{"/v1/api-keys?rotated": "/rotate", "/v1/users": "/invite", "/v1/api-keys?vouching": "/rotate-identity-secret"} {
		path, _, _ = strings.Cut(path, "?")
		body, creation := creations(own)[path].one, "k"
		if renew == "/rotate-identity-secret" {
			body, creation = map[string]any{"name": "vouches", "permissions": []string{"agents:message"}, "identity_verification": true}, "vouches"
		}
		first, made := w.create(t, own, path, creation, body)
		path += "/" + made.ID + renew
		var group sync.WaitGroup
		answers := make([]rig.Answer, 4)
		for i := range answers {
			group.Go(func() { answers[i], _ = w.create(t, own, path, "k", map[string]any{}) })
		}
		group.Wait()
		var secrets []string
		repeats := 0
		for _, a := range answers {
			require.Equal(t, http.StatusOK, a.Status, "%s: %s", path, a.Body)
			require.Empty(t, a.Header.Get("Location"))
			if strings.Contains(string(a.Body), `"idempotent":true`) {
				repeats++
				continue
			}
			secrets = append(secrets, secretsIn(t, a.Body)...)
		}
		require.Equal(t, 3, repeats, path)
		require.Len(t, secrets, 1, path)
		require.NotContains(t, secretsIn(t, first.Body), secrets[0])
		for _, a := range answers {
			if strings.Contains(string(a.Body), `"idempotent":true`) {
				require.NotContains(t, string(a.Body), secrets[0], path)
			}
		}
		if renew == "/rotate-identity-secret" {
			hash := hmac.New(sha256.New, []byte(secrets[0]))
			hash.Write([]byte("cus_1"))
			// Who vouches for nobody is refused before the agent is looked for.
			said := w.call(t, request{
				method: http.MethodPost, path: "/v1/agents/" + someID + "/message", header: headers("X-API-Key", secretsIn(t, first.Body)[0]),
				body: encode(t, map[string]any{"message": "Hello", "customer_id": "cus_1", "identity_hash": hex.EncodeToString(hash.Sum(nil))}),
			})
			require.Equal(t, "404 AGENT_NOT_FOUND", outcome(said.Status, code(t, said)), "the secret of the first answer is the key's")
		}
		if renew != "/invite" {
			other, _ := w.create(t, own, path, "k", map[string]any{"overlap_seconds": 1})
			require.Equal(t, "422 IDEMPOTENCY_KEY_REUSED", outcome(other.Status, code(t, other)))
		}
		if renew == "/rotate" {
			mine := w.call(t, request{method: http.MethodGet, path: "/v1/me", header: headers("X-API-Key", secrets[0])})
			require.Equal(t, http.StatusOK, mine.Status, "the secret of the first answer is the key's")
		}
		another, _ := w.create(t, own, path, "another", map[string]any{})
		require.NotContains(t, string(another.Body), `"idempotent"`, path)
		refused, _ := w.create(t, own, path, "a b", map[string]any{})
		require.Equal(t, "400 INVALID_IDEMPOTENCY_KEY", outcome(refused.Status, code(t, refused)), path)
	}
}

func TestCreationRepeatedAfterADeletionMakesNothing(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "deleting")
	for path, c := range creations(own) {
		first, _ := w.create(t, own, path, "k", c.one)
		require.Equal(t, http.StatusCreated, first.Status, "%s", first.Body)
		gone := w.call(t, request{method: http.MethodDelete, path: first.Header.Get("Location"), header: bearer(own.token)})
		require.Equal(t, http.StatusOK, gone.Status, "%s", gone.Body)
		again, _ := w.create(t, own, path, "k", c.one)
		want := http.StatusNotFound
		if slices.Contains([]string{"/v1/grants", "/v1/kill-switch", "/v1/api-keys", "/v1/users"}, path) { // which can still be read
			want = http.StatusOK
		}
		require.Equal(t, want, again.Status, "%s: %s", path, again.Body)
	}
}

// A key's call and a user's are apart, and so are tenants.
func TestIdempotencyKeyIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own, other := w.newTenant(t, "mine"), w.newTenant(t, "yours")
	policy := rig.Policy("p", "notify", "*", nil)
	_, mine := w.create(t, own, "/v1/policies", "shared", policy)
	_, yours := w.create(t, other, "/v1/policies", "shared", policy)
	require.NotEqual(t, mine.ID, yours.ID)
	require.False(t, yours.Idempotent)
	software, _ := own.newKey(t, map[string]any{"name": "k", "permissions": []string{"policies:manage"}})
	a := w.call(t, request{
		method: http.MethodPost, path: "/v1/policies", body: encode(t, policy), header: headers("X-API-Key", software, "Idempotency-Key", "shared"),
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
}
