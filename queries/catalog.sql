-- Imports of one slug wait for each other on this row.
-- name: UpsertProvider :one
INSERT INTO providers (tenant_id, slug, name, domain, base_url, auth_type, auth, document_hash, document_size, import_settings,
                       imported, degraded, rejected, servers, securities, report, verb_bytes, created_at, updated_at)
VALUES (@tenant_id, @slug, @name, @domain, @base_url, @auth_type, @auth, @document_hash, @document_size, @import_settings,
        @imported, @degraded, @rejected, @servers, @securities, @report, @verb_bytes, @now, @now)
ON CONFLICT (tenant_id, slug) DO UPDATE
   SET name = excluded.name, domain = excluded.domain, base_url = excluded.base_url, auth_type = excluded.auth_type,
       auth = excluded.auth, document_hash = excluded.document_hash, document_size = excluded.document_size,
       import_settings = excluded.import_settings, imported = excluded.imported,
       degraded = excluded.degraded, rejected = excluded.rejected, servers = excluded.servers, securities = excluded.securities,
       report = excluded.report, verb_bytes = excluded.verb_bytes, updated_at = excluded.updated_at
RETURNING created_at, updated_at,
          (auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = providers.tenant_id AND c.provider = slug
                                            AND c.status = 'active' AND c.customer_id IS NULL))::boolean AS connected;

-- name: DeleteVerbs :exec
DELETE FROM verbs WHERE tenant_id = @tenant_id AND provider = @provider;

-- Postgres refuses COPY into a table with row-level security, so the rows come as
-- parallel arrays.
-- name: InsertVerbs :exec
INSERT INTO verbs (tenant_id, provider, name, domain, description, risk_level, risk_by, operation_type, idempotency,
                   schema_hash, plan_hash, search, schema, plan, security, quarantine)
SELECT @tenant_id, @provider, unnest(@names::text[]), unnest(@domains::text[]), unnest(@descriptions::text[]),
       unnest(@risk_levels::text[]), unnest(@risk_bys::text[]), unnest(@operation_types::text[]), unnest(@idempotencies::text[]),
       unnest(@schema_hashes::bytea[]), unnest(@plan_hashes::bytea[]), unnest(@searches::text[]),
       unnest(@schemas::text[]), unnest(@plans::text[]), unnest(@securities::text[]), nullif(unnest(@quarantines::text[]), '')::json;

-- name: CountVerbs :exec
SELECT count_verbs(@tenant_id::uuid, @provider::text);

-- name: DeleteProvider :execrows
DELETE FROM providers WHERE tenant_id = @tenant_id AND slug = @slug;

-- The same for the platform's providers; only the role that owns the tables may.
-- name: UpsertPlatformProvider :one
INSERT INTO platform_providers (slug, name, domain, base_url, auth_type, auth, document_hash,
                                imported, degraded, rejected, servers, securities, created_at, updated_at)
VALUES (@slug, @name, @domain, @base_url, @auth_type, @auth, @document_hash,
        @imported, @degraded, @rejected, @servers, @securities, @now, @now)
ON CONFLICT (slug) DO UPDATE
   SET name = excluded.name, domain = excluded.domain, base_url = excluded.base_url, auth_type = excluded.auth_type,
       auth = excluded.auth, document_hash = excluded.document_hash, imported = excluded.imported,
       degraded = excluded.degraded, rejected = excluded.rejected, servers = excluded.servers, securities = excluded.securities, updated_at = excluded.updated_at
RETURNING created_at, updated_at;

-- name: GetPlatformProvider :many
SELECT slug, name, domain, base_url, auth_type, auth, document_hash, imported, created_at, updated_at
  FROM platform_providers WHERE slug = @slug;

-- name: ListPlatformProviders :many
SELECT slug, name, domain, base_url, auth_type, imported, created_at, updated_at
  FROM platform_providers WHERE slug > @after ORDER BY slug LIMIT @n;

-- name: KnownPlatformVerbs :many
SELECT name, domain, description, risk_level, operation_type, idempotency, plan_hash, schema, plan
  FROM platform_verbs WHERE provider = @provider;

-- name: DeletePlatformVerbs :exec
DELETE FROM platform_verbs WHERE provider = @provider;

-- name: InsertPlatformVerbs :exec
INSERT INTO platform_verbs (provider, name, domain, description, risk_level, operation_type, idempotency,
                            schema_hash, plan_hash, search, schema, plan, security)
