-- name: ClaimMap :one
-- See db/functions/claim_map.sql.
SELECT c.outcome::text AS outcome, c.execution::uuid AS execution
  FROM claim_map(@tenant_id, @keys::text[], @call::jsonb, @payload::text, @fingerprint::bytea, @metadata::json, @now) AS c;

-- name: GetMapExecution :one
SELECT * FROM map_executions WHERE tenant_id = @tenant_id AND id = @id;

-- name: AwaitedMap :one
-- What those who wait for the end look at again and again.
SELECT (finished_at IS NOT NULL)::boolean AS ended FROM map_executions WHERE tenant_id = @tenant_id AND id = @id;

-- name: MapNews :one
-- What a workflow looks at again and again.
SELECT attempt, wants_cancel, wants_pause, finished_at, signals, caller_workflow FROM map_executions WHERE tenant_id = @tenant_id AND id = @id;

-- name: MapExecutionByName :one
SELECT * FROM map_executions WHERE tenant_id = @tenant_id AND execution_id = @execution_id;

-- name: BeginMap :one
-- The first look of an attempt's workflow. It finds no row where another attempt has begun, or the
-- execution has ended.
UPDATE map_executions SET begun_at = coalesce(begun_at, @now), updated_at = @now
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND finished_at IS NULL
RETURNING *;

-- name: ShowMap :one
-- What the execution waits for, or that it goes on. Found is false where the attempt is over, or
-- something later is shown: the repeat of a lost task may write before that task does.
UPDATE map_executions SET status = @status, waiting_for = sqlc.narg('waiting_for'), asked = asked OR @asked::boolean,
       governance = @governance, updated_at = @now, shown = @shown
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND finished_at IS NULL AND shown <= @shown
RETURNING id;

-- name: FinishMap :many
UPDATE map_executions SET status = @status, waiting_for = NULL, output = sqlc.narg('output'), error = sqlc.narg('error'), state = sqlc.narg('state'), compensation = sqlc.narg('compensation'), records = @records, actions = @actions, kept_bytes = @kept_bytes,
       asked = asked OR @asked::boolean, wrote = wrote OR @wrote::boolean, reads = sqlc.narg('reads')::text[], output_invented = @output_invented, governance = @governance, updated_at = @now, finished_at = @now, again = NULL
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND finished_at IS NULL
RETURNING *;

-- name: GiveUpMapSteps :exec
-- What a workflow task that was lost has written of steps, and its repeat has not: steps that began have
-- no end of their own. They get the number of the last record of the attempt: those of a later attempt
-- follow, and a stream tells them, as their number is another one.
UPDATE map_steps SET rev = @records::integer,
       status = CASE WHEN status IN ('running', 'waiting') THEN 'cancelled' ELSE status END,
       ended_at = CASE WHEN status IN ('running', 'waiting') THEN @now::timestamptz ELSE ended_at END
 WHERE tenant_id = @tenant_id AND execution = @execution AND (status IN ('running', 'waiting') OR rev > @records::integer);

-- name: RequireMapEnded :one
-- Undoes the transaction where it did not end the execution, because the end was committed before:
-- then the audit record and the event of the end must not be written again. See RequireRunChanged. The
-- execution waits for no events any longer.
WITH stopped AS (
    DELETE FROM map_waits w WHERE w.tenant_id = @tenant_id AND w.execution = @id
)
SELECT CASE
    WHEN (SELECT e.xmin = pg_current_xact_id()::xid FROM map_executions e WHERE e.tenant_id = @tenant_id AND e.id = @id) THEN true
    ELSE run_not_changed()
    END::boolean AS ended;

-- name: FreeMapKeys :exec
-- The execution had no effect and asked nobody, and neither had one that it has started, so its
-- names may be used again. It remembers them for a retry.
WITH freed AS (
    DELETE FROM map_keys k USING map_executions e
     WHERE k.tenant_id = @tenant_id AND k.execution = @execution AND e.tenant_id = k.tenant_id AND e.id = k.execution AND NOT e.asked AND NOT e.wrote
       AND NOT EXISTS (SELECT FROM map_executions o
                        WHERE o.tenant_id = e.tenant_id AND o.parent_id = e.execution_id AND (o.finished_at IS NULL OR o.actions > 0 OR o.asked OR o.wrote) OFFSET 0)
    RETURNING k.key
)
UPDATE map_executions AS m SET freed_keys = ARRAY(SELECT freed.key FROM freed)
 WHERE m.tenant_id = @tenant_id AND m.id = @execution AND EXISTS (SELECT FROM freed);

-- name: WantOfMap :many
-- What a person or a key asks of an execution that has not ended.
UPDATE map_executions SET wants_cancel = wants_cancel OR @cancel::boolean, wants_pause = coalesce(sqlc.narg('pause')::boolean, wants_pause), updated_at = @now, news_at = @now
 WHERE tenant_id = @tenant_id AND id = @id AND finished_at IS NULL
RETURNING *;

