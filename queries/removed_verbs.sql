-- name: LockImport :exec
-- Imports and deletions under one slug of a tenant take their turn, also where there is no
-- provider yet.
SELECT pg_advisory_xact_lock(hashtextextended(@tenant_and_slug::text, 0));

-- name: LastProvider :many
-- The provider as it was last: the stored one, otherwise the removed one. The first row counts.
SELECT p.base_url, p.auth, p.domain, p.document_hash, p.document_size, p.import_settings, false AS removed FROM providers p WHERE p.tenant_id = @tenant_id AND p.slug = @slug
UNION ALL
SELECT r.base_url, r.auth, r.domain, NULL, NULL, NULL, true FROM removed_providers r WHERE r.tenant_id = @tenant_id AND r.slug = @slug
 ORDER BY removed;

-- name: KnownVerbs :many
SELECT name, domain, description, risk_level, risk_by, operation_type, idempotency, plan_hash, schema, plan, quarantine
  FROM verbs v WHERE v.tenant_id = @tenant_id AND v.provider = @provider;

-- name: RemovedVerbs :many
SELECT name, domain, risk_level, operation_type, idempotency, route, form FROM removed_verbs WHERE tenant_id = @tenant_id AND provider = @provider;

-- name: ForgetRemovedProvider :exec
DELETE FROM removed_providers WHERE tenant_id = @tenant_id AND slug = @slug;

-- name: RememberProvider :exec
INSERT INTO removed_providers (tenant_id, slug, base_url, auth, domain, removed_at)
SELECT p.tenant_id, p.slug, p.base_url, p.auth, p.domain, @now::timestamptz FROM providers p WHERE p.tenant_id = @tenant_id AND p.slug = @slug
ON CONFLICT (tenant_id, slug) DO UPDATE
   SET base_url = excluded.base_url, auth = excluded.auth, domain = excluded.domain, removed_at = excluded.removed_at;

-- name: RememberVerbs :exec
INSERT INTO removed_verbs (tenant_id, provider, route, name, domain, risk_level, operation_type, idempotency, removed_at, form)
SELECT @tenant_id, @provider, unnest(@routes::text[]), unnest(@names::text[]), unnest(@domains::text[]), unnest(@risk_levels::text[]),
       unnest(@operation_types::text[]), unnest(@idempotencies::text[]), @now::timestamptz, unnest(@forms::bytea[])
ON CONFLICT (tenant_id, provider, name, route) DO UPDATE
   SET domain = excluded.domain, risk_level = excluded.risk_level, operation_type = excluded.operation_type,
       idempotency = excluded.idempotency, removed_at = excluded.removed_at, form = excluded.form;

-- name: ForgetRemovedVerbs :exec
-- Those that the provider has again.
DELETE FROM removed_verbs r
 WHERE r.tenant_id = @tenant_id AND r.provider = @provider
   AND (r.name, r.route) IN (SELECT unnest(@names::text[]), unnest(@routes::text[]));
