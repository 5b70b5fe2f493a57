-- +goose Up

-- Providers and their verbs.

-- The providers and verbs that the platform offers to every tenant, stored once. They are
-- tables of their own, and not rows of no tenant beside those of the tenants: so the service's
-- role can read them and has no way to write them, and the access to a tenant's own rows stays
-- as it was. The operator's commands write them, as the role that owns the tables.
CREATE TABLE platform_providers (
    slug          text COLLATE pg_catalog."C" PRIMARY KEY,
    name          text NOT NULL,
    domain        text NOT NULL COLLATE pg_catalog."C",
    base_url      text NOT NULL,
    auth_type     text NOT NULL,
    auth          json NOT NULL,
    document_hash bytea NOT NULL,
    imported      integer NOT NULL,
    degraded      json NOT NULL,
    rejected      json NOT NULL,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    servers       jsonb DEFAULT '[]'::jsonb NOT NULL,
    securities    text[] DEFAULT '{}'::text[] NOT NULL
);
-- A change of a platform's provider closes the gate of all tenants; see
-- db/functions/close_gate.sql. Its verbs change only with it.
CREATE CONSTRAINT TRIGGER close_gate AFTER INSERT OR DELETE
    OR UPDATE ON platform_providers DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION close_gate();
CREATE TRIGGER recheck_approvals AFTER INSERT OR DELETE OR UPDATE ON platform_providers FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
GRANT SELECT ON platform_providers TO agentruntime_app;

CREATE TABLE platform_verbs (
    provider       text NOT NULL COLLATE pg_catalog."C" REFERENCES platform_providers (slug) ON DELETE CASCADE,
    name           text NOT NULL COLLATE pg_catalog."C",
    domain         text NOT NULL COLLATE pg_catalog."C",
    description    text NOT NULL,
    risk_level     text NOT NULL COLLATE pg_catalog."C",
    operation_type text NOT NULL,
    idempotency    text NOT NULL,
    schema_hash    bytea NOT NULL,
    plan_hash      bytea NOT NULL,
    search         text NOT NULL,
    schema         text NOT NULL,
    plan           text NOT NULL,
    security       text DEFAULT '[[]]' NOT NULL,
    PRIMARY KEY (provider, name),
    CONSTRAINT verbs_domain_check CHECK ((domain <> '*')),
    CONSTRAINT verbs_operation_type_check CHECK ((operation_type IN ('read', 'write'))),
    CONSTRAINT verbs_risk_level_check CHECK ((risk_level IN ('low', 'medium', 'high')))
);
ALTER TABLE platform_verbs ALTER COLUMN schema SET STORAGE EXTERNAL;
ALTER TABLE platform_verbs ALTER COLUMN plan SET STORAGE EXTERNAL;
CREATE INDEX platform_verbs_by_domain ON platform_verbs (provider, domain, name);
CREATE INDEX platform_verbs_by_risk ON platform_verbs (provider, risk_level, name);
GRANT SELECT ON platform_verbs TO agentruntime_app;

CREATE TABLE platform_verb_answers (
    provider text NOT NULL COLLATE pg_catalog."C" REFERENCES platform_providers (slug) ON DELETE CASCADE,
    name     text NOT NULL COLLATE pg_catalog."C",
    answer   text NOT NULL,
    PRIMARY KEY (provider, name)
);
GRANT SELECT ON platform_verb_answers TO agentruntime_app;

CREATE TABLE platform_verb_counts (
    provider   text NOT NULL COLLATE pg_catalog."C",
    domain     text NOT NULL COLLATE pg_catalog."C",
    risk_level text NOT NULL COLLATE pg_catalog."C",
    n          bigint NOT NULL,
    PRIMARY KEY (provider, domain, risk_level)
);
GRANT SELECT ON platform_verb_counts TO agentruntime_app;

