-- name: AwaitMapEvent :exec
-- A step waits for events: those after the trigger, or those after this transaction. The tenant is
-- watched from now on. The row of the watch stays locked until the end of the transaction, so that
-- the job does not take the watch for needless meanwhile.
WITH watched AS (
    INSERT INTO map_watches (tenant_id, xid, id) VALUES (@tenant_id, pg_snapshot_xmin(pg_current_snapshot()), @nothing)
    ON CONFLICT (tenant_id) DO UPDATE SET id = map_watches.id
)
INSERT INTO map_waits (tenant_id, execution, path, type, correlate, since)
SELECT e.tenant_id, e.id, @path, @type, sqlc.narg('correlate'),
       CASE WHEN @since_trigger::boolean THEN (e.began_xid::text)::xid8 ELSE pg_current_xact_id() END
  FROM map_executions e WHERE e.tenant_id = @tenant_id AND e.id = @execution AND e.finished_at IS NULL
ON CONFLICT (tenant_id, execution, path) DO NOTHING;

-- name: StopMapWait :exec
DELETE FROM map_waits WHERE tenant_id = @tenant_id AND execution = @execution AND path = @path;

-- name: StopMapWaits :exec
-- All of executions that have ended.
DELETE FROM map_waits WHERE tenant_id = @tenant_id AND execution = ANY (@executions::uuid[]);

-- name: ListMapWaits :many
SELECT path, type, correlate, since::text AS since FROM map_waits WHERE tenant_id = @tenant_id AND execution = @execution ORDER BY path;

-- name: EventsAwaited :many
-- The complete events of a type after a place, the oldest first, with the body of each. The rarer
-- types have an index of their own.
SELECT e.id, e.xid::text AS xid, e.body FROM events e
 WHERE e.tenant_id = @tenant_id AND e.type = @type AND e.type <> 'action.executed' AND (sqlc.narg('correlate')::text IS NULL OR e.correlate = sqlc.narg('correlate'))
   AND (e.xid, e.id) > (CAST(@xid::text AS xid8), @id::uuid) AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY e.xid, e.id LIMIT @most;

-- name: ExecutedAwaited :many
-- The same for the type of most events, which has no index of its own.
SELECT e.id, e.xid::text AS xid, e.body FROM events e
 WHERE e.tenant_id = @tenant_id AND e.type = 'action.executed'
   AND (e.xid, e.id) > (CAST(@xid::text AS xid8), @id::uuid) AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY e.xid, e.id LIMIT @most;

-- name: WatchesDue :many
-- Tenants with executions that wait, of which events have become complete, and those with none that
-- waits any longer. Two look-ups in indexes for each watched tenant.
SELECT w.tenant_id FROM map_watches w
 WHERE EXISTS (SELECT FROM events e WHERE e.tenant_id = w.tenant_id AND (e.xid, e.id) > (w.xid, w.id) AND e.xid < pg_snapshot_xmin(pg_current_snapshot()))
    OR NOT EXISTS (SELECT FROM map_waits m WHERE m.tenant_id = w.tenant_id)
 LIMIT @most;

-- name: TellMapWaits :one
-- See db/functions/tell_map_waits.sql.
SELECT t.workflows::text[] AS workflows, t.more::boolean AS more FROM tell_map_waits(@tenant_id, @most::integer, @now) AS t;
