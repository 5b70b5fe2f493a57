-- name: AppendAudit :exec
INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, provider, verb, risk_level, decision, outcome,
                           subject_type, subject_id, execution_id, session_id, request_id, source_addr, input, details)
VALUES (@id, @tenant_id, @actor_type, @actor_id, @action, @provider, @verb, @risk_level, @decision, @outcome,
        @subject_type, @subject_id, @execution_id, sqlc.narg('session_id'), @request_id, @source_addr, sqlc.narg('input'), sqlc.narg('details'));

-- name: AppendAuditWithMap :exec
-- The record of a trigger, where the execution of a Map that it claims is fresh. provider, verb, risk_level
-- and decision are those of no call.
INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, provider, verb, risk_level, decision, outcome,
                           subject_type, subject_id, execution_id, session_id, request_id, source_addr, details)
SELECT @id, @tenant_id, @actor_type, @actor_id, @action, '', '', '', '', @outcome,
       @subject_type, @subject_id, @execution_id, sqlc.narg('session_id'), @request_id, @source_addr, sqlc.narg('details')
 WHERE EXISTS (SELECT FROM map_executions e WHERE e.tenant_id = @tenant_id AND e.id = @execution);

-- name: HasAuditRecord :one
SELECT EXISTS (SELECT FROM audit_records r WHERE r.tenant_id = @tenant_id AND r.id = @id);

-- name: BecomeTenant :exec
-- Until the transaction ends, or becomes another tenant, row-level security shows this one.
SELECT set_config('app.tenant_id', @tenant_id::text, true);

-- name: AppendAudits :exec
-- Many records of one tenant. One that a lost answer left written stays as it is.
INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, provider, verb, risk_level, decision, outcome,
                           subject_type, subject_id, execution_id, session_id, request_id, source_addr, details)
SELECT unnest(@ids::uuid[]), @tenant_id::uuid, unnest(@actor_types::text[]), unnest(@actor_ids::text[]), unnest(@actions::text[]),
       unnest(@providers::text[]), unnest(@verbs::text[]), unnest(@risk_levels::text[]), unnest(@decisions::text[]), unnest(@outcomes::text[]),
       unnest(@subject_types::text[]), unnest(@subject_ids::text[]), unnest(@execution_ids::text[]), nullif(unnest(@session_ids::text[]), ''),
       unnest(@request_ids::text[]), unnest(@source_addrs::text[]), unnest(@details::text[])::json
ON CONFLICT DO NOTHING;

-- name: AuditAppended :one
-- The tenants with records of transactions from @since on that are complete, and the
-- transaction from which the next look begins. It reads one index, and of it only what was
-- appended since.
SELECT (pg_snapshot_xmin(pg_current_snapshot())::text)::bigint AS complete,
       ARRAY(SELECT DISTINCT r.tenant_id FROM audit_records r
              WHERE r.xid >= CAST((@since::bigint)::text AS xid8) AND r.xid < pg_snapshot_xmin(pg_current_snapshot()) AND @since > 0)::uuid[] AS tenants;

-- name: AuditDue :many
-- The tenants that need a sealer, by a look at every tenant.
SELECT audit_due(@checkpointed_before)::uuid;

-- name: TryLockAuditChain :one
-- The lock lasts until the end of the transaction: a tenant has one sealer at a time.
SELECT pg_try_advisory_xact_lock(hashtextextended('audit_chain:' || @tenant_id::text, 0));

-- name: LockAuditChain :exec
SELECT pg_advisory_xact_lock(hashtextextended('audit_chain:' || @tenant_id::text, 0));

-- name: AuditHead :one
-- The state of a tenant's chain, in one row even where the chain has not begun: the last
-- seal, and the xid up to which records are sealed (mark). entered says whether mark is
-- valid: it is not in another cluster, or where xids have gone back. foreign_records says
-- that some records have xids that this cluster has not given out yet.
SELECT coalesce(s.seq, 0)::bigint AS seq, coalesce(s.hash, ''::bytea)::bytea AS hash,
       coalesce(e.entry, 0)::integer AS entry,
       coalesce(CASE WHEN s.seq > e.after_seq THEN s.xid ELSE e.mark END, '0'::xid8)::text AS mark,
       coalesce(e.cluster = audit_cluster()
                AND CASE WHEN s.seq > e.after_seq THEN s.xid ELSE e.mark END < pg_snapshot_xmax(pg_current_snapshot()), false)::boolean AS entered,
       (pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1)::bigint AS complete,
       coalesce((SELECT r.xid >= pg_snapshot_xmax(pg_current_snapshot()) FROM audit_records r
                  WHERE r.tenant_id = @tenant_id ORDER BY r.xid DESC, r.id DESC LIMIT 1), false)::boolean AS foreign_records
  FROM (SELECT 1) AS one
  LEFT JOIN LATERAL (SELECT seq, hash, xid FROM audit_seals WHERE tenant_id = @tenant_id ORDER BY seq DESC LIMIT 1) s ON true
  LEFT JOIN LATERAL (SELECT entry, cluster, mark, after_seq FROM audit_clusters WHERE tenant_id = @tenant_id ORDER BY entry DESC LIMIT 1) e ON true;

