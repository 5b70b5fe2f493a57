-- name: ClaimRun :one
-- A plain repeat, by one key of a run that can answer it, is recognized before claim_run is
-- called. That halves its cost. With @ask, a claim that is to be driven also gets what its call
-- needs; see db/functions/call_target.sql.
SELECT claimed.outcome,
       (CASE WHEN @ask::boolean AND claimed.outcome IN ('fresh', 'reclaimed')
             THEN call_target(@tenant_id, @provider, @verb, sqlc.narg('customer')::text, sqlc.narg('credential')::uuid, @digests::bytea[]) END)::json AS target
  FROM (SELECT CASE
    WHEN cardinality(@keys::text[]) = 1 AND (
        SELECT r.state NOT IN ('blocked', 'refused') AND r.provider = @provider AND r.verb = @verb AND r.dry_run = @dry_run
          FROM runs r
         WHERE r.tenant_id = @tenant_id AND r.id = (
            SELECT k.run_id FROM run_keys k WHERE k.tenant_id = @tenant_id AND k.key = (@keys::text[])[1]))
    THEN 'existing'
    ELSE claim_run(@tenant_id, @keys::text[], @args::text, @fingerprint::bytea, @metadata::json, @call::text)
    END::text AS outcome OFFSET 0) AS claimed;

-- name: TargetOfRun :many
-- What the call of a run needs; see db/functions/call_target.sql. The customer is found as
-- Run.account does, the credential too. The arguments are not known here, so no digests are looked up.
SELECT call_target(r.tenant_id, r.provider, r.verb,
       coalesce(r.customer_id::text, CASE WHEN json_typeof(r.metadata -> 'customer_id') = 'string' THEN r.metadata ->> 'customer_id' END),
       CASE WHEN r.origin = 'map' THEN (r.metadata ->> 'credential_id')::uuid END, NULL)::json AS target
  FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @id;

-- name: RunToShow :many
-- The run that the key names, with what masking its texts takes; see db/functions/call_target.sql.
-- A scalar subquery, not a join: a join is planned for the present sizes of the tables, and
-- its plan is kept when they grow. A run with texts of more than @most bytes is not returned;
-- Postgres knows the sizes without reading the texts.
SELECT sqlc.embed(r), call_target(r.tenant_id, r.provider, r.verb,
       coalesce(r.customer_id::text, CASE WHEN json_typeof(r.metadata -> 'customer_id') = 'string' THEN r.metadata ->> 'customer_id' END),
       CASE WHEN r.origin = 'map' THEN (r.metadata ->> 'credential_id')::uuid END, sqlc.narg('digests')::bytea[])::json AS target
  FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = (
    SELECT k.run_id FROM run_keys k WHERE k.tenant_id = @tenant_id AND k.key = @key)
   AND octet_length(r.args) + coalesce(octet_length(r.edited_args), 0) + coalesce(octet_length(r.result), 0) <= @most::bigint;

-- name: RunByKeys :many
-- The inner SELECT makes the id a value that is known before the scan. As a bare coalesce it
-- would be no condition of an index under row-level security.
-- The run that the first key names, otherwise that of the second. A call that is refused
-- does not bind its new key to the run.
SELECT * FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = (SELECT coalesce(
    (SELECT k.run_id FROM run_keys k WHERE k.tenant_id = @tenant_id AND k.key = (@keys::text[])[1]),
    (SELECT k.run_id FROM run_keys k WHERE k.tenant_id = @tenant_id AND k.key = (@keys::text[])[2])))
   AND octet_length(r.args) + coalesce(octet_length(r.edited_args), 0) + coalesce(octet_length(r.result), 0) <= @most::bigint;

