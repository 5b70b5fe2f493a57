-- name: InsertPolicyMatch :exec
-- A step that is repeated after a crash writes the same row again.
INSERT INTO policy_matches (tenant_id, policy_id, run_id, attempt, policy_version, mode, action, decided, decision, shadow)
VALUES (@tenant_id, @policy_id, @run_id, @attempt, @policy_version, @mode, @action, @decided, @decision, @shadow)
ON CONFLICT ON CONSTRAINT policy_matches_pkey DO NOTHING;

-- A period is a range of run ids, because ids are in the order of time. So the runs that
-- matched are among the runs that are counted, and both come from an index. A run that was
-- decided more than once counts with the last match of the policy.
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

-- In an order that does not depend on what the runs are and is the same each time. So the
-- first @n runs are a fair sample, and so are the first of these.
-- name: SampleRuns :many
SELECT id FROM runs WHERE tenant_id = @tenant_id AND id >= @low AND id < @high
 ORDER BY hashtextextended(id::text, 0), id
 LIMIT @n;

-- name: RunsToJudge :many
-- With the record and the names of the customer that the call names, as they are now.
SELECT id, execution_id, provider, verb, args, metadata, session_id, dry_run, origin, key_id, agent_id, customer_id, created_at, erased_at, decision, error_code,
       coalesce(customer_record(tenant_id, named_customer), 'null')::json AS customer,
       coalesce(customer_names(tenant_id, named_customer), '{}')::text[] AS customer_names FROM runs WHERE tenant_id = @tenant_id AND id = ANY (@ids::uuid[]);
