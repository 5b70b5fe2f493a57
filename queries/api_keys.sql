-- name: InsertAPIKey :exec
INSERT INTO api_keys (id, tenant_id, key_hash, preview, name, permissions, agent_id, identity_mode, allowed_origins, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: PresentAPIKey :one
SELECT id, tenant_id, name, permissions, agent_id, identity_mode, allowed_origins, last_used_at, revoked_at
FROM api_keys WHERE key_hash = $1;

-- name: NoteAPIKeyUse :exec
-- SKIP LOCKED: of many calls at once, one writes and the others do not wait for it.
WITH stale AS (
    SELECT k.id FROM api_keys AS k
    WHERE k.id = @id AND k.tenant_id = @tenant_id AND (k.last_used_at IS NULL OR k.last_used_at <= @used_before::timestamptz)
    FOR UPDATE SKIP LOCKED
)
UPDATE api_keys SET last_used_at = @now::timestamptz FROM stale WHERE api_keys.id = stale.id;

-- name: ListAPIKeys :many
-- The newest of those that are active, whose number the quota bounds, and the newest of those
-- that are revoked, which are never deleted.
SELECT k.id, k.preview, k.name, k.permissions, k.agent_id, k.identity_mode, k.allowed_origins, k.created_at, k.last_used_at, k.revoked_at
FROM api_keys k
WHERE k.tenant_id = @tenant_id AND k.id IN (
    (SELECT a.id FROM api_keys a WHERE a.tenant_id = @tenant_id AND a.revoked_at IS NULL ORDER BY a.id DESC LIMIT @active)
    UNION ALL
    (SELECT r.id FROM api_keys r WHERE r.tenant_id = @tenant_id AND r.revoked_at IS NOT NULL ORDER BY r.id DESC LIMIT @revoked))
ORDER BY k.id DESC;

-- name: RevokeAPIKey :execrows
-- The notice is sent with the commit and reaches every process that listens. The lock waits
-- for the transactions that move one of the key's runs to sending (EnterGate). Later ones
-- find the key revoked.
WITH revoked AS (
    UPDATE api_keys SET revoked_at = @now::timestamptz
    WHERE api_keys.id = @id AND api_keys.tenant_id = @tenant_id AND api_keys.revoked_at IS NULL
    RETURNING api_keys.id
)
SELECT pg_notify('key_revoked', revoked.id::text), pg_advisory_xact_lock(hashtextextended(revoked.id::text, 0)) FROM revoked;

-- name: ListRevokedAmong :many
-- Which of the keys are revoked. A process asks where it may have missed notices.
SELECT id FROM api_keys WHERE tenant_id = @tenant_id AND id = ANY (@ids::uuid[]) AND revoked_at IS NOT NULL;
