-- name: ClaimRun :one
-- A plain repeat, by one key of a run that can answer it, is recognized before claim_run is
-- called. That halves its cost.
SELECT CASE
    WHEN cardinality(@keys::text[]) = 1 AND (
        SELECT r.state NOT IN ('blocked', 'refused') AND r.provider = @provider AND r.verb = @verb AND r.dry_run = @dry_run
          FROM runs r
         WHERE r.tenant_id = @tenant_id AND r.id = (
            SELECT k.run_id FROM run_keys k WHERE k.tenant_id = @tenant_id AND k.key = (@keys::text[])[1]))
    THEN 'existing'
    ELSE claim_run(@tenant_id, @keys::text[], @args::text, @fingerprint::bytea, @metadata::json, @call::text)
    END::text AS outcome;

-- name: RunByKey :many
-- A scalar subquery, not a join: a join is planned for the present sizes of the tables, and
-- its plan is kept when they grow.
SELECT * FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = (
    SELECT k.run_id FROM run_keys k WHERE k.tenant_id = @tenant_id AND k.key = @key);

-- name: RunByKeys :many
-- The inner SELECT makes the id a value that is known before the scan. As a bare coalesce it
-- would be no condition of an index under row-level security.
-- The run that the first key names, otherwise that of the second. A call that is refused
-- does not bind its new key to the run.
SELECT * FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = (SELECT coalesce(
    (SELECT k.run_id FROM run_keys k WHERE k.tenant_id = @tenant_id AND k.key = (@keys::text[])[1]),
    (SELECT k.run_id FROM run_keys k WHERE k.tenant_id = @tenant_id AND k.key = (@keys::text[])[2])));

-- name: GetRun :one
SELECT * FROM runs WHERE tenant_id = @tenant_id AND id = @id;

