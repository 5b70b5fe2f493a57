package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func vouch(secret, subject string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(subject))
	return hex.EncodeToString(mac.Sum(nil))
}

// A key with identity_verification takes a customer only with the word of the tenant's server, and what
// else a browser says of the customer is not used.
func TestIdentityIsVerified(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	path, plain := agentOf(t, tenant, nil)
	var made struct {
		ID, Key        string
		IdentitySecret string `json:"identity_secret"`
	}
	a := tenant.User.MakeKey(map[string]any{"name": "widget", "permissions": []string{"agents:message"}, "identity_verification": true})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a.Data(t, &made)
	require.True(t, strings.HasPrefix(made.IdentitySecret, "idsec_"))
	shown := tenant.User.Do(http.MethodGet, "/v1/api-keys/"+made.ID, nil)
	require.Contains(t, string(shown.Body), `"identity_verification":true`)
	require.NotContains(t, string(shown.Body), "identity_secret")
	require.NotContains(t, string(tenant.User.Do(http.MethodGet, "/v1/audit", nil).Body), made.IdentitySecret)
	widget := tenant.Runtime.With(made.Key, "")

	say := func(more map[string]any) map[string]any {
		body := map[string]any{"message": "Hello"}
		maps.Copy(body, more)
		return body
	}
	right := vouch(made.IdentitySecret, "ann")
	for name, body := range map[string]map[string]any{
		"no hash":             say(map[string]any{"customer_id": "ann"}),
		"no hash of an email": say(map[string]any{"identity": map[string]any{"email": "ann@example.com"}}),
		"another's hash":      say(map[string]any{"customer_id": "bob", "identity_hash": right}),
		"no hex":              say(map[string]any{"customer_id": "ann", "identity_hash": "zz" + right[2:]}),
		"half of it":          say(map[string]any{"customer_id": "ann", "identity_hash": right[:32]}),
		"another secret":      say(map[string]any{"customer_id": "ann", "identity_hash": vouch("idsec_", "ann")}),
		"nothing is covered":  say(map[string]any{"identity": map[string]any{"phone": "+4930123456"}, "identity_hash": vouch(made.IdentitySecret, "")}),
	} {
		a := widget.Do(http.MethodPost, path, body)
		require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s: %s", name, a.Body)
		require.Contains(t, string(a.Body), "IDENTITY_REQUIRED", name)
	}
	saidOf(t, widget.Do(http.MethodPost, path, say(nil)), http.StatusOK) // who says nothing is nobody
	ann := saidOf(t, widget.Do(http.MethodPost, path, say(map[string]any{
		"customer_id": "ann", "identity_hash": strings.ToUpper(right), "session_id": "ann-1",
		"identity": map[string]any{"email": "victim@example.com", "name": "Ann", "tier": "gold"},
	})), http.StatusOK)
	execution := tenant.User.Do(http.MethodGet, "/v1/executions/"+ann.ExecutionID, nil)
	require.Contains(t, string(execution.Body), `"ignored":["identity.email","identity.metadata"]`)
	customer := tenant.User.Do(http.MethodGet, "/v1/customers/ann", nil)
	require.Contains(t, string(customer.Body), `"name":"Ann"`)
	require.NotContains(t, string(customer.Body), "victim")
	require.NotContains(t, string(customer.Body), "gold")
	mail := vouch(made.IdentitySecret, "Carol@example.com")
	saidOf(t, widget.Do(http.MethodPost, path, say(map[string]any{"identity": map[string]any{"email": "Carol@example.com"}, "identity_hash": mail})), http.StatusOK)

	// A guessed session_id opens no session of a customer: not without the customer, not as another one,
	// and not by a key that has no customers.
	a = widget.Do(http.MethodPost, path, say(map[string]any{"session_id": "ann-1"}))
	require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
	a = widget.Do(http.MethodPost, path, say(map[string]any{"session_id": "ann-1", "customer_id": "bob", "identity_hash": vouch(made.IdentitySecret, "bob")}))
	require.Equal(t, http.StatusConflict, a.Status, "%s", a.Body)
	a = tenant.User.MakeKey(map[string]any{"name": "nobody", "permissions": []string{"agents:message"}, "identity_mode": "anonymous"})
	var nobody struct{ Key string }
	a.Data(t, &nobody)
	require.Equal(t, http.StatusConflict, tenant.Runtime.With(nobody.Key, "").Do(http.MethodPost, path, say(map[string]any{"session_id": "ann-1"})).Status)
	// A page's key does not list what others wrote with it. It reads what it can name.
	require.Equal(t, http.StatusForbidden, widget.Do(http.MethodGet, "/v1/executions?kind=message", nil).Status)
	require.Equal(t, http.StatusOK, widget.Do(http.MethodGet, "/v1/executions/"+ann.ExecutionID, nil).Status)
	require.Equal(t, http.StatusOK, plain.Do(http.MethodGet, "/v1/executions?kind=message", nil).Status)

	// The secret before a rotation is taken for the overlap, and the one before that no longer.
	rotate := "/v1/api-keys/" + made.ID + "/rotate-identity-secret"
	secrets := []string{made.IdentitySecret}
	for range 2 {
		a := tenant.User.Do(http.MethodPost, rotate, map[string]any{"overlap_seconds": 3600})
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		a.Data(t, &made)
		secrets = append(secrets, made.IdentitySecret)
	}
	for i, want := range []int{http.StatusUnprocessableEntity, http.StatusOK, http.StatusOK} {
		a := widget.Do(http.MethodPost, path, say(map[string]any{"customer_id": "ann", "identity_hash": vouch(secrets[i], "ann")}))
		require.Equal(t, want, a.Status, "%d: %s", i, a.Body)
	}
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, rotate, nil).Status)
	a = widget.Do(http.MethodPost, path, say(map[string]any{"customer_id": "ann", "identity_hash": vouch(secrets[2], "ann")}))
	require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
	require.Equal(t, http.StatusBadRequest, tenant.User.MakeKey(map[string]any{
		"name": "none", "permissions": []string{"agents:message"}, "identity_mode": "anonymous", "identity_verification": true,
	}).Status)
	require.Equal(t, http.StatusConflict, tenant.User.Do(http.MethodPost, "/v1/api-keys/"+tenant.RuntimeKeyID+"/rotate-identity-secret", nil).Status)
}
