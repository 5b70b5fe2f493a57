-- name: InsertApproval :exec
-- The writers are those of the execution that the approval is about, or that makes the call.
INSERT INTO approvals (id, tenant_id, subject_type, subject_id, workflow_id, driver, run_id, execution_id, status, provider, verb, args, risk_level, policy_name, reason,
                       requester, requester_kind, expires_at, kind, attempt, explanation, request, requirements, policy_ids, call_hash, schema_hash,
                       credential_id, operation_type, idempotency, edited_from, edited_by, form, writers)
VALUES (@id, @tenant_id, @subject_type, @subject_id, @workflow_id, @driver, sqlc.narg('run_id'), @execution_id, @status, @provider, @verb, @args, @risk_level, @policy_name, @reason,
        sqlc.narg('requester'), @requester_kind, sqlc.narg('expires_at'), @kind, @attempt, @explanation, sqlc.narg('request'), @requirements, @policy_ids::uuid[],
        @call_hash, @schema_hash, sqlc.narg('credential_id'), sqlc.narg('operation_type'), sqlc.narg('idempotency'), sqlc.narg('edited_from'), sqlc.narg('edited_by'), sqlc.narg('form'),
        CASE WHEN @subject_type::text = 'run'
             THEN writers_of(@tenant_id, (SELECT r.parent_id FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = sqlc.narg('run_id')), true)
             ELSE writers_of(@tenant_id, @execution_id, false) END);

-- name: GetApproval :one
-- With the state of the run, where the approval is about a run that still has it. successor is the
-- approval that an edit of another subject has made of it.
SELECT sqlc.embed(a), coalesce(r.state, '')::text AS run_state, coalesce(r.attempt, 0)::integer AS run_attempt, r.approval_id AS run_approval_id,
       coalesce((SELECT n.id FROM approvals n WHERE n.tenant_id = a.tenant_id AND n.subject_type = a.subject_type AND n.subject_id = a.subject_id
                    AND n.edited_from = a.id AND a.run_id IS NULL LIMIT 1), '')::text AS successor
  FROM approvals a LEFT JOIN runs r ON r.tenant_id = a.tenant_id AND r.id = a.run_id
 WHERE a.tenant_id = @tenant_id AND a.id = @id;