-- name: LockRun :one
-- The run is locked before its approval: every change of both takes the locks in this order.
SELECT * FROM runs WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: ListRuns :many
-- Without arguments and results: a page of them could be gigabytes. Each filter has an index
-- in the order of the list. The states that a run ends or waits in have one that is written
-- once, when the run comes into the state; the newest of each state are merged. @low and
-- @high are the ids of the period.
SELECT id, tenant_id, execution_id, claim_key, attempt, state, provider, verb, fingerprint, dry_run, session_id,
       metadata, key_id, request_id, source_addr, give_up_at, risk_level, operation_type, decision, policy_name,
       reason, approval_id, credential_id, sends, maybe_sent, provider_status, error_code, error_message,
       error_details, retryable, retry_after_ms, resolved_by, resolved_at, resolve_reason, credential_type, credential_label, cancel_requested, created_at, updated_at, sent_at,
       finished_at, held, grant_id, origin, user_id, agent_id, customer_id, parent_id, step, workflow_id, expires_at, expires_in, request_hash,
       (edited_args IS NOT NULL)::boolean AS edited
  FROM runs AS listed
 WHERE listed.tenant_id = @tenant_id
   AND (sqlc.narg('before')::uuid IS NULL OR listed.id < sqlc.narg('before'))
   AND (sqlc.narg('key_id')::uuid IS NULL OR listed.key_id = sqlc.narg('key_id'))
   AND (sqlc.narg('low')::uuid IS NULL OR listed.id >= sqlc.narg('low'))
   AND (sqlc.narg('high')::uuid IS NULL OR listed.id < sqlc.narg('high'))
   AND (sqlc.narg('provider')::text IS NULL OR listed.provider = sqlc.narg('provider'))
   AND (sqlc.narg('verb')::text IS NULL OR listed.verb = sqlc.narg('verb'))
   AND (sqlc.narg('session_id')::text IS NULL OR listed.session_id = sqlc.narg('session_id'))
   AND (sqlc.narg('since')::timestamptz IS NULL OR listed.created_at >= sqlc.narg('since'))
   AND (sqlc.narg('until')::timestamptz IS NULL OR listed.created_at < sqlc.narg('until'))
   AND (sqlc.narg('states')::text[] IS NULL OR listed.id = ANY (ARRAY(
        SELECT x.id FROM unnest(sqlc.narg('states')::text[]) AS wanted (state) CROSS JOIN LATERAL (
            SELECT r.id FROM runs r
             WHERE r.tenant_id = @tenant_id AND r.state = wanted.state AND r.state NOT IN ('claimed', 'sending')
               AND (sqlc.narg('before')::uuid IS NULL OR r.id < sqlc.narg('before'))
               AND (sqlc.narg('low')::uuid IS NULL OR r.id >= sqlc.narg('low'))
               AND (sqlc.narg('high')::uuid IS NULL OR r.id < sqlc.narg('high'))
               AND (sqlc.narg('key_id')::uuid IS NULL OR r.key_id = sqlc.narg('key_id'))
               AND (sqlc.narg('provider')::text IS NULL OR r.provider = sqlc.narg('provider'))
               AND (sqlc.narg('verb')::text IS NULL OR r.verb = sqlc.narg('verb'))
               AND (sqlc.narg('session_id')::text IS NULL OR r.session_id = sqlc.narg('session_id'))
               AND (sqlc.narg('since')::timestamptz IS NULL OR r.created_at >= sqlc.narg('since'))
               AND (sqlc.narg('until')::timestamptz IS NULL OR r.created_at < sqlc.narg('until'))
             ORDER BY r.id DESC
             LIMIT @most) x
        UNION ALL
        (SELECT r.id FROM runs r
          WHERE r.tenant_id = @tenant_id AND r.state = ANY (sqlc.narg('states')::text[]) AND r.state IN ('claimed', 'sending')
            AND (sqlc.narg('before')::uuid IS NULL OR r.id < sqlc.narg('before'))
            AND (sqlc.narg('low')::uuid IS NULL OR r.id >= sqlc.narg('low'))
            AND (sqlc.narg('high')::uuid IS NULL OR r.id < sqlc.narg('high'))
            AND (sqlc.narg('key_id')::uuid IS NULL OR r.key_id = sqlc.narg('key_id'))
            AND (sqlc.narg('provider')::text IS NULL OR r.provider = sqlc.narg('provider'))
            AND (sqlc.narg('verb')::text IS NULL OR r.verb = sqlc.narg('verb'))
            AND (sqlc.narg('session_id')::text IS NULL OR r.session_id = sqlc.narg('session_id'))
            AND (sqlc.narg('since')::timestamptz IS NULL OR r.created_at >= sqlc.narg('since'))
            AND (sqlc.narg('until')::timestamptz IS NULL OR r.created_at < sqlc.narg('until'))
          ORDER BY r.id DESC
          LIMIT @most))))
 ORDER BY listed.id DESC
 LIMIT @most;

-- name: EnterGate :exec
-- Takes the locks that a run needs before it moves to sending. The revocation of a key takes
-- the first lock exclusively, and so does every change of policies or grants (CloseGate)
-- with the second. So the statement after this one sees every change that has committed. A
-- null key takes no lock.
SELECT pg_advisory_xact_lock_shared(hashtextextended(sqlc.narg('key_id')::text, 0)),
       pg_advisory_xact_lock_shared(hashtextextended('gate:' || @tenant_id::text, 0));

-- name: CloseGate :exec
-- The last statement of a change of a policy or a grant. It waits for the runs of the tenant
-- that are moving to sending at this moment. Later runs wait for the commit, and see the
-- change.
SELECT pg_advisory_xact_lock(hashtextextended('gate:' || @tenant_id::text, 0));

