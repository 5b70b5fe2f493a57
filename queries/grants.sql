-- name: InsertGrant :one
INSERT INTO grants (id, tenant_id, provider, verb, conditions, key_id, agent_id, customer_id, map_id, reason, created_by, expires_at, max_uses)
VALUES (@id, @tenant_id, @provider, @verb, @conditions, sqlc.narg('key_id'), sqlc.narg('agent_id'), sqlc.narg('customer_id'), sqlc.narg('map_id'),
        @reason, @created_by, @expires_at, @max_uses)
RETURNING *;

-- name: GetGrant :one
SELECT * FROM grants WHERE tenant_id = @tenant_id AND id = @id;

-- name: ListGrants :many
SELECT * FROM grants
 WHERE tenant_id = @tenant_id
   AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
   AND (sqlc.narg('provider')::text IS NULL OR provider = sqlc.narg('provider'))
   AND (sqlc.narg('verb')::text IS NULL OR verb = sqlc.narg('verb'))
   AND (sqlc.narg('customer_names')::text[] IS NULL OR customer_id = ANY (sqlc.narg('customer_names')::text[]))
   AND (sqlc.narg('usable')::boolean IS NULL OR sqlc.narg('usable') = (revoked_at IS NULL AND expires_at > now() AND uses < max_uses))
 ORDER BY id DESC
 LIMIT @most;

-- name: LockGrant :one
SELECT * FROM grants WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: NarrowGrant :one
UPDATE grants SET expires_at = @expires_at, max_uses = @max_uses
 WHERE tenant_id = @tenant_id AND id = @id
RETURNING *;

-- name: RevokeGrant :many
UPDATE grants SET revoked_at = now(), revoked_by = @revoked_by
 WHERE tenant_id = @tenant_id AND id = @id AND revoked_at IS NULL
RETURNING *;

-- name: UsableGrants :many
-- The standing approvals that a call of the verb by the caller could use, with the present
-- roles of their givers. A grant of a removed user counts as none. The grant that ends first
-- comes first. The quota of grants and the size of their conditions bound what is read. A grant without
-- a Map is for no calls of Maps, one with a Map for no others. The writers are those of the call.
SELECT g.*, u.role, writers_of(@tenant_id, sqlc.narg('parent_id')::text, true)::uuid[] AS writers FROM grants g
  JOIN users u ON u.tenant_id = g.tenant_id AND u.id = g.created_by
 WHERE g.tenant_id = @tenant_id AND g.provider = @provider AND g.verb = @verb
   AND g.revoked_at IS NULL AND g.expires_at > now() AND g.uses < g.max_uses
   AND (g.key_id IS NULL OR g.key_id = sqlc.narg('key_id')) AND (g.agent_id IS NULL OR g.agent_id = sqlc.narg('agent_id'))
   AND (g.customer_id IS NULL OR g.customer_id = ANY (@customer_names::text[])) AND g.map_id IS NOT DISTINCT FROM sqlc.narg('map_id')::uuid
   AND u.joined_at IS NOT NULL AND u.removed_at IS NULL
 ORDER BY g.expires_at, g.id;

-- name: TakenGrant :many
-- The grant of which a run has taken a use, while it is valid.
SELECT g.*, u.role, writers_of(@tenant_id, sqlc.narg('parent_id')::text, true)::uuid[] AS writers FROM grants g
  JOIN users u ON u.tenant_id = g.tenant_id AND u.id = g.created_by
 WHERE g.tenant_id = @tenant_id AND g.id = @id AND g.revoked_at IS NULL AND g.expires_at > now()
   AND u.joined_at IS NOT NULL AND u.removed_at IS NULL;

-- name: UseGrant :execrows
UPDATE grants SET uses = uses + 1
 WHERE tenant_id = @tenant_id AND id = @id AND revoked_at IS NULL AND expires_at > now() AND uses < max_uses;

-- name: KeyActive :one
SELECT EXISTS (SELECT FROM api_keys k WHERE k.tenant_id = @tenant_id AND k.id = @key_id AND k.revoked_at IS NULL);

-- name: EraseGrants :execrows
-- A grant without a customer would be for all: so it ends, and names nobody.
UPDATE grants AS given SET customer_id = '', conditions = '[]', reason = '', revoked_at = coalesce(given.revoked_at, now())
 WHERE given.tenant_id = @tenant_id AND given.id = ANY (ARRAY(
    SELECT g.id FROM grants g WHERE g.tenant_id = @tenant_id AND g.customer_id = ANY (@names::text[]) AND g.created_at < @before::timestamptz
     ORDER BY g.id LIMIT @most::bigint));

-- name: ForgetGrants :execrows
-- Those of all tenants that have ended first. The end of one that is used up is its time.
DELETE FROM grants WHERE (tenant_id, id) IN (
    SELECT old.tenant_id, old.id FROM grants AS old WHERE least(old.expires_at, old.revoked_at) <= @before::timestamptz
     ORDER BY least(old.expires_at, old.revoked_at) LIMIT @most FOR UPDATE SKIP LOCKED);
