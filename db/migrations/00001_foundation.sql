-- +goose Up

-- The service's processes connect as a login role that is a member of
-- agentruntime_app. It owns nothing and does not bypass row-level security.
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'agentruntime_app') THEN
        CREATE ROLE agentruntime_app NOLOGIN NOBYPASSRLS;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of the same server migrated at the same moment
END
$$;
-- +goose StatementEnd

-- app_setting returns a transaction-local setting of ours, NULL where it is unset
-- or empty (a setting that was set once in a session reads as '' afterwards).
CREATE FUNCTION app_setting(name text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting(name, true), '');

-- app_tenant is the tenant of the transaction. Without one no row is visible.
CREATE FUNCTION app_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('app.tenant_id', true), '')::uuid;

CREATE TABLE tenants (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenants USING (id = app_tenant()) WITH CHECK (id = app_tenant());

GRANT USAGE ON SCHEMA public TO agentruntime_app;
GRANT SELECT, INSERT, UPDATE ON tenants TO agentruntime_app;

-- +goose Down
DROP TABLE tenants;
DROP FUNCTION app_tenant();
DROP FUNCTION app_setting(text);
