-- name: AsksOfMap :many
-- How the questions of steps of a Map stand, by their subjects, with the decision that was counted
-- last. One that an edit has replaced is left out.
SELECT a.subject_id, a.id, a.status, a.closed_reason, a.decided_by, a.edited_from, a.expires_at,
       coalesce(d.reason, '')::text AS reason, d.response
  FROM approvals a LEFT JOIN LATERAL (
    SELECT one.reason, one.response FROM approval_decisions one
     WHERE one.tenant_id = a.tenant_id AND one.approval_id = a.id AND one.counted_at IS NOT NULL
     ORDER BY one.counted_at DESC, one.id DESC LIMIT 1) d ON true
 WHERE a.tenant_id = @tenant_id AND a.subject_type = @subject_type AND a.subject_id = ANY (@subjects::text[]) AND a.status <> 'superseded'
 ORDER BY a.subject_id;

-- name: MapHasAsked :exec
UPDATE map_executions SET asked = true WHERE tenant_id = @tenant_id AND id = @id AND NOT asked;

-- name: LockAskOfMap :many
-- The pending question of a subject.
SELECT a.id FROM approvals a
 WHERE a.tenant_id = @tenant_id AND a.subject_type = @subject_type AND a.subject_id = @subject_id AND a.status = 'pending'
   FOR UPDATE;

-- name: OverdueAsksOfMap :many
SELECT a.subject_id FROM approvals a
 WHERE a.tenant_id = @tenant_id AND a.execution_id = @execution_id AND a.subject_type = 'map_step' AND a.status = 'pending' AND a.expires_at <= @now
 ORDER BY a.subject_id;

-- name: PendingOfMap :many
-- The approval that a step of an execution waits for: its own, that of the run that it made, that of a
-- run that the last answer of its model has asked for, or that of the run that undoes it.
SELECT a.id FROM approvals a
 WHERE a.tenant_id = @tenant_id AND a.subject_type = @subject_type AND a.subject_id = @subject_id AND a.status = 'pending'
UNION ALL
SELECT a.id FROM approvals a
 WHERE a.tenant_id = @tenant_id AND a.status = 'pending'
   AND a.execution_id = (SELECT s.run_id FROM map_steps s WHERE s.tenant_id = @tenant_id AND s.execution = @execution AND s.path = @path)
UNION ALL
SELECT a.id FROM jsonb_each((
    SELECT m.runs FROM model_calls m WHERE m.tenant_id = @tenant_id AND m.execution = @execution AND m.path = @path
     ORDER BY m.attempt DESC, m.turn DESC LIMIT 1)) AS made (number, of)
  JOIN approvals a ON a.tenant_id = @tenant_id AND a.execution_id = made.of ->> 'execution_id' AND a.status = 'pending'
UNION ALL
SELECT a.id FROM approvals a
 WHERE a.tenant_id = @tenant_id AND a.execution_id = @undone_by AND a.status = 'pending'
 LIMIT 1;

-- name: EraseApprovalsOfMaps :exec
-- What approvals of executions show of them.
UPDATE approvals AS shown SET args = '{}', explanation = '[]', request = NULL, reason = ''
 WHERE shown.tenant_id = @tenant_id AND shown.execution_id = ANY (ARRAY(
    SELECT e.execution_id FROM map_executions e WHERE e.tenant_id = @tenant_id AND e.id = ANY (@executions::uuid[])));

-- name: EraseDecisionsOfMaps :exec
UPDATE approval_decisions AS d SET edited_args = NULL, response = NULL
 WHERE d.tenant_id = @tenant_id AND d.approval_id = ANY (ARRAY(
    SELECT a.id FROM approvals a JOIN map_executions e ON e.tenant_id = a.tenant_id AND e.execution_id = a.execution_id
     WHERE e.tenant_id = @tenant_id AND e.id = ANY (@executions::uuid[])));
