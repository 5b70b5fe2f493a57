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

-- name: StalledPlaces :many
-- Keys of all tenants of which executions wait although a place is free.
SELECT DISTINCT q.tenant_id, q.map_id, q.key FROM (SELECT * FROM map_places w WHERE w.state = 'queued' ORDER BY w.seq LIMIT @most) q
 WHERE (SELECT count(*) FROM map_places h WHERE h.tenant_id = q.tenant_id AND h.map_id = q.map_id AND h.key = q.key AND h.state = 'held') < q.most;
