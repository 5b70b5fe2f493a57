package vault_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
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

func TestRewrapLeavesTheOldKeyWithoutUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var stored []vault.Credential
	before := map[uuid.UUID]string{}
	for _, tenant := range []uuid.UUID{r.tenant, r.other} {
		c, err := r.Create(t.Context(), by(tenant), vault.New{Provider: "shop", Type: "api_key", Data: json.RawMessage(`{"key":"` + canary + `-and-more"}`)})
		require.NoError(t, err)
		stored = append(stored, c)
		key, err := r.Key(t.Context(), tenant)
		require.NoError(t, err)
		before[tenant] = digestOf(key)
	}
	done, err := r.process(t, "k1").Rewrap(t.Context())
	require.NoError(t, err)
	require.Zero(t, done, "all are under the current key")
	_, err = r.process(t, "n1").Rewrap(t.Context())
	require.ErrorContains(t, err, "not configured", "the old key is needed once more")
	done, err = r.process(t, "n1", "k1").Rewrap(t.Context())
	require.NoError(t, err)
	require.Equal(t, vault.Rewrapped{Credentials: 2, TenantKeys: 2}, done)

	only := r.process(t, "n1")
	for i, tenant := range []uuid.UUID{r.tenant, r.other} {
		_, valid, err := only.Validate(t.Context(), tenant, stored[i].ID)
		require.NoError(t, err)
		require.True(t, valid)
		key, err := only.Key(t.Context(), tenant)
		require.NoError(t, err)
		require.Equal(t, before[tenant], digestOf(key), "the data key is the same")
	}
	done, err = r.process(t, "n1", "k1").Rewrap(t.Context())
	require.NoError(t, err)
	require.Zero(t, done)
	_, err = r.process(t, "k1").Key(t.Context(), r.tenant)
	require.Error(t, err)
}
