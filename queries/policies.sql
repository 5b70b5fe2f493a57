-- Every change of a tenant's policies begins here: changes wait for each other on this row.
-- name: BumpPolicySet :one
INSERT INTO policy_sets (tenant_id, version) VALUES (@tenant_id, 1)
ON CONFLICT (tenant_id) DO UPDATE SET version = policy_sets.version + 1
RETURNING version;

-- name: PolicySetVersion :many
SELECT version FROM policy_sets WHERE tenant_id = @tenant_id;

-- One statement has one snapshot, so version, masks and policies belong together.
-- name: LoadPolicySet :many
SELECT s.version, s.mask_paths,
       coalesce((SELECT json_agg(json_build_object('id', p.id, 'version', p.version, 'name', p.name, 'mode', p.mode, 'document', p.document) ORDER BY p.id)
                   FROM policies p WHERE p.tenant_id = s.tenant_id AND p.enabled AND p.deleted_at IS NULL), '[]')::json AS policies
  FROM policy_sets s WHERE s.tenant_id = @tenant_id;

-- name: InsertPolicy :exec
INSERT INTO policies (id, tenant_id, version, name, description, enabled, mode, priority, action, document, instructions,
                      created_by, created_at, updated_by, updated_at)
VALUES (@id, @tenant_id, 1, @name, @description, @enabled, @mode, @priority, @action, @document, @instructions,
        @changed_by, @changed_at, @changed_by, @changed_at);

-- name: InsertPolicyVersion :exec
-- The version counts in the bytes of its policy.
WITH counted AS (
    UPDATE policies SET bytes = bytes + octet_length((@policy::json)::text) WHERE tenant_id = @tenant_id AND id = @policy_id
)
INSERT INTO policy_versions (tenant_id, policy_id, version, change, policy, changed_by, changed_at)
VALUES (@tenant_id, @policy_id, @version, @change, @policy::json, @changed_by, @changed_at);

-- name: ForgetPolicyVersions :one
-- See db/functions/forget_policy_versions.sql.
SELECT forget_policy_versions(@tenant_id, @policy_id, @versions, @bytes, @since, @judged, @before)::text AS over;

-- name: GetPolicy :one
SELECT * FROM policies WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL;

-- name: UpdatePolicy :one
UPDATE policies SET version = version + 1, name = @name, description = @description, enabled = @enabled, mode = @mode,
       priority = @priority, action = @action, document = @document, instructions = @instructions, updated_by = @changed_by, updated_at = @changed_at
 WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL
RETURNING *;

-- name: GetPolicyVersion :one
SELECT * FROM policy_versions WHERE tenant_id = @tenant_id AND policy_id = @policy_id AND version = @version;

-- name: RestorePolicy :one
-- UpdatePolicy, which also brings back a deleted policy.
UPDATE policies SET version = version + 1, name = @name, description = @description, enabled = @enabled, mode = @mode,
       priority = @priority, action = @action, document = @document, instructions = @instructions, updated_by = @changed_by, updated_at = @changed_at,
       deleted_at = NULL
 WHERE tenant_id = @tenant_id AND id = @id
RETURNING *;

-- name: DeletePolicy :one
UPDATE policies SET version = version + 1, deleted_at = @changed_at, updated_by = @changed_by, updated_at = @changed_at
 WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL
RETURNING *;

-- The caller asks for one row more than the page, to know whether there are more.
-- name: ListPolicies :many
SELECT * FROM policies
 WHERE tenant_id = @tenant_id AND deleted_at IS NULL
   AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
   AND (sqlc.narg('enabled')::boolean IS NULL OR enabled = sqlc.narg('enabled'))
   AND (sqlc.narg('mode')::text IS NULL OR mode = sqlc.narg('mode'))
   AND (sqlc.narg('action')::text IS NULL OR action = sqlc.narg('action'))
 ORDER BY id DESC
 LIMIT @n;

-- The versions of a deleted policy too, because approvals and audit records name them.
-- name: ListPolicyVersions :many
SELECT * FROM policy_versions
 WHERE tenant_id = @tenant_id AND policy_id = @policy_id
   AND (sqlc.narg('before')::integer IS NULL OR version < sqlc.narg('before'))
 ORDER BY version DESC
 LIMIT @n;

-- name: SetMaskPaths :one
INSERT INTO policy_sets (tenant_id, version, mask_paths) VALUES (@tenant_id, 1, @mask_paths)
ON CONFLICT (tenant_id) DO UPDATE SET version = policy_sets.version + 1, mask_paths = excluded.mask_paths
RETURNING version;

-- name: GetMaskPaths :many
SELECT mask_paths FROM policy_sets WHERE tenant_id = @tenant_id;

-- Users who were not removed, including invited ones.
-- name: TenantUsers :many
SELECT id FROM users WHERE tenant_id = @tenant_id AND id = ANY (@ids::uuid[]) AND removed_at IS NULL;

-- name: CountEligible :one
SELECT count(*) FROM users
 WHERE tenant_id = @tenant_id AND joined_at IS NOT NULL AND removed_at IS NULL AND (id = ANY (@ids::uuid[]) OR role = ANY (@roles::text[]));