SELECT @provider, unnest(@names::text[]), unnest(@domains::text[]), unnest(@descriptions::text[]),
       unnest(@risk_levels::text[]), unnest(@operation_types::text[]), unnest(@idempotencies::text[]),
       unnest(@schema_hashes::bytea[]), unnest(@plan_hashes::bytea[]), unnest(@searches::text[]),
       unnest(@schemas::text[]), unnest(@plans::text[]), unnest(@securities::text[]);

-- name: DeletePlatformCounts :exec
DELETE FROM platform_verb_counts WHERE provider = @provider;

-- As in count_verbs, '*' means any.
-- name: CountPlatformVerbs :exec
INSERT INTO platform_verb_counts (provider, domain, risk_level, n)
SELECT v.provider, coalesce(v.domain, '*'), coalesce(v.risk_level, '*'), count(*)
  FROM platform_verbs v WHERE v.provider = @provider
 GROUP BY v.provider, CUBE (v.domain, v.risk_level);

-- name: DeletePlatformProvider :execrows
DELETE FROM platform_providers WHERE slug = @slug;

-- Nothing is written where the platform has no such provider, or the tenant has enabled it.
-- name: EnableProvider :execrows
INSERT INTO enabled_providers (tenant_id, slug, enabled_at)
SELECT @tenant_id, p.slug, @now FROM platform_providers p WHERE p.slug = @slug
ON CONFLICT (tenant_id, slug) DO NOTHING;

-- name: DisableProvider :execrows
WITH disabled AS (
    DELETE FROM enabled_providers e WHERE e.tenant_id = @tenant_id AND e.slug = @slug RETURNING e.tenant_id, e.slug)
INSERT INTO disabled_providers (tenant_id, slug, disabled_at) SELECT d.tenant_id, d.slug, @now::timestamptz FROM disabled d
ON CONFLICT (tenant_id, slug) DO UPDATE SET disabled_at = excluded.disabled_at;

-- Whether a slug means a provider of the platform to a tenant that has no own one: the platform has it,
-- or had it when the tenant chose it.
-- name: MeansPlatformProvider :one
SELECT (EXISTS (SELECT FROM platform_providers p WHERE p.slug = @slug)
     OR EXISTS (SELECT FROM enabled_providers e WHERE e.tenant_id = @tenant_id AND e.slug = @slug)
     OR EXISTS (SELECT FROM disabled_providers d WHERE d.tenant_id = @tenant_id AND d.slug = @slug))::boolean;

-- What a slug is at the platform, and whether a provider of the tenant's own hides it.
-- name: GetOffer :one
SELECT EXISTS (SELECT FROM platform_providers p WHERE p.slug = @slug)::boolean AS offered,
       EXISTS (SELECT FROM enabled_providers e WHERE e.tenant_id = @tenant_id AND e.slug = @slug)::boolean AS enabled,
       EXISTS (SELECT FROM providers o WHERE o.tenant_id = @tenant_id AND o.slug = @slug)::boolean AS hidden;

-- The tenant's own provider, otherwise the platform's, which the tenant may have yet to enable.
-- name: GetProvider :one
SELECT p.shared, p.enabled, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.document_hash, p.imported, p.degraded, p.rejected,
       p.servers, p.created_at, p.updated_at, p.report, p.import_settings,
       (p.auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = @tenant_id AND c.provider = p.slug
                                           AND c.status = 'active' AND c.customer_id IS NULL OFFSET 0))::boolean AS connected, -- OFFSET 0: see MarkSending
       coalesce((SELECT json_build_object('state', c.state, 'failures', c.failures, 'since', c.since, 'probe_at', c.probe_at,
                                          'error_kinds', c.error_kinds, 'error_times', c.error_times)
                   FROM circuits c WHERE c.tenant_id = @tenant_id AND c.provider = @slug OFFSET 0), 'null')::json AS circuit,
       coalesce((SELECT json_agg(json_build_object('verb', q.name, 'mark', q.quarantine))
                   FROM (SELECT v.name, v.quarantine FROM verbs v
                          WHERE v.tenant_id = @tenant_id AND v.provider = @slug AND v.quarantine IS NOT NULL ORDER BY v.name LIMIT @most_quarantined::int) q), '[]')::json AS quarantined,
       (SELECT count(*) FROM verbs v WHERE v.tenant_id = @tenant_id AND v.provider = @slug AND v.quarantine IS NOT NULL)::bigint AS quarantined_total
  FROM (SELECT false AS shared, true AS enabled, o.slug, o.name, o.domain, o.base_url, o.auth_type, o.auth, o.document_hash, o.imported,
               o.degraded, o.rejected, o.servers, o.created_at, o.updated_at, o.report, o.import_settings
          FROM providers o WHERE o.tenant_id = @tenant_id AND o.slug = @slug
        UNION ALL
        SELECT true, EXISTS (SELECT FROM enabled_providers e WHERE e.tenant_id = @tenant_id AND e.slug = s.slug), s.slug, s.name, s.domain,
               s.base_url, s.auth_type, s.auth, s.document_hash, s.imported, s.degraded, s.rejected, s.servers, s.created_at, s.updated_at, NULL::json, NULL::json
          FROM platform_providers s
         WHERE s.slug = @slug AND NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = @tenant_id AND o.slug = s.slug)) p
 LIMIT 1;

