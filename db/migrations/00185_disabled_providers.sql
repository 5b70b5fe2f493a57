-- +goose Up

-- Which of the platform's providers a tenant had enabled and disabled. What the tenant wrote may still
-- name their verbs. So a key imports nothing under such a slug, also once the platform offers it no
-- longer. A row stays when the tenant enables the provider again.
CREATE TABLE disabled_providers (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    slug        text COLLATE "C" NOT NULL,
    disabled_at timestamptz NOT NULL, -- the last time
    PRIMARY KEY (tenant_id, slug)
);
ALTER TABLE disabled_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE disabled_providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON disabled_providers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE ON disabled_providers TO agentruntime_app;

-- +goose Down
DROP TABLE disabled_providers;
