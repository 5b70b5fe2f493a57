-- name: GetTenantKey :many
SELECT kek_id, wrapped_key FROM tenant_keys WHERE tenant_id = @tenant_id;

-- name: InsertTenantKey :exec
-- Of two processes that make the key at once, one stores it and both use that one.
INSERT INTO tenant_keys (tenant_id, kek_id, wrapped_key) VALUES (@tenant_id, @kek_id, @wrapped_key)
ON CONFLICT ON CONSTRAINT tenant_keys_pkey DO NOTHING;