-- What the tenant can call. Without the reports: they can be long, and only the page of one
-- provider shows them. Each half reads a page of an index.
-- name: ListProviders :many
SELECT p.shared, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.imported, p.created_at, p.updated_at,
       (p.auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = @tenant_id AND c.provider = p.slug
                                           AND c.status = 'active' AND c.customer_id IS NULL))::boolean AS connected
  FROM ((SELECT false AS shared, o.slug, o.name, o.domain, o.base_url, o.auth_type, o.auth, o.imported, o.created_at, o.updated_at
           FROM providers o
          WHERE o.tenant_id = @tenant_id AND o.slug > @after
          ORDER BY o.slug LIMIT @n)
        UNION ALL
        (SELECT true, s.slug, s.name, s.domain, s.base_url, s.auth_type, s.auth, s.imported, s.created_at, s.updated_at
           FROM enabled_providers e CROSS JOIN LATERAL (SELECT * FROM platform_providers f WHERE f.slug = e.slug LIMIT 1) s
          WHERE e.tenant_id = @tenant_id AND e.slug > @after
            AND NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = @tenant_id AND o.slug = e.slug)
          ORDER BY e.slug LIMIT @n)) p
 ORDER BY p.slug
 LIMIT @n;

-- ListProviders with those of the platform that the tenant has not enabled. @offered leaves out
-- all others. Each half reads a page of its primary key.
-- name: ListOfferedProviders :many
SELECT p.shared, p.enabled, p.slug, p.name, p.domain, p.base_url, p.auth_type, p.auth, p.imported, p.created_at, p.updated_at,
       (p.auth_type = 'none' OR EXISTS (SELECT FROM credentials c WHERE c.tenant_id = @tenant_id AND c.provider = p.slug
                                           AND c.status = 'active' AND c.customer_id IS NULL))::boolean AS connected
  FROM ((SELECT false AS shared, true AS enabled, o.slug, o.name, o.domain, o.base_url, o.auth_type, o.auth, o.imported, o.created_at, o.updated_at
           FROM providers o
          WHERE o.tenant_id = @tenant_id AND o.slug > @after AND NOT @offered::boolean
          ORDER BY o.slug LIMIT @n)
        UNION ALL
        (SELECT true, e.slug IS NOT NULL, s.slug, s.name, s.domain, s.base_url, s.auth_type, s.auth, s.imported, s.created_at, s.updated_at
           FROM platform_providers s LEFT JOIN enabled_providers e ON e.tenant_id = @tenant_id AND e.slug = s.slug
          WHERE s.slug > @after AND (e.slug IS NULL OR NOT @offered::boolean)
            AND NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = @tenant_id AND o.slug = s.slug)
          ORDER BY s.slug LIMIT @n)) p
 ORDER BY p.slug
 LIMIT @n;

-- name: HasEnabledProviders :one
SELECT EXISTS (SELECT FROM enabled_providers WHERE tenant_id = @tenant_id);

-- The connected providers with the credential that a call of them would use: a provider that needs
-- none, or for which the tenant has one.
-- name: OwnConnectedProviders :many
SELECT p.slug, coalesce(c.type, '')::text AS kind, coalesce(c.schemes::text, '')::text AS schemes
  FROM providers p LEFT JOIN LATERAL (
           SELECT c.type, c.schemes FROM credentials c
            WHERE c.tenant_id = @tenant_id AND c.provider = p.slug AND c.status = 'active' AND c.customer_id IS NULL
            ORDER BY c.created_at DESC, c.id DESC LIMIT 1) c ON true
 WHERE p.tenant_id = @tenant_id AND (p.auth_type = 'none' OR c.type IS NOT NULL)
 ORDER BY p.slug;