-- name: ListApprovals :many
-- Without the columns that only GetApproval shows. Arguments are up to 1 MiB each: a page
-- ends where its arguments reach @bytes. found is the number of rows within @most. The sizes
-- are known without reading the arguments. voted says whether the voter has approved; it is no
-- filter, because its cost would be that of all rows before the page. With @bare the arguments
-- are not read, and neither are the runs.
SELECT p.id, p.kind, p.execution_id, p.run_id, p.status, p.provider, p.verb, (CASE WHEN @bare::boolean THEN '{}' ELSE p.args END)::text AS args, p.risk_level, p.policy_name,
       p.reason, p.requester, p.requester_kind, p.requirements, p.edited_from, p.edited_by, p.writers, p.closed_reason, p.decided_by, p.created_at,
       p.expires_at, p.decided_at, p.escalated_at, p.attempt, p.subject_type, p.subject_id, p.workflow_id,
       coalesce(r.state, '')::text AS run_state, coalesce(r.attempt, 0)::integer AS run_attempt, r.approval_id AS run_approval_id, p.found,
       (sqlc.narg('voter')::uuid IS NOT NULL AND (SELECT count(*) FROM approval_decisions d
         WHERE d.tenant_id = @tenant_id AND d.approval_id = p.id AND d.user_id = sqlc.narg('voter') AND d.decision = 'approve' AND d.counted_at IS NOT NULL) > 0)::boolean AS voted
  FROM (SELECT l.*, count(*) OVER () AS found
          FROM (SELECT a.*, coalesce(sum(CASE WHEN @bare::boolean THEN 0 ELSE octet_length(a.args) END + pg_column_size(a.requirements))
                                         OVER (ORDER BY a.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS above
                  FROM approvals a
                 WHERE a.tenant_id = @tenant_id
                   AND (sqlc.narg('before')::text IS NULL OR a.id < sqlc.narg('before'))
                   AND (sqlc.narg('status')::text IS NULL OR a.status = sqlc.narg('status'))
                   AND (sqlc.narg('status')::text IS DISTINCT FROM 'pending' OR (a.status = 'pending') IS TRUE) -- as approvals_pending says it
                   AND (sqlc.narg('kind')::text IS NULL OR a.kind = sqlc.narg('kind'))
                   AND (sqlc.narg('provider')::text IS NULL OR a.provider = sqlc.narg('provider'))
                   AND (sqlc.narg('verb')::text IS NULL OR a.verb = sqlc.narg('verb'))
                   AND (sqlc.narg('risk_level')::text IS NULL OR a.risk_level = sqlc.narg('risk_level'))
                   AND (sqlc.narg('policy_id')::uuid IS NULL OR a.policy_ids @> ARRAY[sqlc.narg('policy_id')::uuid])
                   AND (sqlc.narg('execution_id')::text IS NULL OR a.execution_id = sqlc.narg('execution_id'))
                   AND (sqlc.narg('requester')::uuid IS NULL OR a.requester = sqlc.narg('requester'))
                   AND (sqlc.narg('requester_kind')::text IS NULL OR a.requester_kind = sqlc.narg('requester_kind'))
                   AND (sqlc.narg('customer')::text IS NULL OR (SELECT r.named_customer FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = a.run_id) = ANY ((SELECT customer_names(@tenant_id, sqlc.narg('customer')))::text[]))
                   AND (sqlc.narg('ids')::text[] IS NULL OR a.id = ANY (sqlc.narg('ids')))
                   AND (sqlc.narg('low')::text IS NULL OR a.id >= sqlc.narg('low'))
                   AND (sqlc.narg('high')::text IS NULL OR a.id < sqlc.narg('high'))
                   AND (sqlc.narg('since')::timestamptz IS NULL OR a.created_at >= sqlc.narg('since'))
                   AND (sqlc.narg('until')::timestamptz IS NULL OR a.created_at < sqlc.narg('until'))
                 ORDER BY a.id DESC
                 LIMIT @most) l) p
  LEFT JOIN LATERAL (SELECT * FROM runs r WHERE r.tenant_id = p.tenant_id AND r.id = p.run_id AND NOT @bare::boolean OFFSET 0) r ON true
 WHERE p.above < @bytes::bigint
 ORDER BY p.id DESC;

-- name: PendingApprovals :many
-- ListApprovals for the most frequent filter, by an index of its own.
SELECT p.id, p.kind, p.execution_id, p.run_id, p.status, p.provider, p.verb, p.args, p.risk_level, p.policy_name,
       p.reason, p.requester, p.requester_kind, p.requirements, p.edited_from, p.edited_by, p.writers, p.closed_reason, p.decided_by, p.created_at,
       p.expires_at, p.decided_at, p.escalated_at, p.attempt, p.subject_type, p.subject_id, p.workflow_id,
       coalesce(r.state, '')::text AS run_state, coalesce(r.attempt, 0)::integer AS run_attempt, r.approval_id AS run_approval_id, p.found, false AS voted
  FROM (SELECT l.*, count(*) OVER () AS found
          FROM (SELECT a.*, coalesce(sum(octet_length(a.args) + pg_column_size(a.requirements))
                                         OVER (ORDER BY a.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS above
                  FROM approvals a
                 WHERE a.tenant_id = @tenant_id AND (a.status = 'pending') IS TRUE AND (sqlc.narg('before')::text IS NULL OR a.id < sqlc.narg('before'))
                 ORDER BY a.id DESC
                 LIMIT @most) l) p
  LEFT JOIN LATERAL (SELECT * FROM runs r WHERE r.tenant_id = p.tenant_id AND r.id = p.run_id OFFSET 0) r ON true
 WHERE p.above < @bytes::bigint
 ORDER BY p.id DESC;

-- name: CountApprovals :many
SELECT status, count(*) AS n FROM approvals WHERE tenant_id = @tenant_id GROUP BY status;

-- name: LockApproval :one
SELECT * FROM approvals WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: ApprovalRow :one
SELECT * FROM approvals WHERE tenant_id = @tenant_id AND id = @id;

-- name: CloseApproval :execrows
-- Ends a pending approval. An approved one can still be superseded, until its run is sent.
-- With recheck the sweeper tells the workflow until it has heard. @tell is for a change that
-- the workflow did not make itself. It is also for a decision of which a crash may keep the
-- workflow from hearing: the workflow would otherwise wait until the approval expires.
UPDATE approvals SET status = @status, closed_reason = @closed_reason, decided_by = sqlc.narg('decided_by'), decided_at = now(),
       recheck = @tell
 WHERE tenant_id = @tenant_id AND id = @id AND (status = 'pending' OR (status = 'approved' AND @status = 'superseded'));

-- name: RequireApprovalIs :one
-- Undoes the transaction where another transaction decided the approval meanwhile, even if
-- in the same way. A row's xmin is the transaction that wrote it; the time says that this
-- transaction decided, and not only marked, the approval.
SELECT CASE
    WHEN EXISTS (SELECT FROM approvals a WHERE a.tenant_id = @tenant_id AND a.id = @id AND a.status = @status AND a.decided_at = now()
                  AND a.xmin = pg_current_xact_id()::xid) THEN true
    ELSE run_not_changed()
    END::boolean AS changed;

-- name: EscalateApproval :execrows
UPDATE approvals SET escalated_at = now(), expires_at = @expires_at
 WHERE tenant_id = @tenant_id AND id = @id AND status = 'pending' AND escalated_at IS NULL;

-- name: CloseApprovalsOf :exec
-- CloseApproval for the approval that the subject waits for, if any.
UPDATE approvals SET status = @status, closed_reason = @closed_reason, decided_by = sqlc.narg('decided_by'), decided_at = now(), recheck = true
 WHERE tenant_id = @tenant_id AND subject_type = @subject_type AND subject_id = @subject_id AND status = 'pending';

-- name: HandOverApproval :exec
-- Moves the pending approval of a run to the run's own workflow, which drives it from now on.
UPDATE approvals SET workflow_id = @workflow_id, driver = 'run'
 WHERE tenant_id = @tenant_id AND subject_type = @subject_type AND subject_id = @subject_id AND status = 'pending';

-- name: ProposeDecision :exec
INSERT INTO approval_decisions (id, tenant_id, approval_id, user_id, decision, reason, edited_args, response, request_id, source_addr)
VALUES (@id, @tenant_id, @approval_id, sqlc.narg('user_id'), @decision, @reason, sqlc.narg('edited_args'), sqlc.narg('response'), @request_id, @source_addr);

-- name: WithdrawDecision :exec
DELETE FROM approval_decisions WHERE tenant_id = @tenant_id AND id = @id AND counted_at IS NULL;

-- name: GetDecision :one
SELECT * FROM approval_decisions WHERE tenant_id = @tenant_id AND id = @id;

-- name: LockApprovalOf :one
-- LockApproval of the approval that a decision is about.
SELECT * FROM approvals AS asked WHERE asked.tenant_id = @tenant_id AND asked.id = (
    SELECT d.approval_id FROM approval_decisions d WHERE d.tenant_id = @tenant_id AND d.id = @decision) FOR UPDATE;

-- name: VotesWith :many
-- Votes on the approval that a decision is about.
SELECT d.user_id, u.role FROM approval_decisions d
  JOIN users u ON u.tenant_id = d.tenant_id AND u.id = d.user_id
 WHERE d.tenant_id = @tenant_id AND d.approval_id = (
    SELECT one.approval_id FROM approval_decisions one WHERE one.tenant_id = @tenant_id AND one.id = @decision)
   AND d.decision = 'approve' AND d.counted_at IS NOT NULL AND u.joined_at IS NOT NULL AND u.removed_at IS NULL;

-- name: RoleOfDecider :many
-- RoleOf the user who made a decision; none for an operator and for a user who was removed.
SELECT u.role FROM approval_decisions d JOIN users u ON u.tenant_id = d.tenant_id AND u.id = d.user_id
 WHERE d.tenant_id = @tenant_id AND d.id = @decision AND u.joined_at IS NOT NULL AND u.removed_at IS NULL;

-- name: RequireDecisionCounted :one
-- Undoes the transaction where it did not count the decision, because it was withdrawn or
-- another transaction counted it.
SELECT CASE
    WHEN EXISTS (SELECT FROM approval_decisions d WHERE d.tenant_id = @tenant_id AND d.id = @id AND d.xmin = pg_current_xact_id()::xid) THEN true
    ELSE run_not_changed()
    END::boolean AS counted;

-- name: CountDecision :execrows
UPDATE approval_decisions SET counted_at = now() WHERE tenant_id = @tenant_id AND id = @id AND counted_at IS NULL;

-- name: Votes :many
-- The counted approvals, with the roles that the voters have now. A removed user has no vote.
SELECT d.user_id, u.role FROM approval_decisions d
  JOIN users u ON u.tenant_id = d.tenant_id AND u.id = d.user_id
 WHERE d.tenant_id = @tenant_id AND d.approval_id = @approval_id AND d.decision = 'approve' AND d.counted_at IS NOT NULL
   AND u.joined_at IS NOT NULL AND u.removed_at IS NULL;

-- name: Decisions :many
SELECT d.*, u.email, u.name FROM approval_decisions d
  LEFT JOIN users u ON u.tenant_id = d.tenant_id AND u.id = d.user_id
 WHERE d.tenant_id = @tenant_id AND d.approval_id = @approval_id AND d.counted_at IS NOT NULL
 ORDER BY d.counted_at, d.id;

-- name: LastEdit :many
-- The author of the subject's present arguments, and the approval whose arguments they
-- replaced.
SELECT edited_from, edited_by FROM approvals
 WHERE tenant_id = @tenant_id AND subject_type = @subject_type AND subject_id = @subject_id AND attempt = @attempt AND edited_by IS NOT NULL
 ORDER BY id DESC
 LIMIT 1;

-- name: ApprovalsToRecheck :many
-- Across tenants, under the sweep setting: the pending approvals that depend on something
-- that changed, and those that were closed and whose workflow may not know it. seen is the
-- version of the row.
SELECT tenant_id, id, subject_type, subject_id, run_id, workflow_id, xmin::text AS seen FROM approvals
 WHERE recheck AND (status = 'pending' OR decided_at < @closed_before) AND id > @after_id
 ORDER BY id
 LIMIT @most;

-- name: ApprovalsOverdue :many
SELECT tenant_id, id, subject_type, subject_id, run_id, workflow_id, xmin::text AS seen, expires_at FROM approvals
 WHERE (status = 'pending') IS TRUE AND expires_at < @before -- as approvals_due says it
   AND (expires_at, id) > (@after_at::timestamptz, @after_id::text)
 ORDER BY expires_at, id
 LIMIT @most;

-- name: ApprovalsUnwatched :many
SELECT tenant_id, id, subject_type, subject_id, run_id, workflow_id, xmin::text AS seen FROM approvals
 WHERE (status = 'pending') IS TRUE AND watched_at < @before -- as approvals_watched says it
 ORDER BY watched_at
 LIMIT @most;

-- name: RecheckApproval :exec
UPDATE approvals SET recheck = true WHERE tenant_id = @tenant_id AND id = @id;

-- name: ApprovalRechecked :exec
-- Removes the mark that the row had when it was read: the workflow was told. A mark that was
-- made since stays, also one of a transaction that this statement waits for.
UPDATE approvals SET recheck = (recheck AND xmin::text <> @seen::text), watched_at = now() WHERE tenant_id = @tenant_id AND id = @id;

-- name: ApprovalWatched :exec
UPDATE approvals SET watched_at = now() WHERE tenant_id = @tenant_id AND id = @id;
