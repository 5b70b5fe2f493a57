-- name: InsertApproval :exec
INSERT INTO approvals (id, tenant_id, run_id, execution_id, status, provider, verb, args, risk_level, policy_name, reason,
                       requester, expires_at)
VALUES (@id, @tenant_id, @run_id, @execution_id, @status, @provider, @verb, @args, @risk_level, @policy_name, @reason,
        sqlc.narg('requester'), sqlc.narg('expires_at'));

-- name: GetApproval :one
SELECT * FROM approvals WHERE tenant_id = @tenant_id AND id = @id;
