-- +goose Up

-- Tenants, and what row-level security is written with.

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
GRANT USAGE ON SCHEMA public TO agentruntime_app;
-- A process of the service compares the version of the schema with its own.
GRANT SELECT ON goose_db_version TO agentruntime_app;

-- app_setting returns a transaction-local setting of ours, NULL where it is unset
-- or empty (a setting that was set once in a session reads as '' afterwards).
CREATE FUNCTION app_setting(name text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting(name, true), '');

-- app_tenant is the tenant of the transaction. Without one no row is visible.
CREATE FUNCTION app_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('app.tenant_id', true), '')::uuid;

-- Triggers need their functions to exist. db/functions has what they do, and replaces these.
CREATE FUNCTION audit_is_insert_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION close_gate() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION forget_circuit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION recheck_approvals() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION settle_windows() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';

CREATE TABLE tenants (
    id                  uuid PRIMARY KEY,
    name                text NOT NULL,
    created_at          timestamptz DEFAULT now() NOT NULL,
    -- How many requests a tenant may make in a minute, an hour and a day. Null: the operator's
    -- default. A key may have limits of its own beside the tenant's.
    requests_per_minute integer CHECK ((requests_per_minute > 0)),
    requests_per_hour   integer CHECK ((requests_per_hour > 0)),
    requests_per_day    integer CHECK ((requests_per_day > 0))
);
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenants USING ((id = app_tenant())) WITH CHECK ((id = app_tenant()));
-- The sealer of all tenants sees which there are.
CREATE POLICY tenants_seal ON tenants FOR SELECT USING ((app_setting('app.seal') = 'on'));
GRANT SELECT,INSERT,UPDATE ON tenants TO agentruntime_app;

-- A row that readyz writes, to learn whether the database takes writes. It belongs to no tenant.
CREATE TABLE heartbeats (
    name text PRIMARY KEY,
    at   timestamptz NOT NULL
) WITH (fillfactor=50);
GRANT SELECT,INSERT,UPDATE ON heartbeats TO agentruntime_app;

-- The data key of each tenant, sealed under a key-encryption key which the database never has.
-- The arguments and results of its runs are sealed under the data key. See docs/operate/operations.md.
-- A tenant's key is made when it is first needed, and stays: only its wrapping changes.
CREATE TABLE tenant_keys (
    tenant_id   uuid PRIMARY KEY REFERENCES tenants (id),
    kek_id      text NOT NULL, -- which key-encryption key
    wrapped_key bytea NOT NULL,
    created_at  timestamptz DEFAULT now() NOT NULL,
    wrapped_at  timestamptz DEFAULT now() NOT NULL
);
ALTER TABLE tenant_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenant_keys USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE POLICY tenant_keys_rewrap ON tenant_keys FOR SELECT USING ((kek_id <> app_setting('app.rewrap')));
GRANT SELECT,INSERT ON tenant_keys TO agentruntime_app;
GRANT UPDATE (kek_id, wrapped_key, wrapped_at) ON tenant_keys TO agentruntime_app;

-- What a creation with an Idempotency-Key has made. The row is written in the transaction of
-- the creation, so there is one exactly where there is the other. Keys and bodies are hashed:
-- a body may contain a secret.
CREATE TABLE idempotency_keys (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    endpoint    text NOT NULL, -- as POST /v1/grants
    caller_kind text NOT NULL CHECK ((caller_kind IN ('key', 'user'))),
    key_hash    bytea NOT NULL CHECK ((length(key_hash) = 32)),
    body_hash   bytea NOT NULL CHECK ((length(body_hash) = 32)),
    resource_id text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, endpoint, caller_kind, key_hash)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_tenant_age ON idempotency_keys (tenant_id, created_at);
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON idempotency_keys FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_select ON idempotency_keys FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON idempotency_keys USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON idempotency_keys TO agentruntime_app;

-- +goose Down
DROP TABLE idempotency_keys, tenant_keys, heartbeats, tenants CASCADE;
REVOKE SELECT ON goose_db_version FROM agentruntime_app;
-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'public'::regnamespace LOOP
        EXECUTE format('DROP FUNCTION %s CASCADE', f);
    END LOOP;
END
$$;
-- +goose StatementEnd