-- name: MarkSending :many
-- Commits before the first byte leaves. It does not change a run whose key was revoked, that
-- was cancelled, whose time is over, or that another attempt has claimed. Nor does it if the
-- policies, the provider or the credential have changed since the run was judged. A null
-- credential has none, and a null time was not read. If the run was held, its approval must be approved and
-- be the one that the caller compared. If it uses a grant, the grant must still be valid. A
-- run already in sending, without a mark for @silent_seconds, was interrupted by a crash:
-- @resend says whether its verb may be sent again.
UPDATE runs r SET state = 'sending', sends = r.sends + 1,
       maybe_sent = r.maybe_sent OR (r.state = 'sending' AND r.operation_type = 'write'),
       in_doubt = r.in_doubt OR (r.state = 'sending' AND r.operation_type = 'write'), sent_at = coalesce(r.sent_at, now()), updated_at = now(),
       credential_id = sqlc.narg('credential_id'), credential_type = @credential_type, credential_label = @credential_label,
       request_hash = @request_hash
 WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.attempt = @attempt AND NOT r.cancel_requested
   AND (r.state = 'claimed' OR (r.state = 'sending' AND @resend::boolean AND r.updated_at <= now() - make_interval(secs => @silent_seconds::float8)))
   AND (r.key_id IS NULL OR EXISTS (
        SELECT FROM api_keys k WHERE k.tenant_id = r.tenant_id AND k.id = r.key_id AND k.revoked_at IS NULL))
   AND (r.expires_at IS NULL OR r.expires_at > now())
   AND coalesce((SELECT p.version FROM policy_sets p WHERE p.tenant_id = r.tenant_id), 0) = @policy_version
   AND (sqlc.narg('provider_at')::timestamptz IS NULL OR coalesce(
            (SELECT own.updated_at FROM providers own WHERE own.tenant_id = r.tenant_id AND own.slug = r.provider),
            (SELECT ours.updated_at FROM enabled_providers e JOIN platform_providers ours ON ours.slug = e.slug
              WHERE e.tenant_id = r.tenant_id AND e.slug = r.provider)) = sqlc.narg('provider_at'))
   AND (sqlc.narg('credential_at')::timestamptz IS NULL OR EXISTS (
        SELECT FROM credentials c WHERE c.tenant_id = r.tenant_id AND c.id = sqlc.narg('credential_id')
           AND c.updated_at = sqlc.narg('credential_at')))
   AND (NOT r.held OR r.approval_id = sqlc.narg('approval_id') AND EXISTS (
        SELECT FROM approvals a WHERE a.tenant_id = r.tenant_id AND a.id = r.approval_id AND a.status = 'approved'))
   AND (r.grant_id IS NULL OR EXISTS (
        SELECT FROM grants g WHERE g.tenant_id = r.tenant_id AND g.id = r.grant_id AND g.revoked_at IS NULL AND g.expires_at > now()))
RETURNING r.sends, r.maybe_sent, r.in_doubt;

-- name: MarkAlive :execrows
-- The process that is sending the run repeats this mark; see internal/action/run/alive.go.
UPDATE runs SET updated_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'sending';

-- name: RequireRunChanged :one
-- Undoes the transaction where it did not change the run, because another attempt was first:
-- then the audit record of the change must not stay. A row's xmin is the transaction that
-- wrote it. Times would not do: two transactions can begin in the same microsecond.
SELECT CASE
    WHEN EXISTS (SELECT FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.xmin = pg_current_xact_id()::xid) THEN true
    ELSE run_not_changed()
    END::boolean AS changed;

-- name: BackToClaimed :execrows
-- Nothing is under way at the provider, and another attempt will follow. The answer of an
-- attempt before the last one changes nothing.
UPDATE runs SET state = 'claimed', maybe_sent = maybe_sent OR @maybe_sent, in_doubt = in_doubt OR @in_doubt, updated_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'sending' AND sends = @sends;

-- name: HoldRun :many
-- Stops the run for an approver: pending_approval for a call, intercepted for a dry run. A
-- grant that it had taken, and that no longer lets it through, is not used again.
UPDATE runs SET state = @state, held = true, grant_id = NULL, approval_id = @approval_id, result = sqlc.narg('result'),
       risk_level = @risk_level, operation_type = @operation_type, decision = @decision, policy_name = @policy_name,
       reason = @reason, credential_id = sqlc.narg('credential_id'), updated_at = now(),
       finished_at = CASE WHEN @state = 'intercepted' THEN now() END
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'claimed' AND NOT cancel_requested
RETURNING *;

-- name: ReleaseRun :many
-- Lets a held run continue: to be sent, or to be judged again where @approval_id is null.
UPDATE runs SET state = 'claimed', approval_id = sqlc.narg('approval_id'), edited_args = sqlc.narg('edited_args'),
       give_up_at = @give_up_at, expires_at = @expires_at, updated_at = now(), finished_at = NULL
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state IN ('claimed', 'pending_approval', 'intercepted')
RETURNING *;

