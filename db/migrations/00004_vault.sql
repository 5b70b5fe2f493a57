-- +goose Up

-- Credentials of providers, sealed in two layers: ciphertext under a data key of
-- its own, that key under a key-encryption key which the database never has. Both
-- are bound to tenant, id and version.
--
-- provider is a slug and no foreign key: a credential may be stored before the
-- provider is imported, and stays when it is deleted.
CREATE TABLE credentials (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    provider      text COLLATE "C" NOT NULL,
    type          text NOT NULL CHECK (type IN ('api_key', 'bearer', 'basic', 'custom_header')),
    label         text NOT NULL,
    customer_id   text, -- NULL: the tenant's own
    allowed_hosts text[] NOT NULL, -- empty: the host of the provider's base URL
    status        text NOT NULL CHECK (status IN ('active', 'revoked', 'expired')),
    version       integer NOT NULL, -- counts rotations; part of what the seal is bound to
    kek_id        text NOT NULL,
    wrapped_key   bytea NOT NULL,
    ciphertext    bytea NOT NULL,
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    last_used_at  timestamptz,
    rotated_at    timestamptz
);
CREATE INDEX credentials_by_time ON credentials (tenant_id, id DESC);
CREATE INDEX credentials_by_provider ON credentials (tenant_id, provider, created_at DESC, id DESC);
-- Which providers are connected, for the catalog.
CREATE INDEX credentials_connected ON credentials (tenant_id, provider) WHERE status = 'active' AND customer_id IS NULL;
ALTER TABLE credentials ENABLE ROW LEVEL SECURITY;
ALTER TABLE credentials FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON credentials USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON credentials TO agentruntime_app;

-- +goose Down
DROP TABLE credentials;