-- name: ConnectedProviders :many
SELECT p.slug, coalesce(c.type, '')::text AS kind, coalesce(c.schemes::text, '')::text AS schemes
  FROM visible_providers p LEFT JOIN LATERAL (
           SELECT c.type, c.schemes FROM credentials c
            WHERE c.tenant_id = @tenant_id AND c.provider = p.slug AND c.status = 'active' AND c.customer_id IS NULL
            ORDER BY c.created_at DESC, c.id DESC LIMIT 1) c ON true
 WHERE p.tenant_id = @tenant_id AND (p.auth_type = 'none' OR c.type IS NOT NULL)
 ORDER BY p.slug;

-- What the verbs of all providers ask for, and with which credential they would be called.
-- name: ReachOfProviders :many
SELECT p.shared, p.slug, p.securities, (p.auth_type = 'none' OR c.type IS NOT NULL)::boolean AS connected, coalesce(c.type, '')::text AS kind, coalesce(c.schemes::text, '')::text AS schemes
  FROM visible_providers p LEFT JOIN LATERAL (
           SELECT c.type, c.schemes FROM credentials c
            WHERE c.tenant_id = @tenant_id AND c.provider = p.slug AND c.status = 'active' AND c.customer_id IS NULL
            ORDER BY c.created_at DESC, c.id DESC LIMIT 1) c ON true
 WHERE p.tenant_id = @tenant_id
 ORDER BY p.slug;

-- The tenant's own provider hides the platform's. Where the first half finds the verb, the
-- limit ends the statement, and the second half is not executed.
-- name: GetVerb :one
SELECT k.provider, k.name, k.domain, k.description, k.risk_level, k.operation_type, k.idempotency, k.schema_hash, k.schema, k.security, k.quarantine,
       coalesce(c.type, '')::text AS kind, coalesce(c.schemes::text, '')::text AS schemes
  FROM (
    SELECT v.provider, v.name, v.domain, v.description, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.schema, v.security, v.quarantine
      FROM verbs v JOIN providers p ON p.tenant_id = v.tenant_id AND p.slug = v.provider
     WHERE v.tenant_id = @tenant_id::uuid AND v.provider = @provider::text AND v.name = @name::text
    UNION ALL
    SELECT v.provider, v.name, v.domain, v.description, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.schema, v.security, NULL::json
      FROM enabled_providers e JOIN platform_providers p ON p.slug = e.slug JOIN platform_verbs v ON v.provider = e.slug
     WHERE e.tenant_id = @tenant_id::uuid AND e.slug = @provider::text AND v.name = @name::text
       AND NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = @tenant_id::uuid AND o.slug = @provider::text)) k
  LEFT JOIN LATERAL (
           SELECT c.type, c.schemes FROM credentials c
            WHERE c.tenant_id = @tenant_id::uuid AND c.provider = @provider::text AND c.status = 'active' AND c.customer_id IS NULL
            ORDER BY c.created_at DESC, c.id DESC LIMIT 1) c ON true
 LIMIT 1;

