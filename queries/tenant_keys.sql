-- name: GetTenantKey :many
SELECT kek_id, wrapped_key FROM tenant_keys WHERE tenant_id = @tenant_id;

-- name: InsertTenantKey :exec
-- Of two processes that make the key at once, one stores it and both use that one.
INSERT INTO tenant_keys (tenant_id, kek_id, wrapped_key) VALUES (@tenant_id, @kek_id, @wrapped_key)
ON CONFLICT ON CONSTRAINT tenant_keys_pkey DO NOTHING;

-- name: TenantKeysToRewrap :many
-- Across tenants, as CredentialsToRewrap.
SELECT tenant_id FROM tenant_keys WHERE kek_id <> @current AND tenant_id > @after ORDER BY tenant_id LIMIT @most;

-- name: RewrapTenantKey :execrows
UPDATE tenant_keys SET kek_id = @kek_id, wrapped_key = @wrapped_key, wrapped_at = now()
 WHERE tenant_id = @tenant_id AND kek_id = @old_kek_id;