-- name: CloseHeldRun :many
-- Ends a held run without sending it. A dry run stays intercepted.
UPDATE runs SET state = CASE WHEN state = 'intercepted' THEN state ELSE @state END,
       error_code = CASE WHEN state = 'intercepted' THEN error_code ELSE @error_code END,
       error_message = CASE WHEN state = 'intercepted' THEN error_message ELSE @error_message END,
       updated_at = now(), finished_at = coalesce(finished_at, now())
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state IN ('pending_approval', 'intercepted')
RETURNING *;

-- name: HandOverRun :many
-- Names another workflow as the run's driver. Only the workflow that drives it now may do so.
UPDATE runs SET workflow_id = @workflow_id, updated_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND workflow_id IN (@driver, @workflow_id)
   AND state IN ('claimed', 'sending', 'pending_approval', 'intercepted')
RETURNING *;

-- name: LetThrough :many
-- Names the grant under which the run may be sent.
UPDATE runs SET grant_id = @grant_id, updated_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'claimed' AND NOT held
RETURNING *;

-- name: KeyRevoked :one
SELECT EXISTS (SELECT FROM api_keys k WHERE k.tenant_id = @tenant_id AND k.id = @key_id AND k.revoked_at IS NOT NULL);

-- name: RunExpired :one
-- By the clock that MarkSending goes by.
SELECT EXISTS (SELECT FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.expires_at <= now());

-- name: FinishRun :many
-- A run that is given up as lost must have been silent for @silent_seconds, by the clock that
-- marks it. The answer of an attempt before the last one ends the run only as executed: the
-- last one may still take effect.
UPDATE runs SET state = @state, result = sqlc.narg('result'), provider_status = @provider_status,
       error_code = @error_code, error_message = @error_message, error_details = sqlc.narg('error_details'),
       retryable = @retryable, retry_after_ms = @retry_after_ms, approval_id = sqlc.narg('approval_id'),
       risk_level = @risk_level, operation_type = @operation_type, decision = @decision, policy_name = @policy_name,
       reason = @reason, updated_at = now(), finished_at = now(),
       resolved_at = CASE WHEN state = 'outcome_unknown' THEN now() ELSE resolved_at END
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = ANY (@from_states::text[])
   AND (sends = @sends OR state = 'claimed' OR @state = 'executed')
   AND (state <> 'sending' OR @silent_seconds::float8 = 0 OR updated_at <= now() - make_interval(secs => @silent_seconds::float8))
RETURNING *;

-- name: RequestCancel :many
-- Cancels a run that was not sent, also one that is held, and a dry run that waits for
-- approval.
UPDATE runs r SET cancel_requested = true, state = 'cancelled', updated_at = now(), finished_at = now()
 WHERE r.tenant_id = @tenant_id AND r.id = @id AND NOT r.maybe_sent
   AND (r.state IN ('claimed', 'pending_approval') OR r.state = 'intercepted' AND EXISTS (
        SELECT FROM approvals a WHERE a.tenant_id = r.tenant_id AND a.id = r.approval_id AND a.status = 'pending'))
RETURNING *;

-- name: WithdrawRun :many
-- Cancels a claim of which nothing has come: its workflow was not started, and its caller
-- is told so.
UPDATE runs SET cancel_requested = true, state = 'cancelled', updated_at = now(), finished_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'claimed' AND sends = 0
RETURNING *;

-- name: ResolveRun :many
UPDATE runs SET state = @state, result = sqlc.narg('result'), resolve_reason = @resolve_reason, resolved_by = @resolved_by, resolved_at = now(),
       error_code = @error_code, error_message = @error_message, updated_at = now(), finished_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND state = 'outcome_unknown'
RETURNING *;

-- name: UnfinishedRuns :many
-- Across tenants, under the sweep setting: the unfinished runs that have not changed since
-- @before, after a row of the page before.
SELECT id, tenant_id, updated_at FROM runs
 WHERE state IN ('claimed', 'sending') AND updated_at < @before
   AND (updated_at, id) > (@after_at::timestamptz, @after_id::uuid)
 ORDER BY updated_at, id
 LIMIT @most;

-- name: NotifyFinished :exec
SELECT pg_notify('run_finished', id) FROM unnest(@ids::text[]) AS id;
