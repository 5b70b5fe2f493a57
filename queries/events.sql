-- name: InsertEvent :exec
-- An event that is there already is emitted once. Webhooks are told by those who read events.
INSERT INTO events (id, tenant_id, type, execution_id, session_id, customer_id, body)
VALUES (@id, @tenant_id, @type, sqlc.narg('execution_id'), sqlc.narg('session_id'), sqlc.narg('customer_id'), @body)
ON CONFLICT (id) DO NOTHING;

-- name: EventsBefore :many
-- The newest complete events before a place, the newest first. It reads no body beyond @bytes.
SELECT e.id, e.xid::text AS xid, e.type, e.body, e.found
  FROM (SELECT l.id, l.xid, l.type, l.body, count(*) OVER () AS found,
               sum(octet_length(l.body)) OVER (ORDER BY l.xid DESC, l.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
          FROM (SELECT * FROM events e
                 WHERE e.tenant_id = @tenant_id AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
                   AND (sqlc.narg('xid')::text IS NULL OR (e.xid, e.id) < (CAST(sqlc.narg('xid')::text AS xid8), @id::uuid))
                   AND (sqlc.narg('type')::text IS NULL OR e.type = sqlc.narg('type'))
                   AND (sqlc.narg('family')::text IS NULL OR starts_with(e.type, sqlc.narg('family')))
                   AND (sqlc.narg('execution_id')::text IS NULL OR e.execution_id = sqlc.narg('execution_id'))
                   AND (sqlc.narg('session_id')::text IS NULL OR e.session_id = sqlc.narg('session_id'))
                   AND (sqlc.narg('customer_id')::text IS NULL OR e.customer_id = sqlc.narg('customer_id'))
                   AND (sqlc.narg('low')::uuid IS NULL OR e.id >= sqlc.narg('low'))
                   AND (sqlc.narg('high')::uuid IS NULL OR e.id < sqlc.narg('high'))
                 ORDER BY e.xid DESC, e.id DESC LIMIT @most) l) e
 WHERE coalesce(e.above, 0) < @bytes::bigint
 ORDER BY e.xid DESC, e.id DESC;

-- name: EventsAfter :many
-- The complete events after a place, the oldest first. It reads no body beyond @bytes.
SELECT e.id, e.xid::text AS xid, e.type, e.body, e.found
  FROM (SELECT l.id, l.xid, l.type, l.body, count(*) OVER () AS found,
               sum(octet_length(l.body)) OVER (ORDER BY l.xid, l.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
          FROM (SELECT * FROM events e
                 WHERE e.tenant_id = @tenant_id AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
                   AND (e.xid, e.id) > (CAST(@xid::text AS xid8), @id::uuid)
                   AND (sqlc.narg('type')::text IS NULL OR e.type = sqlc.narg('type'))
                   AND (sqlc.narg('family')::text IS NULL OR starts_with(e.type, sqlc.narg('family')))
                   AND (sqlc.narg('execution_id')::text IS NULL OR e.execution_id = sqlc.narg('execution_id'))
                   AND (sqlc.narg('session_id')::text IS NULL OR e.session_id = sqlc.narg('session_id'))
                   AND (sqlc.narg('customer_id')::text IS NULL OR e.customer_id = sqlc.narg('customer_id'))
                   AND (sqlc.narg('low')::uuid IS NULL OR e.id >= sqlc.narg('low'))
                   AND (sqlc.narg('high')::uuid IS NULL OR e.id < sqlc.narg('high'))
                 ORDER BY e.xid, e.id LIMIT @most) l) e
 WHERE coalesce(e.above, 0) < @bytes::bigint
 ORDER BY e.xid, e.id;

-- name: EventFrontier :one
-- Every event of a transaction before this one is complete.
SELECT (pg_snapshot_xmin(pg_current_snapshot())::text)::bigint AS frontier;

-- name: EventsArrived :one
-- Those of the tenants of which events have become complete since the frontier @since, and the
-- frontier now. One look-up in an index for each tenant.
SELECT (pg_snapshot_xmin(pg_current_snapshot())::text)::bigint AS frontier,
       ARRAY(SELECT t FROM unnest(@tenants::uuid[]) AS t, LATERAL (
             SELECT FROM events e WHERE e.tenant_id = t AND e.xid >= CAST((@since::bigint)::text AS xid8)
                AND e.xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.xid LIMIT 1) AS found)::uuid[] AS tenants;

-- name: InsertCustomEvent :one
-- No row where the tenant has an event of this id of the sender.
INSERT INTO events (id, tenant_id, type, execution_id, session_id, customer_id, source_id, correlate, body)
VALUES (@id, @tenant_id, @type, sqlc.narg('execution_id'), sqlc.narg('session_id'), sqlc.narg('customer_id'), @source_id::text, sqlc.narg('correlate')::text, @body)
ON CONFLICT (tenant_id, source_id) WHERE source_id IS NOT NULL DO NOTHING
RETURNING id, xid::text AS xid, type, body;

-- name: TakeEmitted :one
-- Takes room for events that steps of Maps emit, of those that the tenant may emit in this hour: for all of
-- them or for none. The counters are those of requests, with a subject of their own.
SELECT ((take_request(@tenant_id, 'emitted', floor(extract(epoch FROM request_clock()) / 60)::integer,
                      ARRAY[2147483647, @most::integer, 2147483647], @n::integer))[1] = 1)::boolean AS taken;

-- name: EventBySource :one
SELECT id, xid::text AS xid, type, body FROM events WHERE tenant_id = @tenant_id AND source_id = @source_id::text;

-- name: EventsWritten :many
-- Those of the names under which the tenant has an event.
SELECT n.name::text AS name FROM unnest(@source_ids::text[]) AS n (name)
  CROSS JOIN LATERAL (SELECT FROM events e WHERE e.tenant_id = @tenant_id AND e.source_id = n.name LIMIT 1) AS has;

-- name: GetEvent :one
SELECT id, xid::text AS xid, type, body FROM events WHERE tenant_id = @tenant_id AND id = @id;

-- name: ForgetEvents :execrows
-- The oldest events of all tenants.
DELETE FROM events WHERE id IN (SELECT e.id FROM events e WHERE e.id < @before::uuid ORDER BY e.id LIMIT @most);

-- name: EraseCustomerEvents :one
-- Those about a customer that came before @before, by any of the names that calls use, with their
-- deliveries and what receivers answered. It returns how many events were erased.
WITH gone AS (
    DELETE FROM events AS gone WHERE gone.tenant_id = @tenant_id AND gone.id = ANY (ARRAY(
        SELECT e.id FROM unnest(@names::text[]) AS named (name) CROSS JOIN LATERAL (
            SELECT f.id FROM events f WHERE f.tenant_id = @tenant_id AND f.customer_id = named.name AND f.id < @before::uuid
             ORDER BY f.xid, f.id LIMIT @most::bigint) AS e
         LIMIT @most::bigint))
    RETURNING gone.id
), delivered AS (
    DELETE FROM webhook_deliveries d WHERE d.tenant_id = @tenant_id AND d.event_id = ANY (ARRAY(SELECT id FROM gone))
), attempted AS (
    DELETE FROM webhook_attempts a WHERE a.tenant_id = @tenant_id AND a.event_id = ANY (ARRAY(SELECT id FROM gone))
)
SELECT count(*) FROM gone;

-- name: EraseEventsOfExecutions :exec
-- Those of executions, in the same way. A call that was under way when its customer was erased has
-- told of its end since.
WITH gone AS (
    DELETE FROM events AS gone WHERE gone.tenant_id = @tenant_id AND gone.id = ANY (ARRAY(
        SELECT e.id FROM unnest(@execution_ids::text[]) AS of_id (execution_id) CROSS JOIN LATERAL (
            SELECT f.id FROM events f WHERE f.tenant_id = @tenant_id AND f.execution_id = of_id.execution_id) AS e))
    RETURNING gone.id
), delivered AS (
    DELETE FROM webhook_deliveries d WHERE d.tenant_id = @tenant_id AND d.event_id = ANY (ARRAY(SELECT id FROM gone))
)
DELETE FROM webhook_attempts a WHERE a.tenant_id = @tenant_id AND a.event_id = ANY (ARRAY(SELECT id FROM gone));
