-- What of a tenant's catalog agents may call: see internal/provider/catalog/tools.go.

-- The providers, with all that tells one state of the catalog from another.
-- name: ToolProviders :many
SELECT p.shared, p.slug, p.updated_at,
       (p.auth_type = 'none' OR c.type IS NOT NULL)::boolean AS connected, coalesce(c.type, '')::text AS kind, coalesce(c.schemes::text, '')::text AS schemes
  FROM visible_providers p LEFT JOIN LATERAL (
           SELECT c.type, c.schemes FROM credentials c
            WHERE c.tenant_id = @tenant_id AND c.provider = p.slug AND c.status = 'active' AND c.customer_id IS NULL
            ORDER BY c.created_at DESC, c.id DESC LIMIT 1) c ON true
 WHERE p.tenant_id = @tenant_id
 ORDER BY p.slug;

-- Verbs without their large columns.
-- name: ToolVerbs :many
SELECT v.provider, v.name, left(v.description, @begin::integer) AS description, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.security
  FROM verbs v
 WHERE v.tenant_id = @tenant_id AND v.provider = ANY (@providers::text[])
 ORDER BY v.provider, v.name
 LIMIT @most;

-- name: ToolPlatformVerbs :many
SELECT v.provider, v.name, left(v.description, @begin::integer) AS description, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.security
  FROM platform_verbs v
 WHERE v.provider = ANY (@providers::text[])
 ORDER BY v.provider, v.name
 LIMIT @most;
