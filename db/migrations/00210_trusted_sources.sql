-- +goose Up

-- Sources that a tenant trusts: results of their verbs do not taint sessions. The row with the name ''
-- is that of the provider. A row of a verb counts as long as its provider has the base URL, and the verb
-- the schema and the plan, that the row was written for.
CREATE TABLE trusted_sources (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    provider    text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL, -- of the verb
    trust       text NOT NULL CHECK (trust IN ('own', 'external')),
    taint       json NOT NULL, -- JSON pointers of the places that taint all the same
    inherited   boolean NOT NULL, -- nobody has said it of the verb itself
    base_url    text NOT NULL,
    schema_hash bytea NOT NULL,
    plan_hash   bytea NOT NULL,
    PRIMARY KEY (tenant_id, provider, name)
);
ALTER TABLE trusted_sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE trusted_sources FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON trusted_sources USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON trusted_sources TO agentruntime_app;

-- What came back has no words of others than the tenant.
ALTER TABLE runs ADD COLUMN trusted boolean NOT NULL DEFAULT false;

-- What has tainted the session or the execution.
ALTER TABLE conversations ADD COLUMN taint_sources text[] NOT NULL DEFAULT '{}';
ALTER TABLE map_executions ADD COLUMN taint_sources text[] NOT NULL DEFAULT '{}',
    -- The sources whose words its output may have; null where that is not known.
    ADD COLUMN reads text[];

-- +goose Down
ALTER TABLE map_executions DROP COLUMN reads, DROP COLUMN taint_sources;
ALTER TABLE conversations DROP COLUMN taint_sources;
ALTER TABLE runs DROP COLUMN trusted;
DROP TABLE trusted_sources;