-- name: RunSize :many
-- The bytes of the texts of the run that RunByKeys would return.
SELECT r.execution_id, (octet_length(r.args) + coalesce(octet_length(r.edited_args), 0) + coalesce(octet_length(r.result), 0))::bigint AS size
  FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = (SELECT coalesce(
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
-- @high are the ids of the period. What changes after the claim has no index of its own, which
-- each change of a run would have to write: the runs of a policy are found by its matches (@among
-- has them where they are few), those of a grant by the records of its uses. Decision and risk are read in the order of the list.
SELECT id, tenant_id, execution_id, claim_key, attempt, state, provider, verb, fingerprint, dry_run, session_id,
       metadata, key_id, request_id, source_addr, give_up_at, risk_level, operation_type, decision, policy_name,
       reason, approval_id, credential_id, sends, maybe_sent, provider_status, error_code, error_message,
       error_details, retryable, retry_after_ms, resolved_by, resolved_at, resolve_reason, credential_type, credential_label, cancel_requested, created_at, updated_at, sent_at,
       finished_at, held, grant_id, origin, user_id, agent_id, customer_id, parent_id, step, workflow_id, driver, expires_at, expires_in, request_hash,
       erased_at, (edited_args IS NOT NULL)::boolean AS edited
  FROM runs AS listed
 WHERE listed.tenant_id = @tenant_id
   AND (sqlc.narg('before')::uuid IS NULL OR listed.id < sqlc.narg('before'))
   AND (sqlc.narg('key_id')::uuid IS NULL OR listed.key_id = sqlc.narg('key_id'))
   AND (sqlc.narg('low')::uuid IS NULL OR listed.id >= sqlc.narg('low'))
   AND (sqlc.narg('high')::uuid IS NULL OR listed.id < sqlc.narg('high'))
   AND (sqlc.narg('provider')::text IS NULL OR listed.provider = sqlc.narg('provider'))
   AND (sqlc.narg('verb')::text IS NULL OR listed.verb = sqlc.narg('verb'))
   AND (sqlc.narg('session_id')::text IS NULL OR listed.session_id = sqlc.narg('session_id'))
   AND (sqlc.narg('agent_id')::uuid IS NULL OR listed.agent_id = sqlc.narg('agent_id'))
   AND (sqlc.narg('parent_id')::text IS NULL OR listed.parent_id = sqlc.narg('parent_id'))
   AND (sqlc.narg('map_id')::text IS NULL OR listed.of_map = sqlc.narg('map_id')::text)
   AND (sqlc.narg('since')::timestamptz IS NULL OR listed.created_at >= sqlc.narg('since'))
   AND (sqlc.narg('until')::timestamptz IS NULL OR listed.created_at < sqlc.narg('until'))
   AND (sqlc.narg('dry_run')::boolean IS NULL OR listed.dry_run = sqlc.narg('dry_run'))
   AND (sqlc.narg('customer')::text IS NULL OR listed.named_customer = sqlc.narg('customer'))
   AND (sqlc.narg('decision')::text IS NULL OR listed.decision = sqlc.narg('decision'))
   AND (sqlc.narg('risk_level')::text IS NULL OR listed.risk_level = sqlc.narg('risk_level'))
   AND (sqlc.narg('approval_id')::text IS NULL OR listed.id = (SELECT p.run_id FROM approvals p WHERE p.tenant_id = @tenant_id AND p.id = sqlc.narg('approval_id')))
   AND (sqlc.narg('grant_id')::uuid IS NULL OR listed.grant_id = sqlc.narg('grant_id'))
   AND (sqlc.narg('policy_id')::uuid IS NULL OR (SELECT true FROM policy_matches m WHERE m.tenant_id = @tenant_id AND m.policy_id = sqlc.narg('policy_id') AND m.run_id = listed.id LIMIT 1))
   AND (sqlc.narg('among')::uuid[] IS NULL OR listed.id = ANY (sqlc.narg('among')::uuid[]))
   AND (sqlc.narg('grant_id')::uuid IS NULL OR listed.id = ANY (ARRAY(
        SELECT k.run_id FROM audit_records u JOIN run_keys k ON k.tenant_id = u.tenant_id AND k.key = u.execution_id
         WHERE u.tenant_id = @tenant_id AND u.subject_id = sqlc.narg('grant_id')::uuid::text AND u.action = 'grant.used')))
   AND (sqlc.narg('states')::text[] IS NULL OR listed.id = ANY (ARRAY(
        SELECT x.id FROM unnest(sqlc.narg('states')::text[]) AS wanted (state) CROSS JOIN LATERAL (
            SELECT r.id FROM runs r
             WHERE r.tenant_id = @tenant_id AND r.listed_state = wanted.state
               AND (sqlc.narg('before')::uuid IS NULL OR r.id < sqlc.narg('before'))
               AND (sqlc.narg('low')::uuid IS NULL OR r.id >= sqlc.narg('low'))
               AND (sqlc.narg('high')::uuid IS NULL OR r.id < sqlc.narg('high'))
               AND (sqlc.narg('key_id')::uuid IS NULL OR r.key_id = sqlc.narg('key_id'))
               AND (sqlc.narg('provider')::text IS NULL OR r.provider = sqlc.narg('provider'))
               AND (sqlc.narg('verb')::text IS NULL OR r.verb = sqlc.narg('verb'))
               AND (sqlc.narg('session_id')::text IS NULL OR r.session_id = sqlc.narg('session_id'))
               AND (sqlc.narg('agent_id')::uuid IS NULL OR r.agent_id = sqlc.narg('agent_id'))
               AND (sqlc.narg('parent_id')::text IS NULL OR r.parent_id = sqlc.narg('parent_id'))
               AND (sqlc.narg('map_id')::text IS NULL OR r.of_map = sqlc.narg('map_id')::text)
               AND (sqlc.narg('since')::timestamptz IS NULL OR r.created_at >= sqlc.narg('since'))
               AND (sqlc.narg('until')::timestamptz IS NULL OR r.created_at < sqlc.narg('until'))
               AND (sqlc.narg('dry_run')::boolean IS NULL OR r.dry_run = sqlc.narg('dry_run'))
               AND (sqlc.narg('customer')::text IS NULL OR r.named_customer = sqlc.narg('customer'))
               AND (sqlc.narg('decision')::text IS NULL OR r.decision = sqlc.narg('decision'))
               AND (sqlc.narg('risk_level')::text IS NULL OR r.risk_level = sqlc.narg('risk_level'))
               AND (sqlc.narg('approval_id')::text IS NULL OR r.id = (SELECT p.run_id FROM approvals p WHERE p.tenant_id = @tenant_id AND p.id = sqlc.narg('approval_id')))
               AND (sqlc.narg('grant_id')::uuid IS NULL OR r.grant_id = sqlc.narg('grant_id'))
               AND (sqlc.narg('policy_id')::uuid IS NULL OR (SELECT true FROM policy_matches m WHERE m.tenant_id = @tenant_id AND m.policy_id = sqlc.narg('policy_id') AND m.run_id = r.id LIMIT 1))
             ORDER BY r.id DESC
             LIMIT @most) x
        UNION ALL
        (SELECT r.id FROM runs r
          WHERE r.tenant_id = @tenant_id AND r.listed_state IS NULL AND r.state = ANY (sqlc.narg('states')::text[])
            AND (sqlc.narg('before')::uuid IS NULL OR r.id < sqlc.narg('before'))
            AND (sqlc.narg('low')::uuid IS NULL OR r.id >= sqlc.narg('low'))
            AND (sqlc.narg('high')::uuid IS NULL OR r.id < sqlc.narg('high'))
            AND (sqlc.narg('key_id')::uuid IS NULL OR r.key_id = sqlc.narg('key_id'))
            AND (sqlc.narg('provider')::text IS NULL OR r.provider = sqlc.narg('provider'))
            AND (sqlc.narg('verb')::text IS NULL OR r.verb = sqlc.narg('verb'))
            AND (sqlc.narg('session_id')::text IS NULL OR r.session_id = sqlc.narg('session_id'))
            AND (sqlc.narg('agent_id')::uuid IS NULL OR r.agent_id = sqlc.narg('agent_id'))
            AND (sqlc.narg('parent_id')::text IS NULL OR r.parent_id = sqlc.narg('parent_id'))
            AND (sqlc.narg('map_id')::text IS NULL OR r.of_map = sqlc.narg('map_id')::text)
            AND (sqlc.narg('since')::timestamptz IS NULL OR r.created_at >= sqlc.narg('since'))
            AND (sqlc.narg('until')::timestamptz IS NULL OR r.created_at < sqlc.narg('until'))
            AND (sqlc.narg('dry_run')::boolean IS NULL OR r.dry_run = sqlc.narg('dry_run'))
            AND (sqlc.narg('customer')::text IS NULL OR r.named_customer = sqlc.narg('customer'))
            AND (sqlc.narg('decision')::text IS NULL OR r.decision = sqlc.narg('decision'))
            AND (sqlc.narg('risk_level')::text IS NULL OR r.risk_level = sqlc.narg('risk_level'))
            AND (sqlc.narg('approval_id')::text IS NULL OR r.id = (SELECT p.run_id FROM approvals p WHERE p.tenant_id = @tenant_id AND p.id = sqlc.narg('approval_id')))
            AND (sqlc.narg('grant_id')::uuid IS NULL OR r.grant_id = sqlc.narg('grant_id'))
            AND (sqlc.narg('policy_id')::uuid IS NULL OR (SELECT true FROM policy_matches m WHERE m.tenant_id = @tenant_id AND m.policy_id = sqlc.narg('policy_id') AND m.run_id = r.id LIMIT 1))
          ORDER BY r.id DESC
          LIMIT @most))))
 ORDER BY listed.id DESC
 LIMIT @most;

-- name: RunsNamed :many
-- Runs of which a name is in a range, in the order of the names.
SELECT k.run_id FROM run_keys k WHERE k.tenant_id = @tenant_id AND k.key >= @low::text AND k.key < @high::text ORDER BY k.key LIMIT @most;

-- name: RunsOfPolicy :many
-- The newest runs that the policy matched, before a run and within a period; once for each
-- attempt.
SELECT m.run_id FROM policy_matches m
 WHERE m.tenant_id = @tenant_id AND m.policy_id = @policy_id
   AND (sqlc.narg('before')::uuid IS NULL OR m.run_id < sqlc.narg('before'))
   AND (sqlc.narg('low')::uuid IS NULL OR m.run_id >= sqlc.narg('low'))
   AND (sqlc.narg('high')::uuid IS NULL OR m.run_id < sqlc.narg('high'))
 ORDER BY m.run_id DESC
 LIMIT @most;

-- name: EnterGate :exec
-- Takes the locks that a run needs before it moves to sending. The revocation of a key takes
-- the first lock exclusively, and so does every change of policies, grants or kill switches
-- (CloseGate) with the second. A change of a platform's provider takes the third. So the statement after
-- this one sees every change that has committed. The fourth is exclusive: of two equal calls that are
-- compared (@equal), the later one sees that the other is sending. It is the last, so that who has it waits
-- for none of the others. A null takes no lock.
SELECT pg_advisory_xact_lock_shared(hashtextextended(sqlc.narg('key_id')::text, 0)),
       pg_advisory_xact_lock_shared(hashtextextended('gate:' || @tenant_id::text, 0)),
       pg_advisory_xact_lock_shared(hashtextextended('platform gate:' || @provider::text, 0)),
       pg_advisory_xact_lock(hashtextextended('equal:' || @tenant_id::text || encode(sqlc.narg('equal')::bytea, 'hex'), 0));

-- name: CloseGate :exec
-- The last statement of a change of a policy or a grant, or of a new kill switch. It waits for the runs of the tenant
-- that are moving to sending at this moment. Later runs wait for the commit, and see the
-- change.
SELECT pg_advisory_xact_lock(hashtextextended('gate:' || @tenant_id::text, 0));

-- name: MarkSending :many
-- Commits before the first byte leaves. It does not change a run that was cancelled or that another
-- attempt has claimed, nor one that the gate does not let through; see db/functions/gate_is_open.sql. With the
-- fingerprint @equal it does not change one whose chain has an equal write that is not settled.
-- If the run was held, its approval must be approved and be the one that the caller compared. If it
-- uses a grant, the grant must still be valid. A run already in sending, without a mark for
-- @silent_seconds, was interrupted by a crash: @resend says whether its verb may be sent again.
-- OFFSET 0 keeps each EXISTS a look-up: without it, a plan for small tables reads all rows of
-- the tenant into a hash table.
UPDATE runs r SET state = 'sending', sends = r.sends + 1,
       maybe_sent = r.maybe_sent OR (r.state = 'sending' AND r.operation_type = 'write'),
       in_doubt = r.in_doubt OR (r.state = 'sending' AND r.operation_type = 'write'), sent_at = coalesce(r.sent_at, now()), updated_at = now(),
       credential_id = sqlc.narg('credential_id'), credential_type = @credential_type, credential_label = @credential_label,
       request_hash = @request_hash, normalizer = sqlc.narg('normalizer'), windowed = r.windowed OR @windowed::boolean
 WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.attempt = @attempt AND NOT r.cancel_requested
   AND (r.state = 'claimed' OR (r.state = 'sending' AND @resend::boolean AND r.updated_at <= now() - make_interval(secs => @silent_seconds::float8)))
   AND gate_is_open(r.tenant_id, r.provider, r.key_id, r.expires_at, @policy_version::bigint, sqlc.narg('provider_at')::timestamptz,
                    sqlc.narg('credential_id'), sqlc.narg('credential_at')::timestamptz, @covers::text[], @probe::boolean)
   AND (sqlc.narg('equal')::bytea IS NULL OR NOT EXISTS (SELECT FROM unsettled_call(r.tenant_id, sqlc.narg('equal')::bytea, r.parent_id, r.unsettled = 'others')))
   AND (NOT r.held OR r.approval_id = sqlc.narg('approval_id') AND EXISTS (
        SELECT FROM approvals a WHERE a.tenant_id = r.tenant_id AND a.id = r.approval_id AND a.status = 'approved' OFFSET 0))
   AND (r.grant_id IS NULL OR EXISTS (
        SELECT FROM grants g WHERE g.tenant_id = r.tenant_id AND g.id = r.grant_id AND g.revoked_at IS NULL AND g.expires_at > now() OFFSET 0))
RETURNING r.sends, r.maybe_sent, r.in_doubt;

-- name: UnsettledCall :many
-- The equal write because of which MarkSending has not changed a run.
SELECT u.execution_id::text AS execution_id, u.under_way::boolean AS under_way
  FROM unsettled_call(@tenant_id, @fingerprint, @parent, @others::boolean) u;

-- name: RequireSendingAhead :one
-- Undoes a claim with the mark of sending that was judged before it was made, where it is not the claim of
-- a new run, or the gate does not let it through, or an equal write is not settled (@equal, see MarkSending), or
-- the call would use another credential now (@newest, null where the step names one or there is none). It
-- chooses as NewestCredential does for a call without a customer. A write is counted in the budgets, as by
-- RequireSending.
SELECT CASE
    WHEN (SELECT r.xmin = pg_current_xact_id()::xid AND r.state = 'sending'
             AND gate_is_open(r.tenant_id, r.provider, r.key_id, r.expires_at, @policy_version::bigint, sqlc.narg('provider_at')::timestamptz,
                              r.credential_id, sqlc.narg('credential_at')::timestamptz, @covers::text[], false)
             AND (sqlc.narg('equal')::bytea IS NULL OR NOT EXISTS (SELECT FROM unsettled_call(r.tenant_id, sqlc.narg('equal')::bytea, r.parent_id, r.unsettled = 'others')))
            FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @id) IS NOT TRUE THEN run_not_changed()
    WHEN sqlc.narg('newest')::uuid IS NOT NULL AND (
        SELECT c.id FROM credentials c
         WHERE c.tenant_id = @tenant_id AND c.provider = @provider AND c.status IN ('active', 'expired') AND c.customer_id IS NULL
         ORDER BY (c.status = 'active') DESC, c.created_at DESC, c.id DESC LIMIT 1) IS DISTINCT FROM sqlc.narg('newest')::uuid THEN run_not_changed()
    WHEN @is_write::boolean AND EXISTS (SELECT FROM budgets b WHERE b.tenant_id = @tenant_id AND b.measure = 'write_calls') THEN take_write_call(@tenant_id, @id)
    ELSE false
    END::boolean AS counted;

-- name: MarkAlive :execrows
-- The process that is sending the run repeats this mark; see internal/action/run/alive.go.
UPDATE runs SET updated_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'sending';

-- name: KeepLookups :one
-- The answers of look-ups, for a run that is not sent yet or may be sent again. It returns how many
-- rows it has changed. A pause until the next attempt goes on from updated_at, so that stays.
WITH kept AS (
    UPDATE runs SET lookups = @lookups
     WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state IN ('claimed', 'sending')
    RETURNING 1)
SELECT count(*) FROM kept;

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
-- attempt before the last one changes nothing. The pause until the next begins now, and a step
-- that is repeated reads it here.
UPDATE runs SET state = 'claimed', retry_after_ms = @pause_ms, maybe_sent = maybe_sent OR @maybe_sent, in_doubt = in_doubt OR @in_doubt, updated_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'sending' AND sends = @sends;

-- name: HoldRun :many
-- Stops the run for an approver: pending_approval for a call, intercepted for a dry run. A
-- grant that it had taken, and that no longer lets it through, is not used again.
UPDATE runs SET state = @state, held = true, grant_id = NULL, retry_after_ms = 0, approval_id = @approval_id, result = sqlc.narg('result'),
       risk_level = @risk_level, operation_type = @operation_type, decision = @decision, policy_name = @policy_name,
       reason = @reason, credential_id = sqlc.narg('credential_id'), updated_at = now(),
       finished_at = CASE WHEN @state = 'intercepted' THEN now() END
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'claimed' AND NOT cancel_requested
RETURNING *;

-- name: ReleaseRun :many
-- Lets a held run continue: to be sent, or to be judged again where @approval_id is null.
UPDATE runs SET state = 'claimed', lookups = NULL, approval_id = sqlc.narg('approval_id'), edited_args = sqlc.narg('edited_args'), sent_fingerprint = sqlc.narg('sent_fingerprint'),
       give_up_at = @give_up_at, expires_at = @expires_at, updated_at = now(), finished_at = NULL
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state IN ('claimed', 'pending_approval', 'intercepted')
RETURNING *;

-- name: CloseHeldRun :many
-- Ends a held run without sending it. A dry run stays intercepted.
UPDATE runs SET state = CASE WHEN state = 'intercepted' THEN state ELSE @state END,
       error_code = CASE WHEN state = 'intercepted' THEN error_code ELSE @error_code END,
       error_message = CASE WHEN state = 'intercepted' THEN error_message ELSE @error_message END,
       lookups = NULL, updated_at = now(), finished_at = coalesce(finished_at, now())
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state IN ('pending_approval', 'intercepted')
RETURNING *;

-- name: HandOverRun :many
-- Gives the run to a workflow of its own. Only the workflow that drives it now may do so.
UPDATE runs SET workflow_id = @workflow_id, driver = 'run', updated_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND workflow_id IN (@parent, @workflow_id)
   AND state IN ('claimed', 'sending', 'pending_approval', 'intercepted')
RETURNING *;

-- name: LetThrough :many
-- Names the grant under which the run may be sent.
UPDATE runs SET grant_id = @grant_id, updated_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'claimed' AND NOT held
RETURNING *;

-- name: DryRunsOf :many
-- The writes of a dry run of a goal, with what people decide about each. With @bare the arguments are not read.
SELECT r.id, r.execution_id, r.state, r.provider, r.verb, coalesce(r.step, '')::text AS step, r.error_code, a.id AS approval_id, a.status AS approval_status,
       (CASE WHEN @bare::boolean THEN '{}' ELSE a.args END)::text AS args, a.expires_at, a.decided_by, a.closed_reason
  FROM runs r JOIN approvals a ON a.tenant_id = r.tenant_id AND a.id = r.approval_id
 WHERE r.tenant_id = @tenant_id AND r.id = ANY (@ids::uuid[]) AND r.dry_run
 ORDER BY r.id;

-- name: KeyRevoked :one
-- Revoked keys are forgotten after a time, so a key without a row is one.
SELECT (NOT EXISTS (SELECT FROM api_keys k WHERE k.tenant_id = @tenant_id AND k.id = @key_id AND k.revoked_at IS NULL))::boolean AS revoked;

-- name: ProlongRun :exec
-- A run that waits for a kill switch to be lifted loses no time: it gets back what has passed since
-- its row was written. What was looked up before does not count after the wait.
UPDATE runs SET expires_at = expires_at + (now() - updated_at), updated_at = now(), lookups = CASE WHEN maybe_sent THEN lookups END
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'claimed';

-- name: RunExpired :one
-- By the clock that MarkSending goes by.
SELECT EXISTS (SELECT FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.expires_at <= now());

-- name: FinishRun :many
-- A run that is given up as lost must have been silent for @silent_seconds, by the clock that
-- marks it. The answer of an attempt before the last one ends the run only as executed: the
-- last one may still take effect.
UPDATE runs SET state = @state, lookups = NULL, trusted = @trusted, result = sqlc.narg('result'), result_note = sqlc.narg('result_note'), provider_status = @provider_status, provider_error = sqlc.narg('provider_error'),
       error_code = @error_code, error_message = @error_message, error_details = sqlc.narg('error_details'),
       retryable = @retryable, retry_after_ms = @retry_after_ms, approval_id = sqlc.narg('approval_id'),
       risk_level = @risk_level, operation_type = @operation_type, decision = @decision, policy_name = @policy_name,
       reason = @reason, updated_at = now(), finished_at = now(),
       resolved_at = CASE WHEN state = 'outcome_unknown' THEN now() ELSE resolved_at END
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = ANY (@from_states::text[])
   AND (sends = @sends OR state = 'claimed' OR @state = 'executed')
   AND (state <> 'sending' OR @silent_seconds::float8 = 0 OR updated_at <= now() - make_interval(secs => @silent_seconds::float8))
RETURNING *;

-- name: AwaitRun :exec
-- Locks the run for a statement that looks at its approval too. That statement would not see a
-- decision that was committed while it waited for the run itself.
SELECT FROM runs WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: RequestCancel :many
-- Cancels a run that was not sent, also one that is held, and a dry run that waits for
-- approval.
UPDATE runs r SET cancel_requested = true, state = 'cancelled', lookups = NULL, updated_at = now(), finished_at = now()
 WHERE r.tenant_id = @tenant_id AND r.id = @id AND NOT r.maybe_sent
   AND (r.state IN ('claimed', 'pending_approval') OR r.state = 'intercepted' AND EXISTS (
        SELECT FROM approvals a WHERE a.tenant_id = r.tenant_id AND a.id = r.approval_id AND a.status = 'pending'))
RETURNING *;

-- name: WithdrawRun :many
-- Cancels a claim of which nothing has come: its workflow was not started, and its caller
-- is told so.
UPDATE runs SET cancel_requested = true, state = 'cancelled', lookups = NULL, updated_at = now(), finished_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND state = 'claimed' AND sends = 0
RETURNING *;

-- name: ResolveRun :many
-- A run whose result was erased gets no new one. @trusted is of what was found; NULL leaves it as it is.
UPDATE runs SET state = @state, trusted = coalesce(sqlc.narg('trusted'), trusted), result = CASE WHEN erased_at IS NULL THEN sqlc.narg('result') END, resolve_reason = @resolve_reason, resolved_by = @resolved_by, resolved_at = now(),
       error_code = @error_code, error_message = @error_message, updated_at = now(), finished_at = now()
 WHERE tenant_id = @tenant_id AND id = @id AND state = 'outcome_unknown'
RETURNING *;

-- name: DriversOfRun :many
-- The workflows that wait for the end of a run: its own, and the one in which the execution or the message
-- goes on that it is a step of. After a retry of the execution, or an approval, these are two.
SELECT r.workflow_id FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @id
UNION
SELECT m.workflow_id FROM map_executions m
 WHERE m.tenant_id = @tenant_id AND m.execution_id = (SELECT r.parent_id FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @id)
UNION
SELECT t.workflow_id FROM turns t
 WHERE t.tenant_id = @tenant_id AND t.execution_id = (SELECT r.parent_id FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @id);

-- name: UnfinishedRuns :many
-- Across tenants, under the sweep setting: the unfinished runs that have not changed since
-- @before, after a row of the page before.
SELECT id, tenant_id FROM runs
 WHERE listed_state IS NULL AND updated_at < @before AND (tenant_id, id) > (@after_tenant::uuid, @after_id::uuid)
 ORDER BY tenant_id, id
 LIMIT @most;

-- name: NotifyFinished :exec
-- The events of these runs are committed too, so their tenants' streams are told.
SELECT pg_notify('run_finished', id), pg_notify('events', split_part(id, ' ', 1)) FROM unnest(@ids::text[]) AS id;

-- name: RunsToErase :many
-- The runs of a customer that began before @before and have ended. One whose call a person can
-- still release has not.
SELECT found.id, found.execution_id FROM unnest(@names::text[]) AS named (name) CROSS JOIN LATERAL (
    SELECT r.id, r.execution_id FROM runs r
     WHERE r.tenant_id = @tenant_id AND r.named_customer = named.name AND r.id < @before::uuid
       AND r.state NOT IN ('claimed', 'sending', 'pending_approval')
       AND NOT (r.state = 'intercepted' AND EXISTS (
            SELECT FROM approvals a WHERE a.tenant_id = @tenant_id AND a.id = r.approval_id AND (a.status = 'pending') IS TRUE))
     ORDER BY r.id DESC
     LIMIT @most::bigint) AS found
 LIMIT @most::bigint;

-- name: RunsOfCustomerLeft :one
SELECT EXISTS (SELECT FROM unnest(@names::text[]) AS named (name) CROSS JOIN LATERAL (
    SELECT FROM runs r WHERE r.tenant_id = @tenant_id AND r.named_customer = named.name AND r.id < @before::uuid LIMIT 1) AS found);

-- name: EraseRuns :execrows
-- The fingerprint stays, which is keyed: a repeat of the call must not run again. The states are
-- looked at again: a refused run may have been claimed again since it was found.
UPDATE runs SET args = '', edited_args = CASE WHEN edited_args IS NOT NULL THEN '' END, result = NULL, result_note = NULL, provider_error = NULL, lookups = NULL, normalizer = NULL, erased_at = coalesce(erased_at, @erased_at::timestamptz),
       metadata = '{}', error_details = NULL, resolve_reason = '', credential_label = ''
 WHERE tenant_id = @tenant_id AND id = ANY (@ids::uuid[])
   AND state IN ('blocked', 'cancelled', 'executed', 'expired', 'failed', 'intercepted', 'outcome_unknown', 'refused', 'rejected');

-- name: EraseApprovals :execrows
UPDATE approvals SET args = '{}', explanation = '[]', request = NULL
 WHERE tenant_id = @tenant_id AND execution_id = ANY (@execution_ids::text[]);

-- name: EraseEdits :exec
UPDATE approval_decisions AS d SET edited_args = NULL, response = NULL
 WHERE d.tenant_id = @tenant_id AND (d.edited_args IS NOT NULL OR d.response IS NOT NULL) AND d.approval_id = ANY (ARRAY(
    SELECT a.id FROM approvals a WHERE a.tenant_id = @tenant_id AND a.execution_id = ANY (@execution_ids::text[])));

-- name: TenantsToLook :many
-- Which tenants there are, after an id, and which of them may have results to erase.
SELECT t.id, coalesce(e.look_at <= @now::timestamptz, true)::boolean AS due
  FROM tenants t LEFT JOIN LATERAL (SELECT r.look_at FROM run_erasures r WHERE r.tenant_id = t.id LIMIT 1) e ON true
 WHERE t.id > @after::uuid ORDER BY t.id LIMIT @most;

-- name: BeginErasing :exec
INSERT INTO run_erasures (tenant_id, look_at) VALUES (@tenant_id, @now::timestamptz) ON CONFLICT DO NOTHING;

-- name: LockErasing :one
-- No row while another process is at the tenant, and where one has been there since.
SELECT erased_to FROM run_erasures WHERE tenant_id = @tenant_id AND look_at <= @now::timestamptz FOR UPDATE SKIP LOCKED;

-- name: OldRuns :many
-- Those after the place up to which all were looked at, in the order of their ids.
SELECT r.id, r.execution_id, (r.erased_at IS NOT NULL)::boolean AS erased FROM runs r
 WHERE r.tenant_id = @tenant_id AND r.id > @after::uuid AND r.id < @before::uuid ORDER BY r.id LIMIT @most;

-- name: LeftRuns :many
SELECT l.run_id AS id, r.execution_id, (r.erased_at IS NOT NULL)::boolean AS erased
  FROM (SELECT q.run_id FROM runs_left q WHERE q.tenant_id = @tenant_id AND q.look_at <= @now::timestamptz ORDER BY q.look_at LIMIT @most) l
 CROSS JOIN LATERAL (SELECT * FROM runs x WHERE x.tenant_id = @tenant_id AND x.id = l.run_id LIMIT 1) r;

-- name: EraseOldRuns :many
-- Those of the runs that ended before @ended_before. One whose call a person can still release has
-- not ended. The Map or the message that has made the call reads its result until it has ended itself,
-- and a Map that has failed until it is erased: it may be retried.
-- What is locked is left for later. Customer and labels stay, so lists find the run.
UPDATE runs r SET args = '', edited_args = CASE WHEN r.edited_args IS NOT NULL THEN '' END, result = NULL, result_note = NULL, provider_error = NULL, lookups = NULL, normalizer = NULL, error_details = NULL, erased_at = @now::timestamptz
 WHERE r.tenant_id = @tenant_id AND r.erased_at IS NULL AND coalesce(r.finished_at, r.updated_at) < @ended_before::timestamptz
   AND r.id = ANY (ARRAY(SELECT f.id FROM runs f WHERE f.tenant_id = @tenant_id AND f.id = ANY (@ids::uuid[]) FOR UPDATE SKIP LOCKED))
   AND r.state IN ('blocked', 'cancelled', 'executed', 'expired', 'failed', 'intercepted', 'outcome_unknown', 'refused', 'rejected')
   AND NOT (r.state = 'intercepted' AND EXISTS (
        SELECT FROM approvals a WHERE a.tenant_id = @tenant_id AND a.id = r.approval_id AND (a.status = 'pending') IS TRUE OFFSET 0))
   AND NOT (r.parent_id IS NOT NULL AND (
        EXISTS (SELECT FROM map_executions m WHERE m.tenant_id = @tenant_id AND m.execution_id = r.parent_id
                   AND (m.finished_at IS NULL OR m.status = 'failed' AND m.erased_at IS NULL) OFFSET 0)
        OR EXISTS (SELECT FROM turns t WHERE t.tenant_id = @tenant_id AND t.execution_id = r.parent_id AND t.finished_at IS NULL OFFSET 0)))
RETURNING r.id, r.execution_id;

-- name: LeaveRuns :exec
INSERT INTO runs_left (tenant_id, run_id, look_at) SELECT @tenant_id, left_id, @look_at::timestamptz FROM unnest(@ids::uuid[]) AS left_id
ON CONFLICT (tenant_id, run_id) DO UPDATE SET look_at = excluded.look_at;

-- name: RunsNotLeft :exec
DELETE FROM runs_left WHERE tenant_id = @tenant_id AND run_id = ANY (@ids::uuid[]);

-- name: ErasedTo :exec
UPDATE run_erasures SET erased_to = @erased_to, look_at = @look_at WHERE tenant_id = @tenant_id;
