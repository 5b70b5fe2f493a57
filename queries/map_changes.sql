-- name: RecordMapChange :exec
-- A list that people were asked about does not grow.
INSERT INTO map_changes (tenant_id, dry_run, id, execution, place, path, verb, depends_on)
SELECT @tenant_id, @dry_run, @id, @execution, @place, @path, @verb, @depends_on
 WHERE NOT EXISTS (SELECT FROM map_change_sets s WHERE s.tenant_id = @tenant_id AND s.execution = @dry_run)
ON CONFLICT (tenant_id, dry_run, id) DO NOTHING;

-- name: RecordMapChangeOfCall :exec
-- RecordMapChange for a call that a model step has made. It is at the place of the step, and within it
-- at @at.
INSERT INTO map_changes (tenant_id, dry_run, id, execution, place, path, verb, depends_on)
SELECT @tenant_id, @dry_run, @id, @execution, @above::integer[] || m.seq || @at::integer[], @path, @verb, @depends_on
  FROM map_steps m
 WHERE m.tenant_id = @tenant_id AND m.execution = @execution AND m.path = @step
   AND NOT EXISTS (SELECT FROM map_change_sets s WHERE s.tenant_id = @tenant_id AND s.execution = @dry_run)
ON CONFLICT (tenant_id, dry_run, id) DO NOTHING;

-- name: SetMapChangesOf :exec
-- Of an execution that a step of a dry run has started in this transaction.
UPDATE map_executions SET changes_of = @changes_of, changes_at = @changes_at, changes_path = @changes_path
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: ListMapChanges :many
-- A page of the changes of a dry run in their order, of those below a place.
SELECT c.id, c.number::integer AS number, c.execution, c.path, c.verb, c.depends_on, c.status, c.run, c.code, c.reason
  FROM (SELECT m.*, row_number() OVER (ORDER BY m.place, m.id) AS number FROM map_changes m
         WHERE m.tenant_id = @tenant_id AND m.dry_run = @dry_run) c
 WHERE c.number > @after::integer AND c.place[1:cardinality(@within::integer[])] = @within::integer[]
 ORDER BY c.number LIMIT @most;

-- name: GetMapChange :one
SELECT id, execution, path, verb, depends_on, status, run,
       coalesce((SELECT s.workflow_id FROM map_change_sets s WHERE s.tenant_id = @tenant_id AND s.execution = @dry_run), '')::text AS workflow_id
  FROM map_changes WHERE tenant_id = @tenant_id AND dry_run = @dry_run AND id = @id;

-- name: MapChangesToDecide :many
SELECT id, depends_on, execution, path[cardinality(path)]::text AS step FROM map_changes
 WHERE tenant_id = @tenant_id AND dry_run = @dry_run ORDER BY place, id;

-- name: CountMapChanges :one
-- How many changes a dry run has, and whether people were asked about them.
SELECT (SELECT count(*) FROM map_changes c WHERE c.tenant_id = @tenant_id AND c.dry_run = @dry_run) AS changes,
       EXISTS (SELECT FROM map_change_sets s WHERE s.tenant_id = @tenant_id AND s.execution = @dry_run) AS asked;

-- name: ProposeMapChanges :exec
INSERT INTO map_change_sets (tenant_id, execution, workflow_id, updated_at) VALUES (@tenant_id, @execution, @workflow_id, @now);

-- name: GetMapChangeSet :many
-- The change set of a dry run, with the approval that asks about it.
SELECT s.status, s.decision, a.id AS approval_id, a.expires_at, a.decided_by FROM map_change_sets s
  JOIN approvals a ON a.tenant_id = s.tenant_id AND a.subject_type = 'map_changes' AND a.subject_id = s.execution::text AND a.edited_from IS NULL
 WHERE s.tenant_id = @tenant_id AND s.execution = @execution;

-- name: MapChangeSetStatus :many
-- What those who wait for the end look at again and again.
SELECT status FROM map_change_sets WHERE tenant_id = @tenant_id AND execution = @execution;

