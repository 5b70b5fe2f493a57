-- +goose Up

-- The providers and verbs that the platform offers to every tenant, stored once. They are
-- tables of their own, and not rows of no tenant beside those of the tenants: so the service's
-- role can read them and has no way to write them, and the access to a tenant's own rows stays
-- as it was. The operator's commands write them, as the role that owns the tables.
CREATE TABLE platform_providers (LIKE providers INCLUDING ALL);
ALTER TABLE platform_providers DROP COLUMN tenant_id, ADD PRIMARY KEY (slug);
GRANT SELECT ON platform_providers TO agentruntime_app;

CREATE TABLE platform_verbs (LIKE verbs INCLUDING ALL EXCLUDING INDEXES);
ALTER TABLE platform_verbs DROP COLUMN tenant_id, ADD PRIMARY KEY (provider, name),
    ADD FOREIGN KEY (provider) REFERENCES platform_providers (slug) ON DELETE CASCADE;
CREATE INDEX platform_verbs_by_domain ON platform_verbs (provider, domain, name);
CREATE INDEX platform_verbs_by_risk ON platform_verbs (provider, risk_level, name);
GRANT SELECT ON platform_verbs TO agentruntime_app;

CREATE TABLE platform_verb_counts (LIKE verb_counts INCLUDING ALL EXCLUDING INDEXES);
ALTER TABLE platform_verb_counts DROP COLUMN tenant_id, ADD PRIMARY KEY (provider, domain, risk_level);
GRANT SELECT ON platform_verb_counts TO agentruntime_app;

-- How many verbs each provider has under a filter, in the order of the pages.
CREATE INDEX verb_counts_by_filter ON verb_counts (tenant_id, domain, risk_level, provider) INCLUDE (n);

-- Which of the platform's providers a tenant has enabled. There is no foreign key to
-- platform_providers: like a credential, the choice stays when a provider goes and comes back.
CREATE TABLE enabled_providers (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    slug       text COLLATE "C" NOT NULL,
    enabled_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, slug)
);
ALTER TABLE enabled_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE enabled_providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON enabled_providers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE ON enabled_providers TO agentruntime_app;

-- What a tenant can call: its own providers, and those of the platform that it has enabled
-- and has no provider of its own under the slug of.
CREATE VIEW visible_providers WITH (security_invoker = true) AS
    SELECT p.tenant_id, false AS shared, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.document_hash,
           p.imported, p.degraded, p.rejected, p.created_at, p.updated_at
      FROM providers p
    UNION ALL
    SELECT e.tenant_id, true AS shared, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.document_hash,
           p.imported, p.degraded, p.rejected, p.created_at, p.updated_at
      FROM enabled_providers e JOIN platform_providers p ON p.slug = e.slug
     WHERE NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = e.tenant_id AND o.slug = e.slug);
GRANT SELECT ON visible_providers TO agentruntime_app;
CREATE VIEW visible_verbs WITH (security_invoker = true) AS
    SELECT v.tenant_id, v.provider, v.name, v.domain, v.risk_level, v.operation_type, v.schema
      FROM verbs v
    UNION ALL
    SELECT e.tenant_id, v.provider, v.name, v.domain, v.risk_level, v.operation_type, v.schema
      FROM enabled_providers e JOIN platform_verbs v ON v.provider = e.slug
     WHERE NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = e.tenant_id AND o.slug = e.slug);
GRANT SELECT ON visible_verbs TO agentruntime_app;

-- What else changes the verb that a held call means: the platform's provider, a tenant's choice
-- of it, and an import that hides it; see db/functions/recheck_approvals.sql.
DROP TRIGGER recheck_approvals ON providers;
CREATE TRIGGER recheck_approvals AFTER INSERT OR DELETE OR UPDATE ON providers
    FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
CREATE TRIGGER recheck_approvals AFTER INSERT OR DELETE OR UPDATE ON platform_providers
    FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
CREATE TRIGGER recheck_approvals AFTER INSERT OR DELETE ON enabled_providers
    FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
-- The owner of the tables is bound by row-level security too.
CREATE POLICY platform_pending ON approvals FOR SELECT TO CURRENT_USER USING (status = 'pending');
CREATE POLICY platform_recheck ON approvals FOR UPDATE TO CURRENT_USER USING (status = 'pending');

-- +goose Down
DROP POLICY platform_recheck ON approvals;
DROP POLICY platform_pending ON approvals;
DROP VIEW visible_verbs;
DROP VIEW visible_providers;
DROP TABLE enabled_providers;
DROP INDEX verb_counts_by_filter;
DROP TABLE platform_verb_counts;
DROP TABLE platform_verbs;
DROP TABLE platform_providers;
DROP TRIGGER recheck_approvals ON providers;
CREATE TRIGGER recheck_approvals AFTER DELETE OR UPDATE ON providers
    FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
