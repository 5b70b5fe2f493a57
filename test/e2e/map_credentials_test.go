package e2e

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// badges is a provider that writes down by which credential each call came.
type badges struct {
	mu   sync.Mutex
	seen []string
}

func (b *badges) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Method != http.MethodGet {
		b.seen = append(b.seen, r.URL.Path+" "+r.Header.Get("Authorization"))
	}
	if r.URL.Path == "/fail" {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"1","sent":%q}`, body)
}

// calls returns the writes since it was called before.
func (b *badges) calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.seen
	b.seen = nil
	return list
}

func storeCredential(t *testing.T, tenant *rig.Tenant, token, customer string) string {
	t.Helper()
	body := map[string]any{"provider": "badges", "type": "bearer", "data": map[string]string{"token": token}}
	if customer != "" {
		body["customer_id"] = customer
	}
	var made struct{ ID string }
	a := tenant.User.Do(http.MethodPost, "/v1/credentials", body)
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a.Data(t, &made)
	return made.ID
}

func withBadges(t *testing.T, s *rig.Stack) (*badges, *rig.Tenant) {
	t.Helper()
	b, tenant := &badges{}, newTenant(s)
	args := []string{"id"}
	tenant.Connect(t, "badges", rig.Serve(t, b), document(bearer(),
		operation{method: http.MethodPost, path: "/make", id: "make", args: args},
		operation{method: http.MethodPost, path: "/undo", id: "undo", args: args},
		operation{method: http.MethodPost, path: "/fail", id: "fail", args: args},
	), "", nil)
	return b, tenant
}

// A step that names a credential is sent by that one, whichever is the newest. So is what undoes it,
// and its change where it was a dry run.
func TestStepUsesTheCredentialThatItNames(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		b, tenant := withBadges(t, s)
		first := storeCredential(t, tenant, "first-token-of-two", "")
		storeCredential(t, tenant, "second-token-of-two", "")
		trigger := publish(t, tenant, "Names", `[
			{"id":"a","type":"verb","verb":"badges:make","credential_id":"`+first+`","args":{"id":"a"},"compensate":{"verb":"badges:undo","args":{"id":"a"}}},
			{"id":"b","type":"verb","verb":"badges:make","args":{"id":"b"}},
			{"id":"c","type":"switch","cases":[{"when":"${trigger_data.fails}","steps":[{"id":"d","type":"raise","error":{"code":"NO"}}]}]}]`)

		a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{"fails": true}}, "Prefer: wait=60")
		requireCode(t, a, http.StatusUnprocessableEntity, "MAP_FAILED")
		require.Equal(t, []string{"/make Bearer first-token-of-two", "/make Bearer second-token-of-two", "/undo Bearer first-token-of-two"}, b.calls())

		path, _ := dryRunOf(t, tenant, trigger, map[string]any{"fails": false})
		require.Equal(t, "applied", decideAll(t, tenant.User, path, map[string]any{"approve": "all"}).Status)
		require.Equal(t, []string{"/make Bearer first-token-of-two", "/make Bearer second-token-of-two"}, b.calls())

		// A caller names none by the metadata of a run.
		requireRun(t, tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
			"verb": "badges:make", "args": map[string]any{"id": "x"}, "metadata": map[string]any{"credential_id": first},
		}))
		require.Equal(t, []string{"/make Bearer second-token-of-two"}, b.calls())
	})
}

func TestStepWithACredentialThatItMayNotUseIsNotSent(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	b, tenant := withBadges(t, s)
	storeCredential(t, tenant, "token-of-the-tenant", "")
	revoked, customers := storeCredential(t, tenant, "token-that-is-revoked", ""), storeCredential(t, tenant, "token-of-a-customer", "cus_1")
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/credentials/"+revoked, nil).Status)
	_, other := withBadges(t, s)
	foreign := storeCredential(t, other, "token-of-another-tenant", "")
	for name, id := range map[string]string{"revoked": revoked, "of another tenant": foreign, "of a customer": customers, "unknown": "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"} {
		trigger := publish(t, tenant, "Names", `[{"id":"a","type":"verb","verb":"badges:make","credential_id":"`+id+`","args":{"id":"a"}}]`)
		a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{}}, "Prefer: wait=60")
		requireCode(t, a, http.StatusUnprocessableEntity, "MAP_FAILED")
		require.Contains(t, string(a.Body), "CREDENTIAL_NOT_FOUND", name)
	}
	require.Empty(t, b.calls())
	trigger := publish(t, tenant, "Names", `[{"id":"a","type":"verb","verb":"badges:make","credential_id":"`+customers+`","args":{"id":"a"}}]`)
	mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{}, "customer_id": "cus_1"}, "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, []string{"/make Bearer token-of-a-customer"}, b.calls())
}
