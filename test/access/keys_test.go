package access

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aKey is what the answers of these tests say of a key.
type aKey struct {
	ID            string     `json:"id"`
	Key           string     `json:"key"`
	Status        string     `json:"status"`
	AllowedIPs    []string   `json:"allowed_ips"`
	CreatedBy     string     `json:"created_by"`
	ExpiresAt     *time.Time `json:"expires_at"`
	PreviousUntil *time.Time `json:"previous_until"`
}

// keyAnswer calls as the tenant's owner and returns the key of the answer.
func (w *world) keyAnswer(t *testing.T, own *tenant, method, path string, body any) aKey {
	t.Helper()
	r := request{method: method, path: path, header: bearer(own.token)}
	if body != nil {
		r.body = encode(t, body)
	}
	a := w.call(t, r)
	require.Less(t, a.Status, 300, "%s", a.Body)
	var envelope struct{ Data aKey }
	require.NoError(t, json.Unmarshal(a.Body, &envelope))
	return envelope.Data
}

// lists is what a key is told that lists the catalog.
func (w *world) lists(t *testing.T, key string) string {
	t.Helper()
	a := w.call(t, request{method: http.MethodGet, path: "/v1/runtime/actions/catalog?limit=1", header: headers("X-API-Key", key)})
	return outcome(a.Status, code(t, a))
}

func TestKeyRotatedKeepsItsOldSecretForTheOverlap(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "rotating")
	first := w.keyAnswer(t, own, http.MethodPost, "/v1/api-keys", map[string]any{"name": "k", "permissions": []string{"actions:catalog"}})
	path := "/v1/api-keys/" + first.ID
	second := w.keyAnswer(t, own, http.MethodPost, path+"/rotate", map[string]any{"overlap_seconds": 3600})
	require.NotEqual(t, first.Key, second.Key)
	require.NotNil(t, second.PreviousUntil)
	require.Equal(t, "200 ", w.lists(t, first.Key))
	require.Equal(t, "200 ", w.lists(t, second.Key))

	third := w.keyAnswer(t, own, http.MethodPost, path+"/rotate", nil)
	require.Nil(t, third.PreviousUntil)
	require.Equal(t, "401 INVALID_API_KEY", w.lists(t, first.Key))
	require.Equal(t, "401 API_KEY_EXPIRED", w.lists(t, second.Key))
	require.Equal(t, "200 ", w.lists(t, third.Key))

	shown := w.keyAnswer(t, own, http.MethodGet, path, nil)
	require.Equal(t, "active", shown.Status)
	require.NotContains(t, []string{first.Key, second.Key, third.Key}, shown.Key)
	require.Equal(t, "user:"+own.ownerID, shown.CreatedBy)
	require.Equal(t, http.StatusOK, own.User.Do(http.MethodDelete, path, nil).Status)
	require.Equal(t, "401 API_KEY_REVOKED", w.lists(t, second.Key))
	require.Equal(t, "401 API_KEY_REVOKED", w.lists(t, third.Key))
	require.Equal(t, "revoked", w.keyAnswer(t, own, http.MethodGet, path, nil).Status)
}

func TestKeyPatchedObeysItsNewBounds(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "bounded")
	key := w.keyAnswer(t, own, http.MethodPost, "/v1/api-keys", map[string]any{
		"name": "k", "permissions": []string{"actions:catalog"}, "allowed_ips": []string{"203.0.113.0/24"}, "expires_at": time.Now().Add(time.Hour),
	})
	require.NotNil(t, key.ExpiresAt)
	path := "/v1/api-keys/" + key.ID
	require.Equal(t, "403 IP_NOT_ALLOWED", w.lists(t, key.Key), "the caller is on loopback")
	manages := w.call(t, request{method: http.MethodGet, path: "/v1/api-keys", header: headers("X-API-Key", key.Key)})
	require.Equal(t, "403 IP_NOT_ALLOWED", outcome(manages.Status, code(t, manages)))
	got := w.keyAnswer(t, own, http.MethodPatch, path, map[string]any{"allowed_ips": []string{"127.0.0.1", "::1"}})
	require.Equal(t, []string{"127.0.0.1/32", "::1/128"}, got.AllowedIPs)
	require.Equal(t, "200 ", w.lists(t, key.Key))
	got = w.keyAnswer(t, own, http.MethodPatch, path, map[string]any{"permissions": []string{"actions:run"}, "allowed_ips": []string{}, "expires_at": nil})
	require.Nil(t, got.ExpiresAt)
	require.Equal(t, "403 INSUFFICIENT_PERMISSIONS", w.lists(t, key.Key))
	for _, body := range []map[string]any{
		{"permissions": []string{"actions:run", "credentials:manage"}},
		{"permissions": []string{"agents:message"}},
		{"expires_at": time.Now().Add(-time.Minute)},
		{"allowed_ips": []string{"everywhere"}},
		{"agent_id": "a"},
		{"limits": map[string]any{"requests_per_second": 1}},
	} {
		a := w.call(t, request{method: http.MethodPatch, path: path, header: bearer(own.token), body: encode(t, body)})
		require.Equal(t, badBody, outcome(a.Status, code(t, a)), "%v: %s", body, a.Body)
	}
}
