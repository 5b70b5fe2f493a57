-- name: AppendAudit :exec
INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, provider, verb, risk_level, decision, outcome,
                           subject_type, subject_id, execution_id, session_id, request_id, source_addr, input, details)
VALUES (@id, @tenant_id, @actor_type, @actor_id, @action, @provider, @verb, @risk_level, @decision, @outcome,
        @subject_type, @subject_id, @execution_id, sqlc.narg('session_id'), @request_id, @source_addr, sqlc.narg('input'), sqlc.narg('details'));
