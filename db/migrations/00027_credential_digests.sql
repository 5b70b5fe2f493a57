-- +goose Up

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
CREATE POLICY tenant ON credential_digests USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE ON credential_digests TO agentruntime_app;

-- A worker makes the digests of credentials that were stored before.
ALTER TABLE credentials ADD COLUMN digested boolean NOT NULL DEFAULT false;
CREATE INDEX credentials_undigested ON credentials (id) WHERE NOT digested;
CREATE POLICY credentials_sweep ON credentials FOR SELECT USING (app_setting('app.sweep') = 'on' AND NOT digested);

-- The operator's command wraps keys again under a new key-encryption key. It sees, of all
-- tenants, what is wrapped under another.
CREATE POLICY credentials_rewrap ON credentials FOR SELECT USING (kek_id <> app_setting('app.rewrap'));
CREATE POLICY tenant_keys_rewrap ON tenant_keys FOR SELECT USING (kek_id <> app_setting('app.rewrap'));

-- +goose Down
DROP POLICY tenant_keys_rewrap ON tenant_keys;
DROP POLICY credentials_rewrap ON credentials;
DROP POLICY credentials_sweep ON credentials;
ALTER TABLE credentials DROP COLUMN digested;
DROP TABLE credential_digests;
