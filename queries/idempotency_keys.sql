-- name: FindCreation :one
-- Always one row: what the key has made since then, if anything, and how many creations the
-- tenant has made with keys, up to @most.
SELECT made.resource_id, made.body_hash,
       (SELECT count(*) FROM (SELECT FROM idempotency_keys AS k WHERE k.tenant_id = @tenant_id AND k.created_at > @since LIMIT @most::bigint) AS counted) AS used
FROM (SELECT 1) AS always
LEFT JOIN idempotency_keys AS made ON made.tenant_id = @tenant_id AND made.endpoint = @endpoint AND made.caller_kind = @caller_kind
      AND made.key_hash = @key_hash AND made.created_at > @since;

-- name: ForgetCreation :exec
-- Makes room for a key that was used long ago.
DELETE FROM idempotency_keys
WHERE tenant_id = @tenant_id AND endpoint = @endpoint AND caller_kind = @caller_kind AND key_hash = @key_hash AND created_at <= @before;

-- name: InsertCreation :exec
-- Waits for another creation under the key that has not committed, and then fails.
INSERT INTO idempotency_keys (tenant_id, endpoint, caller_kind, key_hash, body_hash, resource_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: ForgetOldCreations :execrows
-- Of all tenants, at most @most of those that are old.
DELETE FROM idempotency_keys AS gone WHERE (gone.tenant_id, gone.endpoint, gone.caller_kind, gone.key_hash) IN (
    SELECT old.tenant_id, old.endpoint, old.caller_kind, old.key_hash FROM idempotency_keys AS old
    WHERE old.created_at <= @before ORDER BY old.created_at LIMIT @most
);