-- name: WriteMapSteps :exec
-- Rows of steps, given as arrays. A step that a repeat writes again gets the later values. A workflow
-- task that was lost and its repeat may write in any order, and one of them may end the execution
-- first. So nothing is written once the attempt is over. And the end of a step counts in any case:
-- it is taken back only by a higher attempt of the step, by an outcome that nobody knows, or by a
-- later attempt of the execution, which numbers its records above those of the one before.
-- A step shows the run that its call has claimed. A repeat of the call finds that run, so the name that
-- it brings is nobody's. A step that is reused was not run again, and shows when it has ended.
INSERT INTO map_steps (tenant_id, execution, path, seq, rev, step, type, instance, status, attempts, input, output, error, run_id, began_at, ended_at)
SELECT e.tenant_id, e.id, s.path, s.seq, s.rev, s.step, s.type, s.instance, s.status, s.attempts, s.input, s.output, s.error,
       s.run_id, s.began_at, s.ended_at
  FROM map_executions e CROSS JOIN json_populate_recordset(NULL::map_steps, @steps::json) AS s
 WHERE e.tenant_id = @tenant_id AND e.id = @execution AND e.attempt = @attempt AND e.finished_at IS NULL
 ORDER BY s.path
ON CONFLICT (tenant_id, execution, path) DO UPDATE SET
       rev = greatest(excluded.rev, map_steps.rev + 1), status = excluded.status, attempts = excluded.attempts, input = coalesce(excluded.input, map_steps.input),
       output = excluded.output, error = excluded.error,
       ended_at = CASE WHEN excluded.path = ANY (@reused::text[]) THEN coalesce(map_steps.ended_at, excluded.ended_at) ELSE excluded.ended_at END,
       run_id = CASE WHEN excluded.attempts > map_steps.attempts THEN coalesce(excluded.run_id, map_steps.run_id) ELSE coalesce(map_steps.run_id, excluded.run_id) END
 WHERE excluded.rev > map_steps.rev
       AND (map_steps.ended_at IS NULL OR excluded.ended_at IS NOT NULL OR excluded.attempts > map_steps.attempts OR excluded.status = 'outcome_unknown'
            OR map_steps.rev <= (SELECT e.records FROM map_executions e WHERE e.tenant_id = @tenant_id AND e.id = @execution))
    OR excluded.ended_at IS NOT NULL AND map_steps.ended_at IS NULL AND excluded.attempts >= map_steps.attempts;

-- name: ForgetRunOfMapStep :exec
-- A call that was refused when it was claimed has no run, so its name is nobody's.
UPDATE map_steps s SET run_id = NULL
 WHERE s.tenant_id = @tenant_id AND s.execution = @execution AND s.path = @path AND s.attempts = @attempts
   AND NOT EXISTS (SELECT FROM run_keys k WHERE k.tenant_id = s.tenant_id AND k.key = s.run_id);

-- name: NameRunOfMapStep :exec
-- The run that the call of a step has found, where its row may have the name of none.
UPDATE map_steps SET run_id = @run::text
 WHERE tenant_id = @tenant_id AND execution = @execution AND path = @path AND attempts = @attempts;

-- name: WriteMapValue :exec
INSERT INTO map_values (tenant_id, execution, name, body) VALUES (@tenant_id, @execution, @name, @body)
ON CONFLICT (tenant_id, execution, name) DO UPDATE SET body = excluded.body;

-- name: ReadMapValues :many
SELECT name, body FROM map_values WHERE tenant_id = @tenant_id AND execution = @execution AND name = ANY (@names::text[]);

