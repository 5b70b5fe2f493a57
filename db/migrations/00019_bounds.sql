-- +goose Up

-- What a tenant can create is counted where it is created; see internal/record/quota.
CREATE INDEX approvals_waiting ON approvals (tenant_id, kind) WHERE status = 'pending';

-- A row that readyz writes, to learn whether the database takes writes. It belongs to no tenant.
CREATE TABLE heartbeats (
    name text PRIMARY KEY,
    at   timestamptz NOT NULL
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE ON heartbeats TO agentruntime_app;

-- +goose Down
DROP TABLE heartbeats;
DROP INDEX approvals_waiting;
