-- Imports of one slug take their turn on this row.
-- name: UpsertProvider :one
INSERT INTO providers (tenant_id, slug, name, domain, base_url, auth_type, auth, document_hash,
                       imported, degraded, rejected, created_at, updated_at)
VALUES (@tenant_id, @slug, @name, @domain, @base_url, @auth_type, @auth, @document_hash,
        @imported, @degraded, @rejected, @now, @now)
ON CONFLICT (tenant_id, slug) DO UPDATE
   SET name = excluded.name, domain = excluded.domain, base_url = excluded.base_url, auth_type = excluded.auth_type,
       auth = excluded.auth, document_hash = excluded.document_hash, imported = excluded.imported,
       degraded = excluded.degraded, rejected = excluded.rejected, updated_at = excluded.updated_at
RETURNING created_at, updated_at,
          (auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = providers.tenant_id AND c.provider = slug
                                            AND c.status = 'active' AND c.customer_id IS NULL))::boolean AS connected;

-- name: DeleteVerbs :exec
DELETE FROM verbs WHERE tenant_id = @tenant_id AND provider = @provider;

-- Postgres refuses COPY into a table with row-level security, so the rows come as
-- parallel arrays.
-- name: InsertVerbs :exec
INSERT INTO verbs (tenant_id, provider, name, domain, description, risk_level, operation_type, idempotency,
                   schema_hash, plan_hash, search, schema, plan)
SELECT @tenant_id, @provider, unnest(@names::text[]), unnest(@domains::text[]), unnest(@descriptions::text[]),
       unnest(@risk_levels::text[]), unnest(@operation_types::text[]), unnest(@idempotencies::text[]),
       unnest(@schema_hashes::bytea[]), unnest(@plan_hashes::bytea[]), unnest(@searches::text[]),
       unnest(@schemas::text[]), unnest(@plans::text[]);

-- name: CountVerbs :exec
SELECT count_verbs(@tenant_id::uuid, @provider::text);

-- name: DeleteProvider :execrows
DELETE FROM providers WHERE tenant_id = @tenant_id AND slug = @slug;

-- name: GetProvider :one
SELECT sqlc.embed(p),
       (p.auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = p.tenant_id AND c.provider = p.slug
                                           AND c.status = 'active' AND c.customer_id IS NULL))::boolean AS connected
  FROM providers p
 WHERE p.tenant_id = @tenant_id AND p.slug = @slug;

-- The reports are left out: they can be long, and belong to one provider's page.
-- name: ListProviders :many
SELECT p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.imported, p.created_at, p.updated_at,
       (p.auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = p.tenant_id AND c.provider = p.slug
                                           AND c.status = 'active' AND c.customer_id IS NULL))::boolean AS connected
  FROM providers p
 WHERE p.tenant_id = @tenant_id AND p.slug > @after
 ORDER BY p.slug
 LIMIT @n;

-- name: ConnectedProviders :many
SELECT p.slug FROM providers p
 WHERE p.tenant_id = @tenant_id
   AND (p.auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = p.tenant_id AND c.provider = p.slug
                                           AND c.status = 'active' AND c.customer_id IS NULL))
 ORDER BY p.slug;

-- name: GetVerb :one
SELECT v.provider, v.name, v.domain, v.description, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.schema,
       (p.auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = p.tenant_id AND c.provider = p.slug
                                           AND c.status = 'active' AND c.customer_id IS NULL))::boolean AS connected
  FROM verbs v JOIN providers p ON p.tenant_id = v.tenant_id AND p.slug = v.provider
 WHERE v.tenant_id = @tenant_id AND v.provider = @provider AND v.name = @name;

-- What a run and an evaluation need to know of a verb, without its large columns.
-- name: GetVerbMeta :one
SELECT v.provider, v.name, v.domain, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.plan_hash,
       p.base_url, p.auth_type, p.auth,
       (p.auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = p.tenant_id AND c.provider = p.slug
                                           AND c.status = 'active' AND c.customer_id IS NULL))::boolean AS connected
  FROM verbs v JOIN providers p ON p.tenant_id = v.tenant_id AND p.slug = v.provider
 WHERE v.tenant_id = @tenant_id AND v.provider = @provider AND v.name = @name;

-- name: GetVerbArtefacts :one
SELECT schema_hash, plan_hash, schema, plan
  FROM verbs WHERE tenant_id = @tenant_id AND provider = @provider AND name = @name;
