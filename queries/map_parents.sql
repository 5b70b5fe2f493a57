-- name: SetMapParent :exec
-- Of an execution that a step has started in this transaction.
UPDATE map_executions SET awaited = @awaited, payload_invented = @payload_invented, chain = sqlc.narg('chain')::json, tainted = @tainted, taint_sources = @sources::text[], reads = @reads::text[]
 WHERE map_executions.tenant_id = @tenant_id AND map_executions.id = @id;

-- name: MapOfStep :many
-- The execution that a step has started. A range with an order needs the index of parents: for a small table,
-- any index of the tenant looks as good.
SELECT * FROM map_executions
 WHERE tenant_id = @tenant_id AND parent_id BETWEEN @parent_id::text AND @parent_id::text AND step = @step::text ORDER BY parent_id LIMIT 1;

-- name: SetMapCaller :exec
-- Of an execution that a message to an agent has started in this transaction.
UPDATE map_executions SET awaited = true, chain = @chain::json, caller_workflow = @workflow::text, tainted = @tainted, taint_sources = @sources::text[], reads = @sources::text[]
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: MoveMapCaller :exec
-- The message whose workflow hears of an execution from now on, and for which counts what that uses.
UPDATE map_executions SET caller_workflow = @workflow::text, chain = @chain::json, tainted = tainted OR @tainted, taint_sources = add_sources(taint_sources, @sources::text[]), metadata = @metadata::json
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: CallerOfMap :one
-- What changes of an execution when another message of its session goes on with it.
SELECT chain, tainted, taint_sources, metadata FROM map_executions WHERE tenant_id = @tenant_id AND id = @id;

-- name: MapsBelow :many
-- Which versions of Maps have run because steps of an execution waited for them, directly or through
-- others, each once. executions is how many of the executions that were read ran it: together they are
-- at most @most, and then there may be more. OFFSET 0 keeps the executions of a level look-ups: see
-- MarkSending.
WITH RECURSIVE below (execution_id, map_id, version, level) AS (
    SELECT e.execution_id, e.map_id, e.version, 1
      FROM map_executions e WHERE e.tenant_id = @tenant_id::uuid AND e.parent_id = @execution_id::text AND e.awaited
    UNION ALL
    SELECT e.execution_id, e.map_id, e.version, b.level + 1
      FROM below b CROSS JOIN LATERAL (
           SELECT c.execution_id, c.map_id, c.version FROM map_executions c
            WHERE c.tenant_id = @tenant_id::uuid AND c.parent_id = b.execution_id AND c.awaited OFFSET 0) e
     WHERE b.level < @levels::integer
)
SELECT r.map_id, r.version, count(*) AS executions
  FROM (SELECT b.map_id, b.version FROM below b LIMIT @most::integer) r
 GROUP BY r.map_id, r.version;

-- name: AddWriter :exec
-- Notes that a user has written a text that an execution goes on with.
SELECT add_writer(@tenant_id, @execution_id, @writer);
