-- name: InsertAPIKey :exec
INSERT INTO api_keys (id, tenant_id, key_hash, preview, name, permissions, agent_id, identity_mode, allowed_origins, allowed_ips, requests_per_minute, requests_per_hour, requests_per_day, expires_at, created_by, created_at, identity_secret)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17);

-- name: PresentAPIKey :one
-- The key of the secret, or the one whose secret it was before a rotation: then until_at says
-- how long it is valid. The second look-up runs only where the first one finds nothing. The
-- @requests with a valid key are counted; see db/functions/count_request.sql. For all others, and
-- where @counts is false, counted is null.
SELECT k.*, (CASE WHEN @counts::boolean AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > @now::timestamptz) AND (k.until_at IS NULL OR k.until_at > @now)
                  THEN count_request(k.tenant_id, 'keys', k.id,
                           CASE WHEN coalesce(k.requests_per_minute, k.requests_per_hour, k.requests_per_day) IS NOT NULL
                                THEN ARRAY[k.requests_per_minute, k.requests_per_hour, k.requests_per_day] END,
                           @defaults::integer[], @ceilings::integer[], @requests::integer) END)::bigint[] AS counted
  FROM (
    SELECT cur.id, cur.tenant_id, cur.name, cur.permissions, cur.agent_id, cur.identity_mode, cur.allowed_origins,
           cur.allowed_ips, cur.requests_per_minute, cur.requests_per_hour, cur.requests_per_day,
           cur.expires_at, cur.last_used_at, cur.revoked_at, cur.identity_secret, cur.identity_previous, cur.identity_previous_until, NULL::timestamptz AS until_at
    FROM api_keys AS cur WHERE cur.key_hash = @hash
    UNION ALL
    SELECT old.id, old.tenant_id, old.name, old.permissions, old.agent_id, old.identity_mode, old.allowed_origins,
           old.allowed_ips, old.requests_per_minute, old.requests_per_hour, old.requests_per_day,
           old.expires_at, old.last_used_at, old.revoked_at, old.identity_secret, old.identity_previous, old.identity_previous_until, old.previous_until
    FROM api_keys AS old WHERE old.previous_hash = @hash
    LIMIT 1) AS k;

-- name: NoteAPIKeyUse :exec
-- SKIP LOCKED: of many calls at once, one writes and the others do not wait for it.
WITH stale AS (
    SELECT k.id FROM api_keys AS k
    WHERE k.id = @id AND k.tenant_id = @tenant_id AND (k.last_used_at IS NULL OR k.last_used_at <= @used_before::timestamptz)
    FOR UPDATE SKIP LOCKED
)
UPDATE api_keys SET last_used_at = @now::timestamptz FROM stale WHERE api_keys.id = stale.id;

-- name: ListAPIKeys :many
-- The newest of those that are active, and the newest of those that are revoked. Quotas bound both.
SELECT k.id, k.preview, k.name, k.permissions, k.agent_id, k.identity_mode, k.allowed_origins, k.allowed_ips, k.requests_per_minute, k.requests_per_hour, k.requests_per_day, k.created_by, k.created_at,
       k.last_used_at, k.expires_at, k.rotated_at, k.previous_until, k.revoked_at, (k.identity_secret IS NOT NULL)::boolean AS identity_verification
FROM api_keys k
WHERE k.tenant_id = @tenant_id AND k.id IN (
    (SELECT a.id FROM api_keys a WHERE a.tenant_id = @tenant_id AND a.revoked_at IS NULL ORDER BY a.id DESC LIMIT @active)
    UNION ALL
    (SELECT r.id FROM api_keys r WHERE r.tenant_id = @tenant_id AND r.revoked_at IS NOT NULL ORDER BY r.id DESC LIMIT @revoked))
ORDER BY k.id DESC;

-- name: GetAPIKey :one
SELECT k.id, k.preview, k.name, k.permissions, k.agent_id, k.identity_mode, k.allowed_origins, k.allowed_ips, k.requests_per_minute, k.requests_per_hour, k.requests_per_day, k.created_by, k.created_at,
       k.last_used_at, k.expires_at, k.rotated_at, k.previous_until, k.revoked_at, (k.identity_secret IS NOT NULL)::boolean AS identity_verification
FROM api_keys k WHERE k.tenant_id = @tenant_id AND k.id = @id;

-- name: LockAPIKey :one
-- The key as it is, until the transaction ends. A revoked one cannot be changed.
SELECT k.id, k.preview, k.name, k.permissions, k.agent_id, k.identity_mode, k.allowed_origins, k.allowed_ips, k.requests_per_minute, k.requests_per_hour, k.requests_per_day, k.created_by, k.created_at,
       k.last_used_at, k.expires_at, k.rotated_at, k.previous_until, k.revoked_at, (k.identity_secret IS NOT NULL)::boolean AS identity_verification
FROM api_keys k WHERE k.tenant_id = @tenant_id AND k.id = @id AND k.revoked_at IS NULL FOR NO KEY UPDATE;

-- name: UpdateAPIKey :exec
UPDATE api_keys SET name = @name, permissions = @permissions, allowed_origins = @allowed_origins, allowed_ips = @allowed_ips,
       requests_per_minute = sqlc.narg('requests_per_minute'), requests_per_hour = sqlc.narg('requests_per_hour'),
       requests_per_day = sqlc.narg('requests_per_day'), expires_at = sqlc.narg('expires_at')
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: RotateAPIKey :exec
-- The secret before the previous one is no longer known.
UPDATE api_keys SET previous_hash = key_hash, previous_until = @previous_until::timestamptz, key_hash = @key_hash, preview = @preview,
       rotated_at = @now::timestamptz
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: RotateIdentitySecret :exec
-- The secret before the previous one is no longer known.
UPDATE api_keys SET identity_previous = identity_secret, identity_previous_until = @previous_until::timestamptz, identity_secret = @identity_secret::text
 WHERE tenant_id = @tenant_id AND id = @id;

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
-- Which of the keys are revoked, those that are forgotten since too. A process asks where it may have
-- missed notices. OFFSET 0 keeps it a look-up for each key; see db/functions/gate_is_open.sql.
SELECT asked.id::uuid AS id FROM unnest(@ids::uuid[]) AS asked (id)
 WHERE NOT EXISTS (SELECT FROM api_keys k WHERE k.tenant_id = @tenant_id AND k.id = asked.id AND k.revoked_at IS NULL OFFSET 0);

-- name: ForgetRevokedKeys :execrows
-- The oldest of all tenants.
DELETE FROM api_keys WHERE id IN (
    SELECT old.id FROM api_keys AS old WHERE old.revoked_at <= @before::timestamptz
     ORDER BY old.revoked_at LIMIT @most FOR UPDATE SKIP LOCKED);
