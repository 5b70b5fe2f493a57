-- Changes that decide what triggers run take turns within a tenant: each sees the Maps that
-- the others have published, so no two of them together make a cycle.
-- name: LockMaps :exec
SELECT pg_advisory_xact_lock(hashtextextended('maps:' || @tenant::text, 0));

-- name: InsertMap :exec
INSERT INTO maps (id, tenant_id, name, description, latest_version, revision, bytes, created_by, created_at, updated_by, updated_at)
VALUES (@id, @tenant_id, @name, @description, 1, 1, @bytes, @changed_by, @changed_at, @changed_by, @changed_at);

-- name: InsertMapVersion :exec
INSERT INTO map_versions (tenant_id, map_id, version, name, definition, size, digest, cognitive, starts, start_versions, verbs, created_by, created_at)
VALUES (@tenant_id, @map_id, @version, @name, @definition, @size, @digest, @cognitive, @starts, @start_versions, @verbs, @created_by, @created_at);

-- name: GetMap :one
SELECT * FROM maps WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL;

-- name: LockMap :one
SELECT * FROM maps WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL FOR UPDATE;

-- name: AddMapVersion :one
UPDATE maps SET latest_version = latest_version + 1, revision = revision + 1, name = @name, description = @description,
       bytes = bytes + @size::bigint, updated_by = @changed_by, updated_at = @changed_at
 WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL
RETURNING *;

-- name: PublishMap :one
UPDATE maps SET published_version = @version::integer, published_by = @changed_by::text, published_at = @changed_at::timestamptz,
       revision = revision + 1, updated_by = @changed_by::text, updated_at = @changed_at::timestamptz
 WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL
RETURNING *;

-- name: MarkMapVersionPublished :exec
UPDATE map_versions SET published_by = @changed_by::text, published_at = @changed_at::timestamptz
 WHERE tenant_id = @tenant_id AND map_id = @map_id AND version = @version;

-- name: DeleteMap :one
UPDATE maps SET deleted_at = @changed_at::timestamptz, revision = revision + 1, updated_by = @changed_by, updated_at = @changed_at::timestamptz
 WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL
RETURNING *;

-- The caller asks for one row more than the page, to know whether there are more.
-- name: ListMaps :many
SELECT * FROM maps
 WHERE tenant_id = @tenant_id AND deleted_at IS NULL
   AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
   AND (sqlc.narg('search')::text IS NULL OR strpos(lower(name), lower(sqlc.narg('search')::text)) > 0)
   AND (sqlc.narg('published')::boolean IS NULL OR (published_version IS NOT NULL) = sqlc.narg('published'))
 ORDER BY id DESC
 LIMIT @most;

-- A version of a Map that is not deleted; version 0 is the newest one.
-- name: GetMapVersion :one
SELECT sqlc.embed(v), m.published_version
  FROM maps m JOIN map_versions v ON v.tenant_id = m.tenant_id AND v.map_id = m.id
   AND v.version = coalesce(nullif(@version::integer, 0), m.latest_version)
 WHERE m.tenant_id = @tenant_id AND m.id = @map_id AND m.deleted_at IS NULL;

-- Without the definitions, which can be long.
-- name: ListMapVersions :many
SELECT v.version, v.name, v.size, v.digest, v.created_by, v.created_at, v.published_by, v.published_at
  FROM map_versions v
 WHERE v.tenant_id = @tenant_id AND v.map_id = @map_id
   AND (sqlc.narg('before')::integer IS NULL OR v.version < sqlc.narg('before'))
 ORDER BY v.version DESC
 LIMIT @most;

-- What an execution needs to know of the version that it runs, without the definition.
-- @version 0 is the published one, and then the Map must not be deleted.
-- name: GetMapHead :one
SELECT v.version, v.cognitive, v.starts, v.start_versions, m.name, m.published_by
  FROM maps m LEFT JOIN map_versions v ON v.tenant_id = m.tenant_id AND v.map_id = m.id
   AND v.version = coalesce(nullif(@version::integer, 0), m.published_version)
 WHERE m.tenant_id = @tenant_id AND m.id = @map_id AND (@version::integer <> 0 OR m.deleted_at IS NULL);

-- name: RequirePublished :one
-- Undoes the transaction of a trigger that took another version for the published one. See
-- RequireRunChanged.
SELECT CASE
    WHEN EXISTS (SELECT FROM maps m WHERE m.tenant_id = @tenant_id AND m.id = @map_id AND m.published_version = @version::integer AND m.deleted_at IS NULL) THEN true
    ELSE run_not_changed()
    END::boolean AS published;

-- Which versions of the Maps triggers run.
-- name: PublishedMaps :many
SELECT id, published_version::integer AS version FROM maps
 WHERE tenant_id = @tenant_id AND id = ANY (@ids::uuid[]) AND published_version IS NOT NULL AND deleted_at IS NULL;