-- name: NearVerbs :many
-- Verbs that a name which the catalog does not have may mean: @most on each side of it in its
-- provider, and the verb of the same name in @slugs providers on each side of its slug. Each part
-- reads a range of a primary key, so the cost does not grow with the catalog.
WITH own AS MATERIALIZED (
    (SELECT p.slug FROM providers p WHERE p.tenant_id = @tenant_id::uuid AND p.slug >= @provider::text ORDER BY p.slug LIMIT @slugs::integer)
    UNION ALL
    (SELECT p.slug FROM providers p WHERE p.tenant_id = @tenant_id::uuid AND p.slug < @provider::text ORDER BY p.slug DESC LIMIT @slugs::integer)
), shared AS MATERIALIZED (
    SELECT near.slug FROM (
        (SELECT e.slug FROM enabled_providers e WHERE e.tenant_id = @tenant_id::uuid AND e.slug >= @provider::text ORDER BY e.slug LIMIT @slugs::integer)
        UNION ALL
        (SELECT e.slug FROM enabled_providers e WHERE e.tenant_id = @tenant_id::uuid AND e.slug < @provider::text ORDER BY e.slug DESC LIMIT @slugs::integer)) near
     WHERE NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = @tenant_id::uuid AND o.slug = near.slug)
), home AS MATERIALIZED (
    SELECT s.slug FROM shared s WHERE s.slug = @provider::text
)
SELECT near.provider::text AS provider, near.name::text AS name FROM (
    (SELECT v.provider, v.name FROM verbs v
      WHERE v.tenant_id = @tenant_id::uuid AND v.provider = @provider::text AND v.name >= @name::text ORDER BY v.name LIMIT @most::integer)
    UNION ALL
    (SELECT v.provider, v.name FROM verbs v
      WHERE v.tenant_id = @tenant_id::uuid AND v.provider = @provider::text AND v.name < @name::text ORDER BY v.name DESC LIMIT @most::integer)
    UNION ALL
    SELECT h.slug, above.name FROM home h CROSS JOIN LATERAL (SELECT v.name FROM platform_verbs v
      WHERE v.provider = h.slug AND v.name >= @name::text ORDER BY v.name LIMIT @most::integer) above
    UNION ALL
    SELECT h.slug, below.name FROM home h CROSS JOIN LATERAL (SELECT v.name FROM platform_verbs v
      WHERE v.provider = h.slug AND v.name < @name::text ORDER BY v.name DESC LIMIT @most::integer) below
    UNION ALL
    SELECT o.slug, same.name FROM own o CROSS JOIN LATERAL (SELECT v.name FROM verbs v
      WHERE v.tenant_id = @tenant_id::uuid AND v.provider = o.slug AND v.name = @name::text LIMIT 1) same WHERE o.slug <> @provider::text
    UNION ALL
    SELECT s.slug, same.name FROM shared s CROSS JOIN LATERAL (SELECT v.name FROM platform_verbs v
      WHERE v.provider = s.slug AND v.name = @name::text LIMIT 1) same WHERE s.slug <> @provider::text) near;

-- name: ProviderSlugs :many
-- The slugs of the providers that the tenant can call: its own, and those of the platform that it has
-- enabled.
SELECT own.slug::text AS slug FROM (SELECT p.slug FROM providers p WHERE p.tenant_id = @tenant_id::uuid ORDER BY p.slug LIMIT @most::integer) own
 UNION
SELECT shared.slug FROM (SELECT e.slug FROM enabled_providers e WHERE e.tenant_id = @tenant_id::uuid ORDER BY e.slug LIMIT @most::integer) shared;

-- What a run and an evaluation need to know about a verb, without its large columns.
-- name: GetOwnVerbMeta :many
-- GetVerbMeta of the tenant's own verbs: that is enough for most calls, and the other half costs
-- time also where it finds nothing.
SELECT v.provider, v.name, v.domain, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.plan_hash, p.base_url, p.auth, p.updated_at, v.quarantine,
       trusted_places(v.tenant_id, v.provider, v.name, p.base_url, v.schema_hash, v.plan_hash) AS trusted,
       reaches_any_address(v.tenant_id, v.provider, v.name)::boolean AS egress
  FROM verbs v JOIN providers p ON p.tenant_id = v.tenant_id AND p.slug = v.provider
 WHERE v.tenant_id = @tenant_id AND v.provider = @provider AND v.name = @name;

-- name: GetVerbMeta :one
SELECT k.* FROM (
    SELECT false AS shared, v.provider, v.name, v.domain, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.plan_hash,
           p.base_url, p.auth, p.updated_at, v.quarantine, trusted_places(@tenant_id::uuid, v.provider, v.name, p.base_url, v.schema_hash, v.plan_hash) AS trusted,
           reaches_any_address(@tenant_id::uuid, v.provider, v.name)::boolean AS egress
      FROM verbs v JOIN providers p ON p.tenant_id = v.tenant_id AND p.slug = v.provider
     WHERE v.tenant_id = @tenant_id::uuid AND v.provider = @provider::text AND v.name = @name::text
    UNION ALL
    SELECT true, v.provider, v.name, v.domain, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.plan_hash,
           p.base_url, p.auth, p.updated_at, NULL::json, trusted_places(@tenant_id::uuid, v.provider, v.name, p.base_url, v.schema_hash, v.plan_hash),
           reaches_any_address(@tenant_id::uuid, v.provider, v.name)
      FROM enabled_providers e JOIN platform_providers p ON p.slug = e.slug JOIN platform_verbs v ON v.provider = e.slug
     WHERE e.tenant_id = @tenant_id::uuid AND e.slug = @provider::text AND v.name = @name::text
       AND NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = @tenant_id::uuid AND o.slug = @provider::text)) k
 LIMIT 1;

