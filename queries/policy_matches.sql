-- name: InsertPolicyMatch :exec
-- A step that a crash repeats says the same again.
INSERT INTO policy_matches (tenant_id, policy_id, run_id, attempt, policy_version, mode, action, decided, decision, shadow)
VALUES (@tenant_id, @policy_id, @run_id, @attempt, @policy_version, @mode, @action, @decided, @decision, @shadow)
ON CONFLICT ON CONSTRAINT policy_matches_pkey DO NOTHING;
