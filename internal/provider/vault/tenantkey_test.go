package vault_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
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

// awayKMS is a KMS that cannot be reached while away is set.
type awayKMS struct {
	vault.KMS

	away atomic.Bool
}

var errAway = errors.New("dial tcp: connection refused")

func (k *awayKMS) Wrap(ctx context.Context, key, data []byte) (string, []byte, error) {
	if k.away.Load() {
		return "", nil, errAway
	}
	return k.KMS.Wrap(ctx, key, data)
}

func (k *awayKMS) Unwrap(ctx context.Context, id string, wrapped, data []byte) ([]byte, error) {
	if k.away.Load() {
		return nil, errAway
	}
	return k.KMS.Unwrap(ctx, id, wrapped, data)
}

func TestUnreachableKMSIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	local, err := vault.NewLocalKMS("k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	kms := &awayKMS{KMS: local}
	open := func() *vault.Vault {
		v, err := vault.Open(vault.Deps{DB: r.db.Pool, KMS: kms, CheckURL: r.checkURL})
		require.NoError(t, err)
		return v
	}
	unavailable := func(err error) {
		t.Helper()
		f := fault.As(err)
		require.NotNil(t, f, "%v", err)
		require.Equal(t, fault.CodeServiceUnavailable, f.Code)
		require.True(t, f.Retryable)
		require.NotContains(t, f.Message, "dial")
	}
	kms.away.Store(true)
	cold := open()
	_, err = cold.Key(t.Context(), r.tenant)
	unavailable(err)
	kms.away.Store(false)
	first, err := cold.Key(t.Context(), r.tenant)
	require.NoError(t, err)
	kms.away.Store(true)
	_, err = cold.Key(t.Context(), r.tenant)
	require.NoError(t, err, "a key that was read stays open")
	_, err = open().Key(t.Context(), r.tenant)
	unavailable(err)
	kms.away.Store(false)
	again, err := open().Key(t.Context(), r.tenant)
	require.NoError(t, err)
	require.Equal(t, digestOf(first), digestOf(again))
}

func TestKeyUnderAMissingKeyEncryptionKeyIsNoOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.process(t, "k1").Key(t.Context(), r.tenant)
	require.NoError(t, err)
	_, err = r.process(t, "z2").Key(t.Context(), r.tenant)
	require.ErrorIs(t, err, vault.ErrNotOpened)
	require.Nil(t, fault.As(err))
}