-- A provider is one imported document under a slug of the tenant's choice. The
-- slug again replaces it.
CREATE TABLE providers (
    tenant_id       uuid NOT NULL REFERENCES tenants (id),
    slug            text NOT NULL COLLATE pg_catalog."C",
    name            text NOT NULL,
    domain          text NOT NULL COLLATE pg_catalog."C",
    base_url        text NOT NULL,
    auth_type       text NOT NULL, -- 'none' needs no credential and counts as connected
    auth            json NOT NULL,
    document_hash   bytea NOT NULL, -- SHA-256 of the document as it was sent
    imported        integer NOT NULL, -- verbs that can be called
    degraded        json NOT NULL, -- [{operation, reason}] of those that lost something
    rejected        json NOT NULL, -- [{operation, reason}] of those that cannot be called
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    -- The bytes of the schemas and plans of a provider's verbs together. An import writes it, so
    -- that the quota adds up one number for each provider.
    verb_bytes      bigint DEFAULT 0 NOT NULL,
    -- What a provider was imported from, and with which members of the request: so it can be shown,
    -- and read again with other members.
    document_size   bigint,
    import_settings json,
    -- The servers of a provider's document, each with how many verbs call it: a part of the report.
    servers         jsonb DEFAULT '[]'::jsonb NOT NULL,
    -- report is what the last import said, beside the operations that lost something. risk_by says
    -- where a verb's risk comes from.
    report          json,
    securities      text[] DEFAULT '{}'::text[] NOT NULL,
    PRIMARY KEY (tenant_id, slug)
);
ALTER TABLE providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON providers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE CONSTRAINT TRIGGER close_gate AFTER INSERT OR DELETE
    OR UPDATE ON providers DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION close_gate();
CREATE TRIGGER forget_circuit AFTER INSERT OR DELETE ON providers FOR EACH ROW EXECUTE FUNCTION forget_circuit();
CREATE TRIGGER forget_circuit_of_address AFTER UPDATE ON providers FOR EACH ROW WHEN ((old.base_url <> new.base_url)) EXECUTE FUNCTION forget_circuit();
CREATE TRIGGER recheck_approvals AFTER INSERT OR DELETE OR UPDATE ON providers FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
GRANT SELECT,INSERT,DELETE,UPDATE ON providers TO agentruntime_app;

-- Which of the platform's providers a tenant has enabled. There is no foreign key to
-- platform_providers: like a credential, the choice stays when a provider goes and comes back.
CREATE TABLE enabled_providers (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    slug       text NOT NULL COLLATE pg_catalog."C",
    enabled_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, slug)
);
ALTER TABLE enabled_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE enabled_providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON enabled_providers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE CONSTRAINT TRIGGER close_gate AFTER INSERT
    OR DELETE ON enabled_providers DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION close_gate();
CREATE TRIGGER forget_circuit AFTER INSERT OR DELETE ON enabled_providers FOR EACH ROW EXECUTE FUNCTION forget_circuit();
CREATE TRIGGER recheck_approvals AFTER INSERT OR DELETE ON enabled_providers FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
GRANT SELECT,INSERT,DELETE ON enabled_providers TO agentruntime_app;

-- Which of the platform's providers a tenant had enabled and disabled. What the tenant wrote may still
-- name their verbs. So a key imports nothing under such a slug, also once the platform offers it no
-- longer. A row stays when the tenant enables the provider again.
CREATE TABLE disabled_providers (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    slug        text NOT NULL COLLATE pg_catalog."C",
    disabled_at timestamptz NOT NULL, -- the last time
    PRIMARY KEY (tenant_id, slug)
);
ALTER TABLE disabled_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE disabled_providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON disabled_providers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,UPDATE ON disabled_providers TO agentruntime_app;

-- What a tenant's providers were before a user removed or renamed them, or changed their
-- verbs. An import by a key is compared with this too, so that nothing is opened by deleting
-- it and importing it again.
CREATE TABLE removed_providers (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    slug       text NOT NULL COLLATE pg_catalog."C",
    base_url   text NOT NULL,
    auth       json NOT NULL,
    domain     text NOT NULL,
    removed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, slug)
);
ALTER TABLE removed_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE removed_providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON removed_providers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON removed_providers TO agentruntime_app;