-- name: AuditToSeal :many
-- The oldest records after mark whose transactions are complete: one more than most, and
-- never only a part of a transaction.
SELECT r.id, r.tenant_id, r.at, r.actor_type, r.actor_id, r.action, r.provider, r.verb, r.risk_level, r.decision, r.outcome,
       r.subject_type, r.subject_id, r.execution_id, r.session_id, r.request_id, r.source_addr, r.input, r.details, r.xid::text AS xid
  FROM audit_records r
 WHERE r.tenant_id = @tenant_id AND r.xid > CAST(@mark::text AS xid8) AND r.xid < pg_snapshot_xmin(pg_current_snapshot())
   AND r.xid <= coalesce((
       SELECT l.xid FROM audit_records l
        WHERE l.tenant_id = @tenant_id AND l.xid > CAST(@mark::text AS xid8) AND l.xid < pg_snapshot_xmin(pg_current_snapshot())
          AND NOT EXISTS (SELECT FROM audit_seals s WHERE s.tenant_id = l.tenant_id AND s.record_id = l.id)
        ORDER BY l.xid, l.id OFFSET @most LIMIT 1), pg_snapshot_xmin(pg_current_snapshot()))
   AND NOT EXISTS (SELECT FROM audit_seals s WHERE s.tenant_id = r.tenant_id AND s.record_id = r.id)
 ORDER BY r.xid, r.id;

-- name: AuditToSealAnew :many
-- For a chain that enters a cluster: all records without a seal whose transactions are
-- complete. Records with xids that this cluster has not given out yet come first.
SELECT r.id, r.tenant_id, r.at, r.actor_type, r.actor_id, r.action, r.provider, r.verb, r.risk_level, r.decision, r.outcome,
       r.subject_type, r.subject_id, r.execution_id, r.session_id, r.request_id, r.source_addr, r.input, r.details, r.xid::text AS xid
  FROM audit_records r
 WHERE r.tenant_id = @tenant_id
   AND (r.xid <= CAST(@complete::text AS xid8) OR r.xid >= pg_snapshot_xmax(pg_current_snapshot()))
   AND NOT EXISTS (SELECT FROM audit_seals s WHERE s.tenant_id = r.tenant_id AND s.record_id = r.id)
 ORDER BY r.xid >= pg_snapshot_xmax(pg_current_snapshot()) DESC, r.xid, r.id;

-- name: AddAuditSeals :exec
INSERT INTO audit_seals (tenant_id, seq, record_id, xid, leaf, hash)
SELECT @tenant_id, generate_series(@first_seq::bigint, @last_seq::bigint), unnest(@record_ids::uuid[]), unnest(@xids::text[])::xid8,
       unnest(@leaves::bytea[]), unnest(@hashes::bytea[]);

-- name: EnterAuditCluster :exec
INSERT INTO audit_clusters (tenant_id, entry, cluster, mark, after_seq)
VALUES (@tenant_id, @entry, audit_cluster(), CAST(@mark::text AS xid8), @after_seq);

-- name: AuditSnapshot :one
-- complete: every transaction below it has ended. newest: every transaction that has begun
-- is below it.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS complete, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS newest;

-- name: LastAuditCheckpoint :one
SELECT * FROM audit_checkpoints WHERE tenant_id = @tenant_id ORDER BY seq DESC, id DESC LIMIT 1;

-- name: AddAuditCheckpoint :exec
INSERT INTO audit_checkpoints (id, tenant_id, seq, hash, kind, at, kid, signature)
VALUES (@id, @tenant_id, @seq, @hash, @kind, @at, @kid, @signature);

-- name: AuditCheckpoints :many
SELECT * FROM audit_checkpoints
 WHERE tenant_id = @tenant_id AND seq BETWEEN @first_seq AND @last_seq
 ORDER BY seq, id;

-- name: AuditSealHash :one
SELECT hash FROM audit_seals WHERE tenant_id = @tenant_id AND seq = @seq;

-- name: CountAuditRecords :one
SELECT count(*) FROM audit_records WHERE tenant_id = @tenant_id;
