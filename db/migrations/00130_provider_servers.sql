-- +goose Up

-- The servers of a provider's document, each with how many verbs call it: a part of the report.
ALTER TABLE providers ADD COLUMN servers jsonb NOT NULL DEFAULT '[]';
ALTER TABLE platform_providers ADD COLUMN servers jsonb NOT NULL DEFAULT '[]';

CREATE OR REPLACE VIEW visible_providers WITH (security_invoker = true) AS
    SELECT p.tenant_id, false AS shared, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.document_hash,
           p.imported, p.degraded, p.rejected, p.created_at, p.updated_at, p.servers
      FROM providers p
    UNION ALL
    SELECT e.tenant_id, true AS shared, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.document_hash,
           p.imported, p.degraded, p.rejected, p.created_at, p.updated_at, p.servers
      FROM enabled_providers e JOIN platform_providers p ON p.slug = e.slug
     WHERE NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = e.tenant_id AND o.slug = e.slug);

-- +goose Down
DROP VIEW visible_providers;
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
ALTER TABLE platform_providers DROP COLUMN servers;
ALTER TABLE providers DROP COLUMN servers;
