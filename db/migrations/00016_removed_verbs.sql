-- +goose Up

-- What a tenant's providers were before a user removed or renamed them, or changed their
-- verbs. An import by a key is compared with this too, so that nothing is opened by deleting
-- it and importing it again. What was removed before this table existed is not known.
CREATE TABLE removed_providers (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    slug       text COLLATE "C" NOT NULL,
    base_url   text NOT NULL,
    auth       json NOT NULL,
    domain     text NOT NULL,
    removed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, slug)
);
ALTER TABLE removed_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE removed_providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON removed_providers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON removed_providers TO agentruntime_app;

CREATE TABLE removed_verbs (
    tenant_id      uuid NOT NULL REFERENCES tenants (id),
    provider       text COLLATE "C" NOT NULL,
    route          text COLLATE "C" NOT NULL, -- method and path, the names of parameters left out
    name           text COLLATE "C" NOT NULL,
    domain         text NOT NULL,
    risk_level     text NOT NULL,
    operation_type text NOT NULL,
    idempotency    text NOT NULL,
    removed_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, provider, name, route)
);
ALTER TABLE removed_verbs ENABLE ROW LEVEL SECURITY;
ALTER TABLE removed_verbs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON removed_verbs USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON removed_verbs TO agentruntime_app;

-- +goose Down
DROP TABLE removed_verbs;
DROP TABLE removed_providers;
