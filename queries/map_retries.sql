-- name: RetryMap :many
-- A failed execution goes on as its next attempt, with the state that the one before has left.
UPDATE map_executions SET attempt = attempt + 1, status = 'running', error = NULL, compensation = NULL, again = @again::text, workflow_id = @workflow_id,
       governance = 'approved', wants_cancel = false, wants_pause = false, begun_at = NULL, finished_at = NULL, updated_at = @now
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND status = 'failed' AND state IS NOT NULL AND erased_at IS NULL
RETURNING *;

-- name: RetakeMapKeys :exec
-- Takes the names of triggers back that the execution had lost. It fails on the primary key where
-- another execution has one of them since.
INSERT INTO map_keys (tenant_id, map_id, key, execution)
SELECT e.tenant_id, e.map_id, k, e.id FROM map_executions e, unnest(e.freed_keys) AS k
 WHERE e.tenant_id = @tenant_id AND e.id = @id
   AND NOT EXISTS (SELECT FROM map_keys o WHERE o.tenant_id = e.tenant_id AND o.map_id = e.map_id AND o.key = k AND o.execution = e.id)
 ORDER BY k;
