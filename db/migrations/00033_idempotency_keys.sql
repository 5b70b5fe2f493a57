-- +goose Up

-- What a creation with an Idempotency-Key has made. The row is written in the transaction of
-- the creation, so there is one exactly where there is the other. Keys and bodies are hashed:
-- a body may contain a secret.
CREATE TABLE idempotency_keys (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    endpoint    text NOT NULL, -- as POST /v1/grants
    caller_kind text NOT NULL CHECK (caller_kind IN ('key', 'user')),
    key_hash    bytea NOT NULL CHECK (length(key_hash) = 32),
    body_hash   bytea NOT NULL CHECK (length(body_hash) = 32),
    resource_id text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, endpoint, caller_kind, key_hash)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_tenant_age ON idempotency_keys (tenant_id, created_at);
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON idempotency_keys USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON idempotency_keys FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_delete ON idempotency_keys FOR DELETE USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, DELETE ON idempotency_keys TO agentruntime_app;

-- +goose Down
DROP TABLE idempotency_keys;