-- name: ReadMapIterations :many
-- The outputs of the iterations of a foreach, in their order, and how many there are. It stops where
-- the bodies have @bytes.
SELECT v.name, v.body, v.found
  FROM (SELECT i.name, i.body, count(*) OVER () AS found,
               sum(octet_length(i.body)) OVER (ORDER BY i.name ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
          FROM map_values i
         WHERE i.tenant_id = @tenant_id AND i.execution = @execution AND i.name > @low::text AND i.name < @high::text) v
 WHERE coalesce(v.above, 0) < @bytes::bigint
 ORDER BY v.name;

-- name: UnbegunMaps :many
-- Executions of all tenants whose workflow has not looked at them for some time. Those that wait for
-- a place have none yet, and the index does not have them. The place is found by its execution: by its
-- state, a plan for small tables would read all that are queued.
SELECT e.tenant_id, e.id, e.updated_at FROM map_executions e
 WHERE e.finished_at IS NULL AND ((e.waiting_for ->> 'for') IS DISTINCT FROM 'concurrency' OR e.wants_cancel) AND e.updated_at < @before AND (e.updated_at, e.id) > (@after_at::timestamptz, @after_id::uuid)
   AND (SELECT l.state FROM map_places l WHERE l.tenant_id = e.tenant_id AND l.execution = e.id) IS DISTINCT FROM 'queued'
 ORDER BY e.updated_at, e.id LIMIT @most;

-- name: ListMapExecutions :many
-- Without their texts: a page of those could be hundreds of megabytes. An error is there where it is
-- short. It is read for the executions of the page only, and not to learn its length.
SELECT p.id, p.execution_id, p.map_id, p.version, p.map_type, p.dry_run, p.attempt, p.metadata, p.session_id, p.customer, p.key_id, p.user_id, p.parent_id, p.request_id,
       p.workflow_id, p.status, p.waiting_for, p.actions, p.governance, p.tokens_used, p.usage_estimated, p.updated_at, p.finished_at, p.erased_at, p.has_error,
       coalesce(CASE WHEN p.has_error THEN (SELECT e.error FROM map_executions e WHERE e.tenant_id = @tenant_id AND e.id = p.id AND octet_length(e.error) <= @longest_error::integer) END, '')::text AS error
  FROM (
    SELECT id, execution_id, map_id, version, map_type, dry_run, attempt, metadata, session_id, customer, key_id, user_id, parent_id, request_id,
           workflow_id, status, waiting_for, actions, governance, tokens_used, usage_estimated, updated_at, finished_at, erased_at,
           (error IS NOT NULL)::boolean AS has_error
      FROM map_executions
     WHERE tenant_id = @tenant_id
       AND (sqlc.narg('map_id')::uuid IS NULL OR map_id = sqlc.narg('map_id'))
       AND (sqlc.narg('key_id')::uuid IS NULL OR key_id = sqlc.narg('key_id'))
       AND (sqlc.narg('session_id')::text IS NULL OR session_id = sqlc.narg('session_id'))
       AND (sqlc.narg('parent_id')::text IS NULL OR parent_id = sqlc.narg('parent_id'))
       AND (sqlc.narg('customer')::text IS NULL OR customer = ANY (customer_names(@tenant_id, sqlc.narg('customer'))::text[]))
       AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
       AND (sqlc.narg('dry_run')::boolean IS NULL OR dry_run = sqlc.narg('dry_run'))
       AND (sqlc.narg('low')::uuid IS NULL OR id >= sqlc.narg('low'))
       AND (sqlc.narg('high')::uuid IS NULL OR id < sqlc.narg('high'))
       AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
    ORDER BY id DESC LIMIT @most) p
 ORDER BY p.id DESC;

-- name: OldMaps :many
-- Ended executions of all tenants whose texts are kept no longer. The Map or the message that has
-- started one reads its output until it has ended itself.
SELECT e.tenant_id, e.id FROM map_executions e
 WHERE e.finished_at IS NOT NULL AND e.erased_at IS NULL AND e.finished_at < @before
   AND NOT (e.parent_id IS NOT NULL AND (
        EXISTS (SELECT FROM map_executions p WHERE p.tenant_id = e.tenant_id AND p.execution_id = e.parent_id AND p.finished_at IS NULL OFFSET 0)
        OR EXISTS (SELECT FROM turns t WHERE t.tenant_id = e.tenant_id AND t.execution_id = e.parent_id AND t.finished_at IS NULL OFFSET 0)))
 ORDER BY e.finished_at LIMIT @most;

-- name: MapsOfCustomer :many
-- Ended executions for a customer that were triggered before an id, without those whose changes are
-- being applied.
SELECT e.id FROM unnest(@names::text[]) AS named (name) CROSS JOIN LATERAL (
    SELECT m.id FROM map_executions m
     WHERE m.tenant_id = @tenant_id AND m.customer = named.name AND m.id < @before::uuid AND m.finished_at IS NOT NULL
       AND NOT EXISTS (SELECT FROM map_change_sets c WHERE c.tenant_id = m.tenant_id AND c.execution = coalesce(m.changes_of, m.id) AND c.status = 'applying')
     ORDER BY m.id LIMIT @most) AS e
 LIMIT @most;

-- name: HasOpenMapOfCustomer :one
SELECT EXISTS (SELECT FROM unnest(@names::text[]) AS named (name) CROSS JOIN LATERAL (
    SELECT FROM map_executions m
     WHERE m.tenant_id = @tenant_id AND m.customer = named.name AND m.id < @before::uuid
       AND (m.finished_at IS NULL
            OR EXISTS (SELECT FROM map_change_sets c WHERE c.tenant_id = m.tenant_id AND c.execution = coalesce(m.changes_of, m.id) AND c.status = 'applying'))
     LIMIT 1) AS e);

-- name: EraseMaps :exec
UPDATE map_executions SET payload = '', metadata = '{}', customer = NULL, waiting_for = NULL, output = NULL, error = NULL, state = NULL, compensation = NULL, again = NULL, kept_bytes = 0, erased_at = @now
 WHERE tenant_id = @tenant_id AND id = ANY (@executions::uuid[]);

-- name: DeleteMapSteps :exec
DELETE FROM map_steps WHERE tenant_id = @tenant_id AND execution = ANY (@executions::uuid[]);

-- name: DeleteMapValues :exec
DELETE FROM map_values WHERE tenant_id = @tenant_id AND execution = ANY (@executions::uuid[]);
