-- name: SendMapSignal :many
-- One more signal to an execution. No row where it has ended, or where as many wait for a step that
-- uses them as there may be.
WITH counted AS (
    UPDATE map_executions AS e SET signals = e.signals + 1, news_at = @now, updated_at = @now
     WHERE e.tenant_id = @tenant_id AND e.id = @execution AND e.finished_at IS NULL
       AND e.signals - e.signals_heard + e.signals_unused < @most_unused::integer AND e.signals < @most::integer
    RETURNING e.tenant_id, e.id, e.signals
)
INSERT INTO map_signals (tenant_id, execution, seq, id, name, data, size, sent_by, sent_at)
SELECT c.tenant_id, c.id, c.signals, @id, @name, @data, @size, @sent_by, @now FROM counted c
RETURNING seq;

-- name: MapSignalsSince :many
-- The next signals, in their order. It stops when the data has @bytes, after one signal at least.
SELECT s.seq, s.id, s.name, s.data, s.size
  FROM (SELECT n.*, sum(n.size) OVER (ORDER BY n.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
          FROM (SELECT * FROM map_signals m WHERE m.tenant_id = @tenant_id AND m.execution = @execution AND m.seq > @after::integer ORDER BY m.seq LIMIT @most) n) s
 WHERE coalesce(s.before, 0) < @bytes::bigint
 ORDER BY s.seq;

-- name: ListMapSignals :many
SELECT * FROM map_signals WHERE tenant_id = @tenant_id AND execution = @execution AND seq > @after ORDER BY seq LIMIT @most;

-- name: ReadMapSignal :one
SELECT id, data FROM map_signals WHERE tenant_id = @tenant_id AND execution = @execution AND seq = @seq;

-- name: CountMapSignals :exec
-- What the step machine has made of the signals.
UPDATE map_executions SET signals_heard = @heard, signals_unused = @unused
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND finished_at IS NULL AND signals_heard <= @heard;

-- name: ReadMapNews :exec
-- The workflow reads all news after this.
UPDATE map_executions SET news_at = NULL WHERE tenant_id = @tenant_id AND id = @id AND news_at IS NOT NULL;

-- name: MapsWithNews :many
-- Executions of all tenants whose workflow has not read their news for some time.
SELECT tenant_id, id, workflow_id, news_at FROM map_executions
 WHERE finished_at IS NULL AND news_at IS NOT NULL AND news_at < @before AND (news_at, id) > (@after_at::timestamptz, @after_id::uuid)
 ORDER BY news_at, id LIMIT @most;

-- name: DeleteMapSignals :exec
DELETE FROM map_signals WHERE tenant_id = @tenant_id AND execution = ANY (@executions::uuid[]);
