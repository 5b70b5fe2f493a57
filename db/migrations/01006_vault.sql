-- +goose Up

-- Credentials.

-- Credentials of providers, sealed in two layers: ciphertext under a data key of
-- its own, that key under a key-encryption key which the database never has. Both
-- are bound to tenant, id and version.
--
-- provider is a slug and no foreign key: a credential may be stored before the
-- provider is imported, and stays when it is deleted.
CREATE TABLE credentials (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    provider      text NOT NULL COLLATE pg_catalog."C",
    type          text NOT NULL CHECK ((type IN ('api_key', 'bearer', 'basic', 'custom_header', 'schemes'))),
    label         text NOT NULL,
    customer_id   text, -- NULL: the tenant's own
    allowed_hosts text[] NOT NULL, -- empty: the host of the provider's base URL
    status        text NOT NULL CHECK ((status IN ('active', 'revoked', 'expired'))),
    version       integer NOT NULL, -- counts rotations; part of what the seal is bound to
    kek_id        text NOT NULL,
    wrapped_key   bytea NOT NULL,
    ciphertext    bytea NOT NULL,
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    last_used_at  timestamptz,
    rotated_at    timestamptz,
    -- The origin (scheme, host, port) that a credential is bound to: that of the provider's base
    -- URL when it was stored. NULL: there was no provider yet, and the credential is not sent
    -- before an origin is set.
    origin        text,
    -- When a credential expires, as its owner said; null: never. notice_at is when the tenant is told
    -- next, and in the end when it expires; null once there is nothing left to tell.
    expires_at    timestamptz,
    notice_at     timestamptz,
    schemes       json -- {name: kind}, NULL for a credential of one secret
);
CREATE INDEX credentials_by_customer ON credentials (tenant_id, customer_id, id DESC) WHERE (customer_id IS NOT NULL);
CREATE INDEX credentials_by_provider ON credentials (tenant_id, provider, created_at DESC, id DESC);
CREATE INDEX credentials_by_time ON credentials (tenant_id, id DESC);
-- Which providers are connected, for the catalog.
CREATE INDEX credentials_connected ON credentials (tenant_id, provider, created_at DESC, id DESC) WHERE ((status = 'active')
    AND (customer_id IS NULL));
CREATE INDEX credentials_notice ON credentials (notice_at) WHERE (notice_at IS NOT NULL);
ALTER TABLE credentials ENABLE ROW LEVEL SECURITY;
ALTER TABLE credentials FORCE ROW LEVEL SECURITY;
-- The job that tells reads which are due.
CREATE POLICY credentials_notice ON credentials FOR SELECT USING (((app_setting('app.sweep') = 'on') AND (notice_at IS NOT NULL)));
-- The operator's command wraps keys again under a new key-encryption key. It sees, of all
-- tenants, what is wrapped under another.
CREATE POLICY credentials_rewrap ON credentials FOR SELECT USING ((kek_id <> app_setting('app.rewrap')));
CREATE POLICY tenant ON credentials USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE CONSTRAINT TRIGGER close_gate AFTER INSERT OR DELETE ON credentials DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION close_gate();
CREATE CONSTRAINT TRIGGER close_gate_on_update AFTER UPDATE ON credentials DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((old.updated_at <> new.updated_at)) EXECUTE FUNCTION close_gate();
CREATE TRIGGER recheck_approvals AFTER INSERT OR DELETE OR UPDATE OF status ON credentials FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
GRANT SELECT,INSERT,DELETE,UPDATE ON credentials TO agentruntime_app;

-- Keyed digests of the secrets in credentials. A value in a call's arguments that has one of
-- them is a secret of the tenant, and is masked where others look. Who reads this table cannot
-- try values against it without the tenant's data key.
CREATE TABLE credential_digests (
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    digest        bytea NOT NULL, -- HMAC-SHA-256 of one value, under a key that is derived from the data key
    credential_id uuid NOT NULL REFERENCES credentials (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant_id, digest, credential_id)
);
CREATE INDEX credential_digests_by_credential ON credential_digests (credential_id);
ALTER TABLE credential_digests ENABLE ROW LEVEL SECURITY;
ALTER TABLE credential_digests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON credential_digests USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON credential_digests TO agentruntime_app;

-- +goose Down
DROP TABLE credential_digests, credentials CASCADE;
