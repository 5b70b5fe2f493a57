-- name: SetMapParent :exec
-- Of an execution that a step has started in this transaction.
UPDATE map_executions SET awaited = @awaited, payload_invented = @payload_invented, chain = sqlc.narg('chain')::json, tainted = @tainted
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: MapOfStep :many
-- The execution that a step has started.
SELECT * FROM map_executions WHERE tenant_id = @tenant_id AND parent_id = @parent_id::text AND step = @step::text LIMIT 1;

-- name: SetMapCaller :exec
-- Of an execution that a message to an agent has started in this transaction.
UPDATE map_executions SET awaited = true, chain = @chain::json, caller_workflow = @workflow::text, tainted = @tainted
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: MoveMapCaller :exec
-- The message whose workflow hears of an execution from now on, and for which counts what that uses.
UPDATE map_executions SET caller_workflow = @workflow::text, chain = @chain::json, tainted = tainted OR @tainted, metadata = @metadata::json
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: CallerOfMap :one
-- What changes of an execution when another message of its session goes on with it.
SELECT chain, tainted, metadata FROM map_executions WHERE tenant_id = @tenant_id AND id = @id;
