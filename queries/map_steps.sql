-- name: ListMapSteps :many
-- The steps of an execution in the order in which they began, and how many of the page there are. It
-- reads no values beyond @bytes. With @since it has only those that a transaction wrote which was
-- not complete at that frontier; see EventFrontier.
SELECT s.path, s.seq, s.rev, s.step, s.type, s.instance, s.status, s.attempts, s.input, s.output, s.error, s.run_id, s.began_at, s.ended_at, s.found
  FROM (SELECT l.*, count(*) OVER () AS found,
               sum(coalesce(octet_length(l.input), 0) + coalesce(octet_length(l.output), 0) + coalesce(octet_length(l.error), 0))
                   OVER (ORDER BY l.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
          FROM (SELECT * FROM map_steps m
                 WHERE m.tenant_id = @tenant_id AND m.execution = @execution AND m.seq > @after
                   AND (sqlc.narg('since')::bigint IS NULL OR age(m.xmin) <= age(CAST((sqlc.narg('since')::bigint)::text AS xid8)::xid))
                 ORDER BY m.seq LIMIT @most) l) s
 WHERE coalesce(s.above, 0) < @bytes::bigint
 ORDER BY s.seq;

-- name: MapStepStates :many
-- The statuses that each step of an execution has, in all its iterations.
SELECT m.step, array_agg(DISTINCT m.status)::text[] AS statuses FROM map_steps m
 WHERE m.tenant_id = @tenant_id AND m.execution = @execution
 GROUP BY m.step;

-- name: MapStanding :one
-- How an execution stands, for those who follow it.
SELECT status, waiting_for, attempt, finished_at FROM map_executions WHERE tenant_id = @tenant_id AND id = @id;

-- name: MapStepInputs :many
-- The inputs of the steps at these paths, and then those of these steps in their iterations, the last
-- @most of each step and the last ones first, and how many these are. It reads none beyond @bytes.
SELECT k.path, k.step, m.input::text AS input, k.found
  FROM (SELECT s.*, count(*) OVER () AS found,
               sum(s.size) OVER (ORDER BY s.named DESC, s.seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
          FROM (SELECT o.path, o.step, o.seq, octet_length(o.input) AS size, o.path = ANY (@paths::text[]) AS named,
                       row_number() OVER (PARTITION BY o.step ORDER BY o.seq DESC) AS nth
                  FROM map_steps o
                 WHERE o.tenant_id = @tenant_id AND o.execution = @execution AND o.input IS NOT NULL
                   AND (o.path = ANY (@paths::text[]) OR o.step = ANY (@steps::text[]))) s
         WHERE s.nth <= @most::int) k
  JOIN map_steps m ON m.tenant_id = @tenant_id AND m.execution = @execution AND m.path = k.path
 WHERE coalesce(k.above, 0) < @bytes::bigint
 ORDER BY k.named DESC, k.seq DESC;
