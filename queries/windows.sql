-- name: CountWindows :one
-- What the windows of a call contain without the run; see db/functions/count_windows.sql.
SELECT count_windows(@tenant_id, @run_id, @windows::json)::json AS counted;

-- name: RequireWindows :one
-- Counts again at the gate, and counts the run from now on; see db/functions/enter_windows.sql.
SELECT enter_windows(@tenant_id, @run_id, @windows::json, @counted)::boolean AS entered;

-- name: WindowsOfPolicies :many
SELECT series, id, per, filled FROM policy_windows WHERE tenant_id = @tenant_id AND gone_at IS NULL ORDER BY series FOR UPDATE;

-- name: InsertWindow :exec
INSERT INTO policy_windows (tenant_id, series, id, per, filled, seen)
VALUES (@tenant_id, @series, @id, @per, false, '00000000-0000-0000-0000-000000000000');

-- name: ShortenWindow :exec
UPDATE policy_windows SET per = @per WHERE tenant_id = @tenant_id AND series = @series;

-- name: EndWindow :exec
UPDATE policy_windows SET gone_at = @now::timestamptz WHERE tenant_id = @tenant_id AND series = @series;

-- name: UnfilledWindows :many
-- Of all tenants, under the sweep setting.
SELECT tenant_id, series FROM policy_windows WHERE NOT filled AND gone_at IS NULL AND (tenant_id, series) > (@after_tenant::uuid, @after::uuid)
 ORDER BY tenant_id, series LIMIT @most;

-- name: LockWindow :many
-- No row while another process fills the window, where one has, and where it is gone.
SELECT series FROM policy_windows
 WHERE tenant_id = @tenant_id AND series = @series AND seen = @seen AND seen_at IS NOT DISTINCT FROM sqlc.narg('seen_at')
   AND NOT filled AND gone_at IS NULL FOR UPDATE SKIP LOCKED;

-- name: ReadWindow :many
-- No row where it is filled or gone.
SELECT series, id, per, seen_at, seen FROM policy_windows WHERE tenant_id = @tenant_id AND series = @series AND NOT filled AND gone_at IS NULL;

-- name: WindowSeen :exec
UPDATE policy_windows SET seen_at = sqlc.narg('seen_at'), seen = @seen, filled = @filled WHERE tenant_id = @tenant_id AND series = @series;

