-- name: LockMapPlaces :exec
SELECT lock_map_places(@tenant_id::uuid, @map_id::uuid, @key::bytea);

-- name: TakeMapPlace :one
-- See db/functions/take_map_place.sql.
SELECT t.outcome::text AS outcome, t.ends::uuid[] AS ends
  FROM take_map_place(@tenant_id, @map_id, @key::bytea, @execution, @places::integer, @when_full::text, @most::integer, @now) AS t;

-- name: LockPlacesOf :exec
-- Of the execution's key, before its row is locked.
SELECT lock_map_places(l.tenant_id, l.map_id, l.key) FROM map_places l WHERE l.tenant_id = @tenant_id AND l.execution = @execution;

-- name: FreeMapPlace :many
-- See db/functions/free_map_place.sql. It returns the executions that may run now.
SELECT p::uuid AS execution FROM free_map_place(@tenant_id, @execution, @now) AS p;

-- name: PromoteMapPlaces :many
SELECT p::uuid AS execution FROM promote_map_places(@tenant_id, @map_id, @key::bytea, @now) AS p;

-- name: DropQueuedPlace :one
-- Whether the execution waited for its place, and now ends without having run.
WITH dropped AS (
    UPDATE map_places l SET state = 'dropped' WHERE l.tenant_id = @tenant_id AND l.execution = @execution AND l.state IN ('queued', 'dropped')
    RETURNING l.execution
)
SELECT EXISTS (SELECT FROM dropped) AS dropped;

-- name: KeysThatWait :many
-- The next keys of all tenants for which executions wait, after the given one, and whether a place
-- of each is free. Each key takes two look-ups, however many wait for it.
WITH RECURSIVE waiting AS (
    (SELECT w.tenant_id, w.map_id, w.key, w.most FROM map_places w
      WHERE w.state = 'queued' AND (w.tenant_id, w.map_id, w.key) > (@after_tenant::uuid, @after_map::uuid, @after_key::bytea)
      ORDER BY w.tenant_id, w.map_id, w.key, w.seq LIMIT 1)
    UNION ALL
    SELECT n.* FROM waiting k CROSS JOIN LATERAL (
        SELECT w.tenant_id, w.map_id, w.key, w.most FROM map_places w
         WHERE w.state = 'queued' AND (w.tenant_id, w.map_id, w.key) > (k.tenant_id, k.map_id, k.key)
         ORDER BY w.tenant_id, w.map_id, w.key, w.seq LIMIT 1) n
)
SELECT k.tenant_id, k.map_id, k.key,
       ((SELECT count(*) FROM map_places h WHERE h.tenant_id = k.tenant_id AND h.map_id = k.map_id AND h.key = k.key AND h.state = 'held') < k.most)::boolean AS free
  FROM waiting k LIMIT @most;
