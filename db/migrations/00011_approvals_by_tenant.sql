-- +goose Up
-- As in the other tables of a tenant, and in the order of lists, which is that of time.
-- By ids alone a list walked the approvals of all tenants, past those of others.
ALTER TABLE approvals DROP CONSTRAINT approvals_pkey, ADD PRIMARY KEY (tenant_id, id);
DROP INDEX approvals_by_time;

-- +goose Down
CREATE INDEX approvals_by_time ON approvals (tenant_id, created_at DESC, id DESC);
ALTER TABLE approvals DROP CONSTRAINT approvals_pkey, ADD PRIMARY KEY (id);
