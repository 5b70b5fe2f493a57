-- name: BeginModelCall :many
-- The row of a call, where it is not there yet. None is returned where the execution has had as many
-- calls as it may, or has stored as much. Where the model may read what others than the tenant wrote, the
-- execution is tainted from now on.
WITH bounded AS (
    UPDATE map_executions SET models_asked = models_asked + 1, model_bytes = model_bytes + length(@asked::text),
           tainted = tainted OR @tainted::boolean, taint_sources = add_sources(taint_sources, @sources::text[])
     WHERE tenant_id = @tenant_id AND id = @execution AND models_asked < @most_calls::integer AND model_bytes + length(@asked::text) <= @most_bytes::bigint
       AND NOT EXISTS (SELECT FROM model_calls c WHERE c.tenant_id = @tenant_id AND c.execution = @execution AND c.path = @path AND c.attempt = @attempt AND c.turn = @turn)
    RETURNING id, tainted, taint_sources
)
INSERT INTO model_calls (tenant_id, execution, path, attempt, turn, purpose, asked, began_at)
SELECT @tenant_id, bounded.id, @path, @attempt, @turn, @purpose, @asked::text, @now FROM bounded
ON CONFLICT DO NOTHING
RETURNING (SELECT b.tainted FROM bounded b)::boolean AS tainted, (SELECT b.taint_sources FROM bounded b)::text[] AS taint_sources;

-- name: EndModelCall :many
-- The end of a call, once. A row is returned where this was it.
WITH ended AS (
    UPDATE model_calls AS c SET answer = sqlc.narg('answer'), error = sqlc.narg('error'), ruling = sqlc.narg('ruling'), model = @model, tokens_in = @tokens_in,
           tokens_cached = @tokens_cached, tokens_out = @tokens_out, money_micros = @money_micros, finish = @finish, estimated = @estimated, ended_at = @now
     WHERE c.tenant_id = @tenant_id AND c.execution = @execution AND c.path = @path AND c.attempt = @attempt AND c.turn = @turn AND c.ended_at IS NULL
    RETURNING coalesce(length(c.answer), 0) + coalesce(length(c.error), 0) + coalesce(length(c.ruling), 0) AS bytes, c.tokens_in + c.tokens_out AS tokens, c.estimated
)
UPDATE map_executions AS m SET tokens_used = m.tokens_used + ended.tokens, usage_estimated = m.usage_estimated OR ended.estimated, model_bytes = m.model_bytes + ended.bytes
  FROM ended WHERE m.tenant_id = @tenant_id AND m.id = @execution
RETURNING m.id;

-- name: EndRuling :many
-- What the answer of a manager is worth, where nothing says so yet. A row is returned where this was it.
UPDATE model_calls SET ruling = sqlc.narg('ruling'), error = sqlc.narg('error')
 WHERE tenant_id = @tenant_id AND execution = @execution AND path = @path AND attempt = @attempt AND turn = @turn AND ended_at IS NOT NULL AND ruling IS NULL AND error IS NULL
RETURNING turn;

-- name: ModelCallsOfStep :many
-- The calls of one attempt of a step, with what was asked and answered, and whether the execution is
-- tainted, and by what.
SELECT c.*, (SELECT e.tainted FROM map_executions e WHERE e.tenant_id = @tenant_id AND e.id = @execution)::boolean AS tainted,
       (SELECT e.taint_sources FROM map_executions e WHERE e.tenant_id = @tenant_id AND e.id = @execution)::text[] AS taint_sources
  FROM model_calls c WHERE c.tenant_id = @tenant_id AND c.execution = @execution AND c.path = @path AND c.attempt = @attempt ORDER BY c.turn;

-- name: ListModelCalls :many
-- The calls of some steps, without what was asked and answered.
SELECT path, attempt, turn, purpose, model, tokens_in, tokens_cached, tokens_out, estimated, money_micros, finish, ruling, (error IS NOT NULL)::boolean AS failed, runs, began_at, ended_at
  FROM model_calls WHERE tenant_id = @tenant_id AND execution = @execution AND path = ANY (@paths::text[])
 ORDER BY path, attempt, turn LIMIT @most;

-- name: DeleteModelCalls :exec
DELETE FROM model_calls WHERE tenant_id = @tenant_id AND execution = ANY (@executions::uuid[]);

-- name: NoteModelRun :exec
-- The run of a call that an answer asks for.
UPDATE model_calls SET runs = jsonb_build_object(@number::text, jsonb_build_object('verb', @verb::text, 'execution_id', @run::text)) || runs
 WHERE tenant_id = @tenant_id AND execution = @execution AND path = @path AND attempt = @attempt AND turn = @turn;

-- name: TaintMap :exec
-- An execution that a step has started is tainted, so what started it is.
UPDATE map_executions SET tainted = true, taint_sources = add_sources(taint_sources, @sources::text[])
 WHERE tenant_id = @tenant_id AND id = @id AND NOT (tainted AND taint_sources @> @sources::text[]);
