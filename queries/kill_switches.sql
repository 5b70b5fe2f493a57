-- name: InsertKillSwitch :one
INSERT INTO kill_switches (id, tenant_id, scope, target, covers, reason, set_by, set_at)
VALUES (@id, @tenant_id, @scope, sqlc.narg('target'), @covers, @reason, @set_by, @set_at)
RETURNING *;

-- name: GetKillSwitch :one
SELECT * FROM kill_switches WHERE tenant_id = @tenant_id AND id = @id;

-- name: LockKillSwitch :one
SELECT * FROM kill_switches WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: LiftKillSwitch :many
UPDATE kill_switches SET lifted_at = @lifted_at::timestamptz, lifted_by = @lifted_by::uuid
 WHERE tenant_id = @tenant_id AND id = @id AND lifted_at IS NULL
RETURNING *;

-- name: ListKillSwitches :many
SELECT * FROM kill_switches
 WHERE tenant_id = @tenant_id AND (@lifted::boolean OR lifted_at IS NULL)
   AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
 ORDER BY id DESC
 LIMIT @most;

-- name: KillSwitchesOver :one
-- What may stop a call of the verb; see db/functions/kill_switches_over.sql.
SELECT coalesce(kill_switches_over(@tenant_id, @provider::text, @verb::text), 'null')::json AS switches;

-- name: IsStopped :one
-- Whether a kill switch covers a call, or the circuit of its provider is not closed. After
-- EnterGate it sees each switch that has committed.
SELECT (EXISTS (SELECT FROM kill_switches k WHERE k.tenant_id = @tenant_id AND k.lifted_at IS NULL AND k.covers = ANY (@covers::text[]))
     OR EXISTS (SELECT FROM circuits c WHERE c.tenant_id = @tenant_id AND c.provider = @provider::text AND c.state <> 'closed'))::boolean AS stopped;

-- name: HasProvider :one
-- Whether the tenant can call a provider of this slug: its own, or one of the platform's.
SELECT EXISTS (SELECT FROM providers p WHERE p.tenant_id = @tenant_id AND p.slug = @slug)
    OR EXISTS (SELECT FROM enabled_providers e WHERE e.tenant_id = @tenant_id AND e.slug = @slug) AS known;

-- name: ForgetLiftedBeyond :exec
-- Those of the tenant that were lifted first, but for the @kept newest.
DELETE FROM kill_switches d WHERE d.tenant_id = @tenant_id AND d.id = ANY (ARRAY(
    SELECT old.id FROM kill_switches old WHERE old.tenant_id = @tenant_id AND old.lifted_at IS NOT NULL
     ORDER BY old.lifted_at DESC, old.id DESC OFFSET @kept::bigint));

-- name: ForgetKillSwitches :execrows
-- The oldest of all tenants. One that is set is never old.
DELETE FROM kill_switches WHERE (tenant_id, id) IN (
    SELECT old.tenant_id, old.id FROM kill_switches AS old WHERE old.lifted_at <= @before::timestamptz
     ORDER BY old.lifted_at LIMIT @most FOR UPDATE SKIP LOCKED);
