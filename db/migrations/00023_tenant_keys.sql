-- +goose Up

-- The data key of each tenant, sealed under a key-encryption key which the database never has.
-- The arguments and results of its runs are sealed under the data key. See docs/at-rest.md.
-- A tenant's key is made when it is first needed, and stays: only its wrapping changes.
CREATE TABLE tenant_keys (
    tenant_id   uuid PRIMARY KEY REFERENCES tenants (id),
    kek_id      text NOT NULL, -- which key-encryption key
    wrapped_key bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    wrapped_at  timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE tenant_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenant_keys USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE (kek_id, wrapped_key, wrapped_at) ON tenant_keys TO agentruntime_app;

-- +goose Down
DROP TABLE tenant_keys;
