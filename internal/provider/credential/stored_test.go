package credential_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/credential"
)

// The vault has secrets in this form, and the catalog says in it where a provider expects
// them. A test that fails here means that credentials which are stored can no longer be used.
func TestStoredFormsKeepTheirMembers(t *testing.T) {
	t.Parallel()
	for want, secret := range map[string]credential.Secret{
		`{"type":"api_key","key":"k"}`:                         credential.NewAPIKey("k"),
		`{"type":"bearer","token":"t"}`:                        credential.NewBearer("t"),
		`{"type":"basic","username":"u","password":"p"}`:       credential.NewBasic("u", "p"),
		`{"type":"custom_header","headers":{"X-Key":"value"}}`: credential.NewCustomHeader(map[string]string{"X-Key": "value"}),
	} {
		plaintext, err := secret.Plaintext()
		require.NoError(t, err)
		require.Equal(t, want, string(plaintext))
		back, err := credential.ParseSecret(plaintext, secret.Kind())
		require.NoError(t, err)
		require.Equal(t, secret.Values(), back.Values())
	}
	raw, err := json.Marshal(credential.Auth{Type: credential.APIKey, In: "header", Name: "X-Key"})
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"api_key","in":"header","name":"X-Key"}`, string(raw))
}