-- name: GetMapDefinition :one
SELECT definition FROM map_versions WHERE tenant_id = @tenant_id AND map_id = @map_id AND version = @version;

-- The versions that the given ones are and start, directly or through others, each once. A
-- version 0 is the published one. What does not exist, is deleted or was never published is
-- left out.
-- name: MapGraph :many
WITH RECURSIVE reached (map_id, version) AS (
    SELECT w.map_id, coalesce(nullif(w.version, 0), m.published_version)
      FROM (SELECT unnest(@maps::uuid[]) AS map_id, unnest(@versions::integer[]) AS version) w
      JOIN maps m ON m.tenant_id = @tenant_id::uuid AND m.id = w.map_id AND m.deleted_at IS NULL
    UNION
    SELECT s.map_id, coalesce(nullif(s.version, 0), m.published_version)
      FROM reached r
      JOIN map_versions v ON v.tenant_id = @tenant_id::uuid AND v.map_id = r.map_id AND v.version = r.version
      CROSS JOIN LATERAL (SELECT unnest(v.starts) AS map_id, unnest(v.start_versions) AS version) s
      JOIN maps m ON m.tenant_id = @tenant_id::uuid AND m.id = s.map_id AND m.deleted_at IS NULL
)
SELECT v.map_id, v.version, v.name, v.cognitive, v.starts, v.start_versions, (m.published_version IS NOT DISTINCT FROM v.version)::boolean AS published
  FROM reached r
  JOIN map_versions v ON v.tenant_id = @tenant_id::uuid AND v.map_id = r.map_id AND v.version = r.version
  JOIN maps m ON m.tenant_id = v.tenant_id AND m.id = v.map_id;

-- Which of the given Maps exist.
-- name: KnownMaps :many
SELECT m.id FROM maps m
 WHERE m.tenant_id = @tenant_id AND m.id = ANY (@ids::uuid[]) AND m.deleted_at IS NULL;

-- The Maps whose published versions start others.
-- name: StartingMaps :many
SELECT m.id FROM maps m JOIN map_versions v ON v.tenant_id = m.tenant_id AND v.map_id = m.id AND v.version = m.published_version
 WHERE m.tenant_id = @tenant_id AND m.deleted_at IS NULL AND cardinality(v.starts) > 0;

-- One whose published version starts the given one.
-- name: MapStarting :many
SELECT m.id, m.name FROM maps m JOIN map_versions v ON v.tenant_id = m.tenant_id AND v.map_id = m.id AND v.version = m.published_version
 WHERE m.tenant_id = @tenant_id AND m.deleted_at IS NULL AND v.starts @> ARRAY[@started::uuid]
 LIMIT 1;

-- name: DeletedMaps :many
-- Maps of all tenants that were deleted before a time, and were not looked at since another.
SELECT tenant_id, id FROM maps
 WHERE deleted_at < @before::timestamptz AND (looked_at IS NULL OR looked_at < @again::timestamptz)
 ORDER BY deleted_at LIMIT @most;

-- name: LookAtDeletedMap :many
-- Whether an execution may still need a version of the Map: one of its own, or one that starts it,
-- which has its texts and so may go on.
UPDATE maps AS m SET looked_at = @now::timestamptz WHERE m.tenant_id = @tenant_id AND m.id = @id AND m.deleted_at IS NOT NULL
RETURNING (EXISTS (SELECT FROM map_executions e WHERE e.tenant_id = m.tenant_id AND e.map_id = m.id AND e.erased_at IS NULL)
        OR EXISTS (SELECT FROM map_versions v JOIN map_executions e ON e.tenant_id = v.tenant_id AND e.map_id = v.map_id AND e.version = v.version
                    WHERE v.tenant_id = m.tenant_id AND v.starts @> ARRAY[m.id] AND e.erased_at IS NULL))::boolean AS needed;

-- name: ForgetMapKeys :execrows
-- Names of triggers that nobody can repeat.
DELETE FROM map_keys k WHERE k.tenant_id = @tenant_id AND k.map_id = @map_id
   AND k.key = ANY (ARRAY(SELECT l.key FROM map_keys l WHERE l.tenant_id = @tenant_id AND l.map_id = @map_id LIMIT @most));

-- name: ForgetMapVersions :execrows
DELETE FROM map_versions v WHERE v.tenant_id = @tenant_id AND v.map_id = @map_id
   AND v.version = ANY (ARRAY(SELECT l.version FROM map_versions l WHERE l.tenant_id = @tenant_id AND l.map_id = @map_id ORDER BY l.version LIMIT @most));

-- name: ForgetMap :exec
DELETE FROM maps WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NOT NULL;