-- name: RunsForWindow :many
-- The next runs that a window may count. Without @seen_at those that are under way, by their ids, and
-- then those that have ended, from when the window begins on, by when they were sent. A run that ends
-- in between is found there. taken is how many were found, of which as many are returned as have
-- @most_bytes of arguments, and at least one. counted is false for a run whose texts are not read.
-- Arguments are read only if @of_args.
SELECT r.id, r.provider, r.verb, r.risk_level, r.operation_type, r.sent_at, r.created_at, r.erased_at, (r.edited_args IS NOT NULL)::boolean AS edited,
       (CASE WHEN x.counted AND @of_args::boolean THEN coalesce(r.edited_args, r.args) ELSE '' END)::text AS args, r.metadata, r.session_id, r.dry_run, r.origin,
       r.key_id, r.agent_id, r.customer_id, x.counted::boolean AS counted, x.counted_at, x.taken::bigint AS taken
  FROM (SELECT p.*, count(*) OVER () AS taken, coalesce(sum(p.size) OVER (ORDER BY p.counted_at, p.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
          FROM (SELECT n.id, n.counted_at, c.counted, CASE WHEN c.counted AND @of_args::boolean THEN octet_length(coalesce(n.edited_args, n.args)) ELSE 0 END AS size
                  FROM ((SELECT u.id FROM runs u WHERE u.tenant_id = @tenant_id AND u.listed_state IS NULL AND u.id > @seen
                            AND sqlc.narg('seen_at')::timestamptz IS NULL ORDER BY u.id LIMIT @most)
                        UNION ALL
                        (SELECT e.id FROM runs e WHERE e.tenant_id = @tenant_id AND e.counted_at IS NOT NULL
                            AND (e.counted_at, e.id) > (sqlc.narg('seen_at')::timestamptz, @seen) ORDER BY e.counted_at, e.id LIMIT @most)) AS i
                 CROSS JOIN LATERAL (SELECT * FROM runs y WHERE y.tenant_id = @tenant_id AND y.id = i.id LIMIT 1) AS n
                 CROSS JOIN LATERAL (SELECT (n.sent_at >= now() - make_interval(mins => @per) AND NOT (n.dry_run AND n.operation_type = 'read')
                       AND (n.state IN ('executed', 'sending', 'outcome_unknown') OR n.state = 'claimed' AND n.maybe_sent)) IS TRUE AS counted) AS c) AS p) AS x
 CROSS JOIN LATERAL (SELECT * FROM runs y WHERE y.tenant_id = @tenant_id AND y.id = x.id LIMIT 1) AS r
 WHERE x.before < @most_bytes::bigint
 ORDER BY x.counted_at, r.id;

-- name: MarkWindowed :many
-- Locks the runs whose state may still change, and has the trigger keep what windows count of them.
-- It returns them as they are now.
WITH locked AS MATERIALIZED (
    SELECT n.id FROM runs n WHERE n.tenant_id = @tenant_id AND n.id = ANY (@ids::uuid[])
       AND (n.state IN ('executed', 'sending', 'outcome_unknown') OR n.state = 'claimed' AND n.maybe_sent) ORDER BY n.id FOR UPDATE)
UPDATE runs r SET windowed = true FROM locked WHERE r.tenant_id = @tenant_id AND r.id = locked.id RETURNING r.id, r.state;

-- name: FillWindow :exec
SELECT fill_window(@tenant_id, @series, @runs::json);

-- name: WindowsToTrim :many
-- Of all tenants, under the sweep setting, those that are gone too.
SELECT tenant_id, series, per, (gone_at IS NOT NULL)::boolean AS gone FROM policy_windows WHERE (tenant_id, series) > (@after_tenant::uuid, @after::uuid)
 ORDER BY tenant_id, series LIMIT @most;

-- name: TrimWindowEntries :execrows
DELETE FROM window_entries e WHERE e.tenant_id = @tenant_id AND e.series = @series AND e.run_id = ANY (ARRAY(
    SELECT x.run_id FROM window_entries x WHERE x.tenant_id = @tenant_id AND x.series = @series AND x.minute < @before ORDER BY x.minute LIMIT @most));

-- name: TrimWindowCounts :execrows
-- Those of the first minutes, up to the one in which @most rows end.
DELETE FROM window_counts c WHERE c.tenant_id = @tenant_id AND c.series = @series AND c.minute < @before AND c.minute <= (
    SELECT max(x.minute) FROM (SELECT y.minute FROM window_counts y
      WHERE y.tenant_id = @tenant_id AND y.series = @series AND y.minute < @before ORDER BY y.minute LIMIT @most) AS x);

-- name: DeleteWindow :exec
DELETE FROM policy_windows w WHERE w.tenant_id = @tenant_id AND w.series = @series AND w.gone_at IS NOT NULL
   AND NOT EXISTS (SELECT FROM window_entries e WHERE e.tenant_id = w.tenant_id AND e.series = w.series)
   AND NOT EXISTS (SELECT FROM window_counts c WHERE c.tenant_id = w.tenant_id AND c.series = w.series);

-- name: UnfilledWindowsOf :many
SELECT series FROM policy_windows WHERE tenant_id = @tenant_id AND NOT filled AND gone_at IS NULL ORDER BY series;

-- name: CountCountedRuns :one
-- How many runs a simulation reads, @most at most; see CountedRuns.
SELECT count(*) FROM (SELECT FROM runs r WHERE r.tenant_id = @tenant_id AND r.counted_at IS NOT NULL AND r.counted_at >= @since::timestamptz
   AND r.counted_at < @until::timestamptz LIMIT @most) AS x;

-- name: CountedRuns :many
-- The runs that windows may count, as RunsForWindow has them, of a period, by when they were sent.
SELECT r.id, r.provider, r.verb, r.risk_level, r.operation_type, r.state, r.counted_at, r.created_at, r.erased_at, (r.edited_args IS NOT NULL)::boolean AS edited,
       (CASE WHEN @of_args::boolean THEN coalesce(r.edited_args, r.args) ELSE '' END)::text AS args, r.metadata, r.session_id, r.dry_run, r.origin,
       r.key_id, r.agent_id, r.customer_id
  FROM runs r
 WHERE r.tenant_id = @tenant_id AND r.counted_at IS NOT NULL AND (r.counted_at, r.id) > (@since::timestamptz, @after::uuid) AND r.counted_at < @until::timestamptz
   AND NOT (r.dry_run AND r.operation_type = 'read')
 ORDER BY r.counted_at, r.id LIMIT @most;
