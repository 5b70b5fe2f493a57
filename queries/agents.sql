-- name: InsertAgent :exec
INSERT INTO agents (id, tenant_id, name, status, latest_version, published_version, published_by, published_at, revision, bytes, created_by, created_at, updated_by, updated_at)
VALUES (@id, @tenant_id, @name, 'active', 1, 1, @changed_by, @changed_at, 1, @bytes, @changed_by, @changed_at, @changed_by, @changed_at);

-- name: InsertAgentVersion :exec
INSERT INTO agent_versions (tenant_id, agent_id, version, name, definition, size, digest, created_by, created_at, published_by, published_at)
VALUES (@tenant_id, @agent_id, @version, @name, @definition, @size, @digest, @created_by, @created_at, sqlc.narg('published_by'), sqlc.narg('published_at'));

-- name: GetAgent :one
SELECT * FROM agents WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL;

-- name: LockAgent :one
SELECT * FROM agents WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL FOR UPDATE;

-- name: AddAgentVersion :one
UPDATE agents SET latest_version = latest_version + 1, revision = revision + 1, name = @name, bytes = bytes + @size::bigint,
       updated_by = @changed_by, updated_at = @changed_at
 WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL
RETURNING *;

-- name: PublishAgent :exec
UPDATE agents SET published_version = @version::integer, published_by = @changed_by::text, published_at = @changed_at::timestamptz,
       revision = revision + 1, updated_by = @changed_by::text, updated_at = @changed_at::timestamptz
 WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL;

-- name: MarkAgentVersionPublished :exec
UPDATE agent_versions SET published_by = @changed_by::text, published_at = @changed_at::timestamptz
 WHERE tenant_id = @tenant_id AND agent_id = @agent_id AND version = @version;

-- name: SetAgentStatus :exec
UPDATE agents SET status = @status, revision = revision + 1, updated_by = @changed_by, updated_at = @changed_at
 WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL;

-- name: DeleteAgent :exec
UPDATE agents SET deleted_at = @changed_at::timestamptz, revision = revision + 1, updated_by = @changed_by, updated_at = @changed_at::timestamptz
 WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL;

-- The caller asks for one row more than the page, to know whether there are more.
-- name: ListAgents :many
SELECT * FROM agents
 WHERE tenant_id = @tenant_id AND deleted_at IS NULL
   AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
   AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
 ORDER BY id DESC
 LIMIT @most;

-- A version of an agent that is not deleted; version 0 is the newest one.
-- name: GetAgentVersion :one
SELECT sqlc.embed(v), a.published_version
  FROM agents a JOIN agent_versions v ON v.tenant_id = a.tenant_id AND v.agent_id = a.id
   AND v.version = coalesce(nullif(@version::integer, 0), a.latest_version)
 WHERE a.tenant_id = @tenant_id AND a.id = @agent_id AND a.deleted_at IS NULL;

-- Without the definitions, which can be long.
-- name: ListAgentVersions :many
SELECT v.version, v.name, v.size, v.digest, v.created_by, v.created_at, v.published_by, v.published_at
  FROM agent_versions v
 WHERE v.tenant_id = @tenant_id AND v.agent_id = @agent_id
   AND (sqlc.narg('before')::integer IS NULL OR v.version < sqlc.narg('before'))
 ORDER BY v.version DESC
 LIMIT @most;

-- What a message needs of an agent: its status, and a version. Version 0 is the published one, and
-- then the agent must not be deleted. The definition is empty where its version is @kept, which the
-- caller has.
-- name: GetAgentTurn :one
SELECT a.name, a.status, v.version, (CASE WHEN v.version <> @kept::integer THEN v.definition::text ELSE '' END)::text AS definition
  FROM agents a JOIN agent_versions v ON v.tenant_id = a.tenant_id AND v.agent_id = a.id
   AND v.version = coalesce(nullif(@version::integer, 0), a.published_version)
 WHERE a.tenant_id = @tenant_id AND a.id = @agent_id AND (@version::integer <> 0 OR a.deleted_at IS NULL);

-- name: DeletedAgents :many
-- Agents of all tenants that were deleted before a time.
SELECT tenant_id, id FROM agents WHERE deleted_at < @before::timestamptz ORDER BY deleted_at LIMIT @most;

-- name: ForgetAgentVersions :execrows
DELETE FROM agent_versions v WHERE v.tenant_id = @tenant_id AND v.agent_id = @agent_id
   AND v.version = ANY (ARRAY(SELECT l.version FROM agent_versions l WHERE l.tenant_id = @tenant_id AND l.agent_id = @agent_id ORDER BY l.version LIMIT @most));

-- name: ForgetAgent :exec
DELETE FROM agents WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NOT NULL;

-- name: PublishedAgents :many
-- What agents that call others need of them. The instructions are cut.
SELECT a.id, a.name, a.status, v.version, left(v.definition->>'instructions', 400)::text AS instructions
  FROM agents a JOIN agent_versions v ON v.tenant_id = a.tenant_id AND v.agent_id = a.id AND v.version = a.published_version
 WHERE a.tenant_id = @tenant_id AND a.id = ANY (@ids::uuid[]) AND a.deleted_at IS NULL;

-- name: AgentsCalled :many
-- Which agents may call others: the patterns of their published versions.
SELECT a.id, (v.definition->'tools')::jsonb AS tools
  FROM agents a JOIN agent_versions v ON v.tenant_id = a.tenant_id AND v.agent_id = a.id AND v.version = a.published_version
 WHERE a.tenant_id = @tenant_id AND a.id = ANY (@ids::uuid[]) AND a.deleted_at IS NULL;

-- name: KnownAgents :many
SELECT id FROM agents WHERE tenant_id = @tenant_id AND id = ANY (@ids::uuid[]) AND deleted_at IS NULL;