-- Names sort by byte ("C"), so that pages have one order under every locale.
-- There is no foreign key to tenants: the one to providers implies it, and each
-- costs an import a look-up per row.
CREATE TABLE verbs (
    tenant_id      uuid NOT NULL,
    provider       text NOT NULL COLLATE pg_catalog."C",
    name           text NOT NULL COLLATE pg_catalog."C",
    domain         text NOT NULL COLLATE pg_catalog."C" CHECK ((domain <> '*')), -- '*' is "any" in verb_counts
    description    text NOT NULL,
    risk_level     text NOT NULL COLLATE pg_catalog."C" CHECK ((risk_level IN ('low', 'medium', 'high'))),
    operation_type text NOT NULL CHECK ((operation_type IN ('read', 'write'))),
    idempotency    text NOT NULL,
    schema_hash    bytea NOT NULL, -- SHA-256 of schema
    plan_hash      bytea NOT NULL, -- SHA-256 of plan
    search         text NOT NULL, -- lower-case provider:name and description
    schema         text NOT NULL, -- JSON Schema of the arguments
    plan           text NOT NULL, -- how a request is built from them
    risk_by        text DEFAULT '' NOT NULL,
    -- Why calls of the verb are blocked until a user accepts its new form; null where they are not.
    quarantine     json,
    -- What a call of a verb presents, as its plan says it, or else its provider's auth: JSON of
    -- [[{scheme, type, in, name, scopes}]]. A page of the catalog shows it and reads no plan. securities has the distinct ones of a provider's verbs.
    security       text DEFAULT '[[]]' NOT NULL,
    PRIMARY KEY (tenant_id, provider, name),
    CONSTRAINT verbs_tenant_id_provider_fkey FOREIGN KEY (tenant_id, provider) REFERENCES providers(tenant_id, slug) ON DELETE CASCADE
);
ALTER TABLE verbs ALTER COLUMN schema SET STORAGE EXTERNAL;
ALTER TABLE verbs ALTER COLUMN plan SET STORAGE EXTERNAL;
CREATE INDEX verbs_by_domain ON verbs (tenant_id, domain, provider, name);
CREATE INDEX verbs_by_risk ON verbs (tenant_id, risk_level, provider, name);
CREATE INDEX verbs_quarantined ON verbs (tenant_id, provider, name) WHERE (quarantine IS NOT NULL);
ALTER TABLE verbs ENABLE ROW LEVEL SECURITY;
ALTER TABLE verbs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON verbs USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON verbs TO agentruntime_app;

-- The JSON Schema of the body of a verb's successful answer, as far as its document has one. No call
-- is judged, built or checked by it, so it is apart from the verbs: what each call reads stays
-- small.
CREATE TABLE verb_answers (
    tenant_id uuid NOT NULL,
    provider  text NOT NULL COLLATE pg_catalog."C",
    name      text NOT NULL COLLATE pg_catalog."C", -- of the verb
    answer    text NOT NULL,
    PRIMARY KEY (tenant_id, provider, name),
    CONSTRAINT verb_answers_tenant_id_provider_fkey FOREIGN KEY (tenant_id, provider) REFERENCES providers(tenant_id, slug) ON DELETE CASCADE
);
ALTER TABLE verb_answers ENABLE ROW LEVEL SECURITY;
ALTER TABLE verb_answers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON verb_answers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON verb_answers TO agentruntime_app;

-- How many verbs there are for every combination of filters, '*' meaning any:
-- the total of a page is one row, however large the catalog.
CREATE TABLE verb_counts (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    provider   text NOT NULL COLLATE pg_catalog."C",
    domain     text NOT NULL COLLATE pg_catalog."C",
    risk_level text NOT NULL COLLATE pg_catalog."C",
    n          bigint NOT NULL,
    PRIMARY KEY (tenant_id, provider, domain, risk_level)
);
-- How many verbs each provider has under a filter, in the order of the pages.
CREATE INDEX verb_counts_by_filter ON verb_counts (tenant_id, domain, risk_level, provider) INCLUDE (n);
ALTER TABLE verb_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE verb_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON verb_counts USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON verb_counts TO agentruntime_app;

CREATE TABLE removed_verbs (
    tenant_id      uuid NOT NULL REFERENCES tenants (id),
    provider       text NOT NULL COLLATE pg_catalog."C",
    route          text NOT NULL COLLATE pg_catalog."C", -- method and path, the names of parameters left out
    name           text NOT NULL COLLATE pg_catalog."C",
    domain         text NOT NULL,
    risk_level     text NOT NULL,
    operation_type text NOT NULL,
    idempotency    text NOT NULL,
    removed_at     timestamptz NOT NULL,
    form           bytea NOT NULL, -- SHA-256 of schema and plan
    PRIMARY KEY (tenant_id, provider, name, route)
);
ALTER TABLE removed_verbs ENABLE ROW LEVEL SECURITY;
ALTER TABLE removed_verbs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON removed_verbs USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON removed_verbs TO agentruntime_app;

-- The accepted form of verbs that are quarantined, and of those that were removed while a policy, a
-- Map or an agent named them.
CREATE TABLE accepted_verbs (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    provider   text NOT NULL COLLATE pg_catalog."C",
    name       text NOT NULL COLLATE pg_catalog."C",
    risk_level text NOT NULL,
    schema     text NOT NULL, -- of the arguments
    bytes      integer NOT NULL, -- of the schema, for the quota
    PRIMARY KEY (tenant_id, provider, name)
);
ALTER TABLE accepted_verbs ENABLE ROW LEVEL SECURITY;
ALTER TABLE accepted_verbs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON accepted_verbs USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON accepted_verbs TO agentruntime_app;