-- name: LockMapChangeSet :many
SELECT status FROM map_change_sets WHERE tenant_id = @tenant_id AND execution = @execution FOR UPDATE;

-- name: DecideMapChanges :exec
UPDATE map_changes SET status = CASE WHEN id = ANY (@approved::text[]) THEN 'approved' ELSE 'rejected' END
 WHERE tenant_id = @tenant_id AND dry_run = @dry_run AND status = 'proposed';

-- name: SetMapChangeSet :exec
UPDATE map_change_sets SET status = @status, decision = coalesce(sqlc.narg('decision'), decision), updated_at = @now
 WHERE tenant_id = @tenant_id AND execution = @execution;

-- name: TouchMapChangeSet :exec
UPDATE map_change_sets SET updated_at = @now WHERE tenant_id = @tenant_id AND execution = @execution AND status = 'applying';

-- name: NextMapChange :many
-- The change that is applied next, or is being applied.
SELECT id, execution, path, verb, depends_on, status, run,
       coalesce((SELECT s.workflow_id FROM map_change_sets s WHERE s.tenant_id = @tenant_id AND s.execution = @dry_run), '')::text AS workflow_id
  FROM map_changes
 WHERE tenant_id = @tenant_id AND dry_run = @dry_run AND status IN ('approved', 'applying')
 ORDER BY place, id LIMIT 1;

-- name: BeginMapChange :exec
-- A call that is refused when it is claimed has no run.
UPDATE map_changes c SET status = 'applying', run = @run WHERE c.tenant_id = @tenant_id AND c.dry_run = @dry_run AND c.id = @id AND c.status = 'approved'
   AND EXISTS (SELECT FROM runs r WHERE r.tenant_id = c.tenant_id AND r.id = @run);

-- name: EndMapChange :many
-- Returns nothing where another hand has ended it, or has claimed its run meanwhile.
UPDATE map_changes SET status = @status, code = sqlc.narg('code'), reason = sqlc.narg('reason')
 WHERE tenant_id = @tenant_id AND dry_run = @dry_run AND id = @id AND status IN ('approved', 'applying')
   AND (run IS NULL OR @with_run::boolean)
RETURNING id;

-- name: LeaveMapChanges :exec
-- Those that are no longer applied, after the first that could not be, or after the time to decide.
UPDATE map_changes AS c SET status = 'not_applied' WHERE c.tenant_id = @tenant_id AND c.dry_run = @dry_run AND c.status IN ('proposed', 'approved')
   AND NOT EXISTS (SELECT FROM map_changes o WHERE o.tenant_id = @tenant_id AND o.dry_run = @dry_run AND o.status = 'applying');

-- name: CountMapChangesByStatus :many
SELECT status, count(*) AS n FROM map_changes WHERE tenant_id = @tenant_id AND dry_run = @dry_run GROUP BY status;

-- name: ChangesOfExecution :many
-- The changes that one execution came to.
SELECT path[cardinality(path)]::text AS step, status, run FROM map_changes
 WHERE tenant_id = @tenant_id AND dry_run = @dry_run AND execution = @execution;

-- name: AllMapSteps :many
SELECT path, attempts, output, error, ended_at FROM map_steps WHERE tenant_id = @tenant_id AND execution = @execution;

-- name: MapChangeSetsToApply :many
-- Those of all tenants that were not touched for some time.
SELECT tenant_id, execution, workflow_id FROM map_change_sets WHERE status = 'applying' AND updated_at < @before ORDER BY updated_at LIMIT @most;

-- name: DeleteMapChanges :exec
DELETE FROM map_changes WHERE tenant_id = @tenant_id AND dry_run = ANY (@executions::uuid[]);

-- name: ForgetMapChangeSets :exec
-- Nobody decides about changes that were erased.
UPDATE map_change_sets SET status = 'expired' WHERE tenant_id = @tenant_id AND execution = ANY (@executions::uuid[]) AND status = 'proposed';
