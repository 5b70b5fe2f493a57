-- name: InsertPolicyMatch :exec
-- A step that a crash repeats says the same again.
INSERT INTO policy_matches (tenant_id, policy_id, run_id, attempt, policy_version, mode, action, decided, decision, shadow)
VALUES (@tenant_id, @policy_id, @run_id, @attempt, @policy_version, @mode, @action, @decided, @decision, @shadow)
ON CONFLICT ON CONSTRAINT policy_matches_pkey DO NOTHING;

-- A period is that of the runs' ids, which are in the order of time: so what matched is
-- among what is counted, and both come from an index. A run that was decided more than
-- once counts as it was the last time that the policy matched it.
-- name: PolicyCoverage :many
WITH latest AS (
    SELECT DISTINCT ON (m.run_id) m.policy_version, m.mode, m.decided, m.decision, m.shadow, m.at
      FROM policy_matches m
     WHERE m.tenant_id = @tenant_id AND m.policy_id = @policy_id AND m.run_id >= @low AND m.run_id < @high
     ORDER BY m.run_id, m.attempt DESC)
SELECT 'total'::text AS kind, ''::text AS key, count(*) AS runs, count(*) FILTER (WHERE decided) AS decided FROM latest
UNION ALL SELECT 'decision', decision, count(*), count(*) FILTER (WHERE decided) FROM latest GROUP BY 2
UNION ALL SELECT 'shadow', shadow, count(*), 0 FROM latest WHERE mode = 'shadow' GROUP BY 2
UNION ALL SELECT 'version', policy_version::text, count(*), count(*) FILTER (WHERE decided) FROM latest GROUP BY 2
UNION ALL SELECT 'day', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), count(*), count(*) FILTER (WHERE decided) FROM latest GROUP BY 2;

-- name: CountRunsBetween :one
SELECT count(*) FROM runs WHERE tenant_id = @tenant_id AND id >= @low AND id < @high;

-- In an order that has nothing to do with the runs and is the same each time: the first
-- so many are a fair sample, and so are the first of these.
-- name: SampleRuns :many
SELECT id FROM runs WHERE tenant_id = @tenant_id AND id >= @low AND id < @high
 ORDER BY hashtextextended(id::text, 0), id
 LIMIT @n;

-- name: RunsToJudge :many
SELECT id, execution_id, provider, verb, args, metadata, created_at FROM runs WHERE tenant_id = @tenant_id AND id = ANY (@ids::uuid[]);