-- name: GetVerbArtefacts :one
SELECT schema_hash, plan_hash, schema, plan
  FROM verbs WHERE tenant_id = @tenant_id AND provider = @provider AND name = @name;

-- name: GetPlatformVerbArtefacts :one
SELECT schema_hash, plan_hash, schema, plan
  FROM platform_verbs WHERE provider = @provider AND name = @name;

-- GetVerbMeta for many verbs, with what a call presents and has. What is not there is left
-- out. The tenant's own provider hides the platform's. LIMIT 1 makes it one look-up each, in
-- whichever plan.
-- name: GetVerbMetas :many
SELECT k.* FROM (
    SELECT false AS shared, own.provider, own.name, own.domain, own.risk_level, own.operation_type, own.idempotency, own.schema_hash, own.plan_hash, own.base_url, own.auth, own.updated_at, own.quarantine, own.security, own.kind, own.schemes
      FROM (SELECT unnest(@providers::text[]) AS provider, unnest(@names::text[]) AS name) w
     CROSS JOIN LATERAL (
          SELECT v.provider, v.name, v.domain, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.plan_hash, p.base_url, p.auth, p.updated_at,
                 v.quarantine, v.security, coalesce(c.type, '')::text AS kind, coalesce(c.schemes::text, '')::text AS schemes
            FROM verbs v JOIN providers p ON p.tenant_id = v.tenant_id AND p.slug = v.provider
              LEFT JOIN LATERAL (
                   SELECT c.type, c.schemes FROM credentials c
                    WHERE c.tenant_id = @tenant_id::uuid AND c.provider = w.provider AND c.status = 'active' AND c.customer_id IS NULL
                    ORDER BY c.created_at DESC, c.id DESC LIMIT 1) c ON true
           WHERE v.tenant_id = @tenant_id::uuid AND v.provider = w.provider AND v.name = w.name LIMIT 1) own
    UNION ALL
    SELECT true, platform.provider, platform.name, platform.domain, platform.risk_level, platform.operation_type, platform.idempotency, platform.schema_hash, platform.plan_hash, platform.base_url, platform.auth, platform.updated_at, NULL::json, platform.security, platform.kind, platform.schemes
      FROM (SELECT unnest(@providers::text[]) AS provider, unnest(@names::text[]) AS name) w
     CROSS JOIN LATERAL (
          SELECT v.provider, v.name, v.domain, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.plan_hash, p.base_url, p.auth, p.updated_at,
                 v.security, coalesce(c.type, '')::text AS kind, coalesce(c.schemes::text, '')::text AS schemes
            FROM enabled_providers e JOIN platform_providers p ON p.slug = e.slug JOIN platform_verbs v ON v.provider = e.slug
              LEFT JOIN LATERAL (
                   SELECT c.type, c.schemes FROM credentials c
                    WHERE c.tenant_id = @tenant_id::uuid AND c.provider = w.provider AND c.status = 'active' AND c.customer_id IS NULL
                    ORDER BY c.created_at DESC, c.id DESC LIMIT 1) c ON true
           WHERE e.tenant_id = @tenant_id::uuid AND e.slug = w.provider AND v.name = w.name
             AND NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = @tenant_id::uuid AND o.slug = w.provider) LIMIT 1) platform) k;

-- name: GetVerbSchemas :many
SELECT own.schema_hash, own.schema
  FROM (SELECT unnest(@providers::text[]) AS provider, unnest(@names::text[]) AS name) w
 CROSS JOIN LATERAL (SELECT v.schema_hash, v.schema FROM verbs v
                      WHERE v.tenant_id = @tenant_id::uuid AND v.provider = w.provider AND v.name = w.name LIMIT 1) own;

-- name: GetPlatformVerbSchemas :many
SELECT platform.schema_hash, platform.schema
  FROM (SELECT unnest(@providers::text[]) AS provider, unnest(@names::text[]) AS name) w
 CROSS JOIN LATERAL (SELECT v.schema_hash, v.schema FROM platform_verbs v WHERE v.provider = w.provider AND v.name = w.name LIMIT 1) platform;