-- name: MissingProviders :many
SELECT w.slug::text FROM unnest(@slugs::text[]) AS w (slug)
 WHERE NOT EXISTS (SELECT FROM visible_providers p WHERE p.tenant_id = @tenant_id AND p.slug = w.slug);

-- name: MissingDomains :many
SELECT w.domain::text FROM unnest(@domains::text[]) AS w (domain)
 WHERE NOT EXISTS (SELECT FROM visible_verbs v WHERE v.tenant_id = @tenant_id AND v.domain = w.domain);

-- The matchers that fit no verb, by their places. The patterns are those of LIKE, and '' fits
-- everything. Where a matcher names a provider, only its verbs are read.
-- name: MissingVerbs :many
SELECT w.place::integer AS place
  FROM (SELECT unnest(@places::integer[]) AS place, unnest(@patterns::text[]) AS pattern, unnest(@providers::text[]) AS provider,
               unnest(@risks::text[]) AS risk, unnest(@operations::text[]) AS operation, unnest(@domains::text[]) AS domain) w
 WHERE (w.provider <> '' AND NOT EXISTS (
           SELECT FROM visible_verbs v
            WHERE v.tenant_id = @tenant_id AND v.provider = w.provider AND (w.pattern = '' OR v.provider || ':' || v.name LIKE w.pattern)
              AND w.risk IN ('', v.risk_level) AND w.operation IN ('', v.operation_type) AND w.domain IN ('', v.domain)))
    OR (w.provider = '' AND NOT EXISTS (
           SELECT FROM visible_verbs v
            WHERE v.tenant_id = @tenant_id AND (w.pattern = '' OR v.provider || ':' || v.name LIKE w.pattern)
              AND w.risk IN ('', v.risk_level) AND w.operation IN ('', v.operation_type) AND w.domain IN ('', v.domain)));

-- How many verbs the matchers of a policy fit, and how many of these are not high risk. The
-- matchers are given as for MissingVerbs, with where each stands: any, all or except.
-- Unless @anywhere, only the verbs of the providers @within are read.
-- name: CountMatchedVerbs :one
SELECT count(*) AS verbs, count(*) FILTER (WHERE v.risk_level <> 'high') AS open
  FROM visible_providers p JOIN visible_verbs v ON v.tenant_id = p.tenant_id AND v.provider = p.slug
 WHERE p.tenant_id = @tenant_id AND (@anywhere::boolean OR p.slug = ANY (@within::text[]))
   AND (SELECT coalesce(bool_or(m.fits) FILTER (WHERE m.kind = 'any'), true)
           AND coalesce(bool_and(m.fits) FILTER (WHERE m.kind = 'all'), true)
           AND NOT coalesce(bool_or(m.fits) FILTER (WHERE m.kind = 'except'), false)
          FROM (SELECT w.kind, (w.pattern = '' OR v.provider || ':' || v.name LIKE w.pattern) AND w.provider IN ('', v.provider)
                       AND w.risk IN ('', v.risk_level) AND w.operation IN ('', v.operation_type) AND w.domain IN ('', v.domain) AS fits
                  FROM (SELECT unnest(@kinds::text[]) AS kind, unnest(@patterns::text[]) AS pattern, unnest(@providers::text[]) AS provider,
                               unnest(@risks::text[]) AS risk, unnest(@operations::text[]) AS operation, unnest(@domains::text[]) AS domain) w) m);

-- name: MatchedSchemas :many
SELECT v.provider, v.name, v.schema
  FROM visible_providers p JOIN visible_verbs v ON v.tenant_id = p.tenant_id AND v.provider = p.slug
 WHERE p.tenant_id = @tenant_id AND (@anywhere::boolean OR p.slug = ANY (@within::text[]))
   AND (v.provider, v.name) > (@after_provider::text, @after_name::text)
   AND (SELECT coalesce(bool_or(m.fits) FILTER (WHERE m.kind = 'any'), true)
           AND coalesce(bool_and(m.fits) FILTER (WHERE m.kind = 'all'), true)
           AND NOT coalesce(bool_or(m.fits) FILTER (WHERE m.kind = 'except'), false)
          FROM (SELECT w.kind, (w.pattern = '' OR v.provider || ':' || v.name LIKE w.pattern) AND w.provider IN ('', v.provider)
                       AND w.risk IN ('', v.risk_level) AND w.operation IN ('', v.operation_type) AND w.domain IN ('', v.domain) AS fits
                  FROM (SELECT unnest(@kinds::text[]) AS kind, unnest(@patterns::text[]) AS pattern, unnest(@providers::text[]) AS provider,
                               unnest(@risks::text[]) AS risk, unnest(@operations::text[]) AS operation, unnest(@domains::text[]) AS domain) w) m)
 ORDER BY v.provider, v.name
 LIMIT @n;

-- Enabled policies of an action besides one, for the search for a policy that is the same.
-- name: PoliciesOfAction :many
SELECT id, name, document FROM policies
 WHERE tenant_id = @tenant_id AND deleted_at IS NULL AND enabled AND action = @action AND id <> @besides AND id > @after
 ORDER BY id
 LIMIT @n;

-- name: PolicyEverWas :one
SELECT EXISTS (SELECT FROM policies WHERE tenant_id = @tenant_id AND id = @id);
