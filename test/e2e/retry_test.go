package e2e

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// The world changes while a call waits for its next attempt. That attempt goes out only as
// the call is judged then, with the credential of then.
func TestWhatChangesBetweenTwoAttempts(t *testing.T) {
	t.Parallel()
	op := func(risk string) json.RawMessage {
		return document(bearer(), operation{
			method: http.MethodPost, path: "/things", id: "create_thing", args: []string{"id"},
			runtime: map[string]any{"risk_level": risk, "idempotency": "header:Idempotency-Key"},
		})
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, w *retried)
		status int
		code   string
		calls  int
	}{
		{"nothing", func(*testing.T, *retried) {}, http.StatusOK, "", 2},
		{"the credential is deleted", func(t *testing.T, w *retried) {
			t.Helper()
			ok(t, w.User.Do(http.MethodDelete, "/v1/credentials/"+w.credential(t), nil))
		}, http.StatusFailedDependency, "PROVIDER_NOT_CONNECTED", 1},
		{"the credential is revoked", func(t *testing.T, w *retried) {
			t.Helper()
			ok(t, w.User.Do(http.MethodPatch, "/v1/credentials/"+w.credential(t), map[string]string{"status": "revoked"}))
		}, http.StatusFailedDependency, "PROVIDER_NOT_CONNECTED", 1},
		{"the credential is rotated", func(t *testing.T, w *retried) {
			t.Helper()
			ok(t, w.User.Do(http.MethodPost, "/v1/credentials/"+w.credential(t)+"/rotate", map[string]any{"data": map[string]string{"token": "second-token"}}))
		}, http.StatusOK, "", 2},
		{"the risk is raised", func(t *testing.T, w *retried) {
			t.Helper()
			w.Connect(t, "retried", w.url, op("high"), "", nil)
		}, http.StatusForbidden, "GOVERNANCE_BLOCKED", 1},
		{"a policy blocks", func(t *testing.T, w *retried) {
			t.Helper()
			w.User.NewPolicy(t, rig.Policy("stop", "block", "retried:create_thing", nil))
		}, http.StatusForbidden, "GOVERNANCE_BLOCKED", 1},
		{"another address", func(t *testing.T, w *retried) {
			t.Helper()
			w.Connect(t, "retried", rig.Serve(t, http.NotFoundHandler()), op("low"), "", nil)
		}, http.StatusUnprocessableEntity, "URL_NOT_ALLOWED", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &retried{Tenant: sharedDev().For(t).NewTenant(rig.Address())}
			w.url = rig.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if w.came(r) == 1 {
					c.change(t, w)
					rw.Header().Set("Retry-After", "1")
					rw.WriteHeader(http.StatusTooManyRequests)
					return
				}
				rw.Header().Set("Content-Type", "application/json")
				_, _ = rw.Write([]byte(`{}`))
			}))
			w.Connect(t, "retried", w.url, op("low"), "bearer", map[string]string{"token": "first-token"})
			a := w.Runtime.Run("retried:create_thing", map[string]string{"id": "1"}, "one")
			require.Equal(t, c.status, a.Status, "%s %v", a.Body, a.Err)
			require.Equal(t, c.code, a.Code(t))
			require.Len(t, w.tokens, c.calls)
			if c.name == "the credential is rotated" {
				require.Equal(t, []string{"Bearer first-token", "Bearer second-token"}, w.tokens)
			}
		})
	}
}

// retried is a tenant with a provider that refuses the first call.
type retried struct {
	*rig.Tenant

	url    string
	mu     sync.Mutex
	tokens []string // of the calls that came
}

func (w *retried) came(r *http.Request) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens = append(w.tokens, r.Header.Get("Authorization"))
	return len(w.tokens)
}

func (w *retried) credential(t *testing.T) string {
	t.Helper()
	var list []struct{ ID string }
	w.User.Do(http.MethodGet, "/v1/credentials?provider=retried", nil).Data(t, &list)
	require.Len(t, list, 1)
	return list[0].ID
}

func ok(t *testing.T, a rig.Answer) {
	t.Helper()
	require.Less(t, a.Status, 300, "%s %v", a.Body, a.Err)
	require.NoError(t, a.Err)
}
