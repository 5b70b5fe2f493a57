-- What a tenant can create is counted where it is created; see internal/record/quota.
-- +goose Up
CREATE INDEX approvals_waiting ON approvals (tenant_id, kind) WHERE status = 'pending';

-- +goose Down
DROP INDEX approvals_waiting;
