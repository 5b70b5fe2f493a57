package vault_test

import (
	"encoding/base64"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/provider/vault"
)

// process returns a vault of another process on the same database, with these keys.
func (r *rig) process(t *testing.T, keys ...string) *vault.Vault {
	t.Helper()
	for i, key := range keys {
		keys[i] = key + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(key[:1], 32)))
	}
	kms, err := vault.NewLocalKMS(strings.Join(keys, ","))
	require.NoError(t, err)
	v, err := vault.Open(vault.Deps{DB: r.db.Pool, KMS: kms, CheckURL: r.checkURL})
	require.NoError(t, err)
	return v
}

func digestOf(k *datakey.Key) string { return string(k.Digest([]byte("x"))) }

func TestTenantKeyMadeByManyAtOnceIsOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	keys := make([]*datakey.Key, 8)
	var all sync.WaitGroup
	for i := range keys {
		v := r.process(t, "k1")
		all.Go(func() {
			var err error
			keys[i], err = v.Key(t.Context(), r.tenant)
			require.NoError(t, err)
		})
	}
	all.Wait()
	for _, k := range keys {
		require.Equal(t, digestOf(keys[0]), digestOf(k))
	}
	other, err := r.Key(t.Context(), r.other)
	require.NoError(t, err)
	require.NotEqual(t, digestOf(keys[0]), digestOf(other))
}

func TestTenantKeyIsReadOncePerProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, err := r.Key(t.Context(), r.tenant)
	require.NoError(t, err)
	_, err = r.admin.Exec(t.Context(), `DELETE FROM tenant_keys`)
	require.NoError(t, err)
	again, err := r.Key(t.Context(), r.tenant)
	require.NoError(t, err)
	require.Same(t, first, again)
}

func TestTenantKeyElsewhereDoesNotOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.Key(t.Context(), r.tenant)
	require.NoError(t, err)
	_, err = r.admin.Exec(t.Context(), `INSERT INTO tenant_keys (tenant_id, kek_id, wrapped_key) SELECT $1, kek_id, wrapped_key FROM tenant_keys`, r.other)
	require.NoError(t, err)
	_, err = r.Key(t.Context(), r.other)
	require.Error(t, err, "another tenant")
	_, err = r.process(t, "k2").Key(t.Context(), r.tenant)
	require.ErrorContains(t, err, "not configured", "without the key-encryption key")
}
