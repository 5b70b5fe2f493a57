-- +goose Up

-- What a call of a verb presents, as its plan says it, or else its provider's auth: JSON of
-- [[{scheme, type, in, name, scopes}]]. A page of the catalog shows it and reads no plan. What is
-- stored before is filled below. securities has the distinct ones of a provider's verbs.
ALTER TABLE verbs ADD COLUMN security text NOT NULL DEFAULT '[[]]';
ALTER TABLE platform_verbs ADD COLUMN security text NOT NULL DEFAULT '[[]]';
ALTER TABLE providers ADD COLUMN securities text[] NOT NULL DEFAULT '{}';
ALTER TABLE platform_providers ADD COLUMN securities text[] NOT NULL DEFAULT '{}';

-- The owner of the tables is bound by row-level security too.
ALTER TABLE verbs NO FORCE ROW LEVEL SECURITY;
ALTER TABLE providers NO FORCE ROW LEVEL SECURITY;
ALTER TABLE providers DISABLE TRIGGER USER;
ALTER TABLE platform_providers DISABLE TRIGGER USER;
UPDATE verbs v SET security = coalesce(v.plan::json ->> 'security', CASE WHEN p.auth_type = 'none' THEN '[[]]' ELSE '[[' || p.auth || ']]' END)
  FROM providers p WHERE p.tenant_id = v.tenant_id AND p.slug = v.provider;
UPDATE platform_verbs v SET security = coalesce(v.plan::json ->> 'security', CASE WHEN p.auth_type = 'none' THEN '[[]]' ELSE '[[' || p.auth || ']]' END)
  FROM platform_providers p WHERE p.slug = v.provider;
UPDATE providers p SET securities = ARRAY(SELECT DISTINCT v.security FROM verbs v WHERE v.tenant_id = p.tenant_id AND v.provider = p.slug);
UPDATE platform_providers p SET securities = ARRAY(SELECT DISTINCT v.security FROM platform_verbs v WHERE v.provider = p.slug);
ALTER TABLE platform_providers ENABLE TRIGGER USER;
ALTER TABLE providers ENABLE TRIGGER USER;
ALTER TABLE providers FORCE ROW LEVEL SECURITY;
ALTER TABLE verbs FORCE ROW LEVEL SECURITY;

-- Also tells which of a tenant's own credentials is the newest: a call uses that one.
DROP INDEX credentials_connected;
CREATE INDEX credentials_connected ON credentials (tenant_id, provider, created_at DESC, id DESC) WHERE status = 'active' AND customer_id IS NULL;

CREATE OR REPLACE VIEW visible_providers WITH (security_invoker = true) AS
    SELECT p.tenant_id, false AS shared, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.document_hash,
           p.imported, p.degraded, p.rejected, p.created_at, p.updated_at, p.servers, p.securities
      FROM providers p
    UNION ALL
    SELECT e.tenant_id, true AS shared, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.document_hash,
           p.imported, p.degraded, p.rejected, p.created_at, p.updated_at, p.servers, p.securities
      FROM enabled_providers e JOIN platform_providers p ON p.slug = e.slug
     WHERE NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = e.tenant_id AND o.slug = e.slug);

-- +goose Down
DROP INDEX credentials_connected;
CREATE INDEX credentials_connected ON credentials (tenant_id, provider) WHERE status = 'active' AND customer_id IS NULL;
DROP VIEW visible_providers;
CREATE VIEW visible_providers WITH (security_invoker = true) AS
    SELECT p.tenant_id, false AS shared, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.document_hash,
           p.imported, p.degraded, p.rejected, p.created_at, p.updated_at, p.servers
      FROM providers p
    UNION ALL
    SELECT e.tenant_id, true AS shared, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.document_hash,
           p.imported, p.degraded, p.rejected, p.created_at, p.updated_at, p.servers
      FROM enabled_providers e JOIN platform_providers p ON p.slug = e.slug
     WHERE NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = e.tenant_id AND o.slug = e.slug);
GRANT SELECT ON visible_providers TO agentruntime_app;
ALTER TABLE platform_providers DROP COLUMN securities;
ALTER TABLE providers DROP COLUMN securities;
ALTER TABLE platform_verbs DROP COLUMN security;
ALTER TABLE verbs DROP COLUMN security;
