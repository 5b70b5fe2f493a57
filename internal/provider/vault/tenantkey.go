package vault

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
)

// fieldTenantKey is the field of the data key of a tenant. It belongs to no credential and has
// no versions.
const fieldTenantKey = "tenant_key"

// tenantKeysCached is how many tenants' keys a process keeps open, about 3 MB of them.
const tenantKeysCached = 8192

func newTenantKeys() *lru.Cache[uuid.UUID, *datakey.Key] {
	cache, err := lru.New[uuid.UUID, *datakey.Key](tenantKeysCached)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return cache
}

func tenantKeyBinding(tenant uuid.UUID) binding {
	return binding{tenant: tenant, field: fieldTenantKey}
}

// Key returns the data key under which the rows of a tenant are sealed. The first call for a
// tenant makes the key. A process reads each key once, and a key never changes, so the cache
// needs no notice of changes. The error is SERVICE_UNAVAILABLE where the database or the KMS
// cannot be reached. A key that does not open is ours to repair, and no fault.
func (v *Vault) Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error) {
	if key, known := v.tenantKeys.Get(tenant); known {
		return key, nil
	}
	rows, err := v.q.GetTenantKey(ctx, v.db.Tenant(tenant), tenant)
	if err == nil && len(rows) == 0 {
		rows, err = v.makeTenantKey(ctx, tenant)
	}
	if err != nil {
		return nil, fmt.Errorf("vault: read the key of a tenant: %w", err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("vault: the key of tenant %s was not stored", tenant)
	}
	secret, err := v.kms.Unwrap(ctx, rows[0].KekID, rows[0].WrappedKey, tenantKeyBinding(tenant).additionalData(layerKey))
	if err != nil {
		return nil, fmt.Errorf("vault: key of tenant %s: %w", tenant, err)
	}
	defer clear(secret)
	key, err := datakey.New(secret)
	if err != nil {
		return nil, fmt.Errorf("vault: key of tenant %s: %w", tenant, err)
	}
	v.tenantKeys.Add(tenant, key)
	return key, nil
}

// makeTenantKey stores a new key and returns what is stored: where another process was first,
// its key.
func (v *Vault) makeTenantKey(ctx context.Context, tenant uuid.UUID) ([]dbsqlc.GetTenantKeyRow, error) {
	secret := make([]byte, datakey.Bytes)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	defer clear(secret)
	kek, wrapped, err := v.kms.Wrap(ctx, secret, tenantKeyBinding(tenant).additionalData(layerKey))
	if err != nil {
		return nil, err
	}
	b := &db.Batch{}
	db.QueueExec(b, v.q.InsertTenantKey, dbsqlc.InsertTenantKeyParams{TenantID: tenant, KekID: kek, WrappedKey: wrapped})
	stored := db.Queue(b, v.q.GetTenantKey, tenant)
	if err := v.db.Send(ctx, tenant, b); err != nil {
		return nil, err
	}
	return stored.Value, nil
}