-- The documents, compressed (gzip) and cut into parts. A reader has one part in memory at a
-- time. No list and no call reads them, so they have a table of their own.
CREATE TABLE provider_documents (
    tenant_id uuid NOT NULL,
    slug      text NOT NULL COLLATE pg_catalog."C",
    part      integer NOT NULL, -- from 0
    content   bytea NOT NULL,
    PRIMARY KEY (tenant_id, slug, part),
    CONSTRAINT provider_documents_tenant_id_slug_fkey FOREIGN KEY (tenant_id, slug) REFERENCES providers(tenant_id, slug) ON DELETE CASCADE
);
ALTER TABLE provider_documents ALTER COLUMN content SET STORAGE EXTERNAL;
ALTER TABLE provider_documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE provider_documents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON provider_documents USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON provider_documents TO agentruntime_app;

-- Sources that a tenant trusts: results of their verbs do not taint sessions. The row with the name ''
-- is that of the provider. A row of a verb counts as long as its provider has the base URL, and the verb
-- the schema and the plan, that the row was written for.
CREATE TABLE trusted_sources (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    provider    text NOT NULL COLLATE pg_catalog."C",
    name        text NOT NULL COLLATE pg_catalog."C", -- of the verb
    trust       text NOT NULL CHECK ((trust IN ('own', 'external'))),
    taint       json NOT NULL, -- JSON pointers of the places that taint all the same
    inherited   boolean NOT NULL, -- nobody has said it of the verb itself
    base_url    text NOT NULL,
    schema_hash bytea NOT NULL,
    plan_hash   bytea NOT NULL,
    -- The verb reaches an address of the caller's choice.
    egress      boolean DEFAULT false NOT NULL,
    PRIMARY KEY (tenant_id, provider, name)
);
ALTER TABLE trusted_sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE trusted_sources FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON trusted_sources USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON trusted_sources TO agentruntime_app;

-- What a tenant can call: its own providers, and those of the platform that it has enabled
-- and has no provider of its own under the slug of.
CREATE VIEW visible_providers WITH (security_invoker = true) AS
 SELECT p.tenant_id,
    false AS shared,
    p.slug,
    p.name,
    p.domain,
    p.base_url,
    p.auth_type,
    p.auth,
    p.document_hash,
    p.imported,
    p.degraded,
    p.rejected,
    p.created_at,
    p.updated_at,
    p.servers,
    p.securities
   FROM providers p
UNION ALL
 SELECT e.tenant_id,
    true AS shared,
    p.slug,
    p.name,
    p.domain,
    p.base_url,
    p.auth_type,
    p.auth,
    p.document_hash,
    p.imported,
    p.degraded,
    p.rejected,
    p.created_at,
    p.updated_at,
    p.servers,
    p.securities
   FROM (enabled_providers e
     JOIN platform_providers p ON ((p.slug = e.slug)))
  WHERE (NOT (EXISTS ( SELECT
           FROM providers o
          WHERE ((o.tenant_id = e.tenant_id) AND (o.slug = e.slug)))));
GRANT SELECT ON visible_providers TO agentruntime_app;

CREATE VIEW visible_verbs WITH (security_invoker = true) AS
 SELECT v.tenant_id,
    v.provider,
    v.name,
    v.domain,
    v.risk_level,
    v.operation_type,
    v.schema
   FROM verbs v
UNION ALL
 SELECT e.tenant_id,
    v.provider,
    v.name,
    v.domain,
    v.risk_level,
    v.operation_type,
    v.schema
   FROM (enabled_providers e
     JOIN platform_verbs v ON ((v.provider = e.slug)))
  WHERE (NOT (EXISTS ( SELECT
           FROM providers o
          WHERE ((o.tenant_id = e.tenant_id) AND (o.slug = e.slug)))));
GRANT SELECT ON visible_verbs TO agentruntime_app;

-- +goose Down
DROP VIEW visible_verbs, visible_providers CASCADE;
DROP TABLE trusted_sources, provider_documents, accepted_verbs, removed_verbs, verb_counts, verb_answers, verbs, removed_providers,
    disabled_providers, enabled_providers, providers, platform_verb_counts, platform_verb_answers, platform_verbs,
    platform_providers CASCADE;
