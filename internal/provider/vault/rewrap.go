package vault

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// rewrapBatch is how many rows are read at once.
const rewrapBatch = 500

// Rewrapped counts what Rewrap has wrapped again.
type Rewrapped struct{ Credentials, TenantKeys int }

// Rewrap wraps, for all tenants, the data keys that are wrapped under another than the current
// key-encryption key. What is sealed under the data keys stays as it is. It may be repeated and
// run beside the service. Every process must know the current key before. A key that does not
// open is left, and is part of the error.
func (v *Vault) Rewrap(ctx context.Context) (out Rewrapped, err error) {
	on := v.db.Presenting(db.SettingRewrap, v.kms.Current())
	var failed []error
	out.Credentials, err = eachBatch(
		func(after uuid.UUID) ([]dbsqlc.CredentialsToRewrapRow, error) {
			return v.q.CredentialsToRewrap(ctx, on, dbsqlc.CredentialsToRewrapParams{Current: v.kms.Current(), After: after, Most: rewrapBatch})
		},
		func(r dbsqlc.CredentialsToRewrapRow) (uuid.UUID, error) {
			return r.ID, v.rewrapCredential(ctx, r.TenantID, r.ID)
		})
	failed = append(failed, err)
	out.TenantKeys, err = eachBatch(
		func(after uuid.UUID) ([]uuid.UUID, error) {
			return v.q.TenantKeysToRewrap(ctx, on, dbsqlc.TenantKeysToRewrapParams{Current: v.kms.Current(), After: after, Most: rewrapBatch})
		},
		func(tenant uuid.UUID) (uuid.UUID, error) { return tenant, v.rewrapTenantKey(ctx, tenant) })
	return out, errors.Join(append(failed, err)...)
}

// eachBatch handles all rows in the order of their ids, and returns how many succeeded.
func eachBatch[R any](next func(after uuid.UUID) ([]R, error), handle func(R) (uuid.UUID, error)) (done int, err error) {
	var after uuid.UUID
	var failed []error
	for {
		rows, err := next(after)
		if err != nil {
			return done, errors.Join(append(failed, fmt.Errorf("vault: rewrap: %w", err))...)
		}
		for _, r := range rows {
			id, err := handle(r)
			if after = id; err != nil {
				failed = append(failed, err)
				continue
			}
			done++
		}
		if len(rows) < rewrapBatch {
			return done, errors.Join(failed...)
		}
	}
}

func (v *Vault) rewrapCredential(ctx context.Context, tenant, id uuid.UUID) error {
	row, err := v.get(ctx, tenant, id)
	if err != nil {
		return err
	}
	b := binding{tenant: tenant, credential: id, field: fieldData, version: row.Version}
	kek, wrapped, err := v.rewrap(ctx, row.KekID, row.WrappedKey, b)
	if err != nil {
		return fmt.Errorf("vault: rewrap credential %s: %w", id, err)
	}
	// Where it was rotated meanwhile, its new key is wrapped under the current key.
	_, err = v.q.RewrapCredential(ctx, v.db.Tenant(tenant), dbsqlc.RewrapCredentialParams{
		KekID: kek, WrappedKey: wrapped, TenantID: tenant, ID: id, Version: row.Version, OldKekID: row.KekID,
	})
	return err
}

func (v *Vault) rewrapTenantKey(ctx context.Context, tenant uuid.UUID) error {
	rows, err := v.q.GetTenantKey(ctx, v.db.Tenant(tenant), tenant)
	if err != nil || len(rows) == 0 {
		return err
	}
	kek, wrapped, err := v.rewrap(ctx, rows[0].KekID, rows[0].WrappedKey, tenantKeyBinding(tenant))
	if err != nil {
		return fmt.Errorf("vault: rewrap the key of tenant %s: %w", tenant, err)
	}
	_, err = v.q.RewrapTenantKey(ctx, v.db.Tenant(tenant), dbsqlc.RewrapTenantKeyParams{
		KekID: kek, WrappedKey: wrapped, TenantID: tenant, OldKekID: rows[0].KekID,
	})
	return err
}

// rewrap opens a wrapped data key and wraps it under the current key-encryption key.
func (v *Vault) rewrap(ctx context.Context, kek string, wrapped []byte, b binding) (string, []byte, error) {
	data := b.additionalData(layerKey)
	secret, err := v.kms.Unwrap(ctx, kek, wrapped, data)
	if err != nil {
		return "", nil, err
	}
	defer clear(secret)
	return v.kms.Wrap(ctx, secret, data)
}
