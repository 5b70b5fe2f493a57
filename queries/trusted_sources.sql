-- name: TrustOf :many
-- What is said of a provider and of one of its verbs (of all of them where none is named), and whether it
-- still counts.
SELECT t.name, t.trust, t.taint, t.inherited, t.egress, trust_counts(t.tenant_id, t.provider, t.name, t.base_url, t.schema_hash, t.plan_hash)::boolean AS counts
  FROM trusted_sources t
 WHERE t.tenant_id = @tenant_id AND t.provider = @provider AND (sqlc.narg('name')::text IS NULL OR t.name = sqlc.narg('name'));

-- name: TrustProvider :exec
-- The provider with all its verbs, as they are now. Verbs of which it was said that they are external
-- stay so, and places stay as they are.
INSERT INTO trusted_sources AS t (tenant_id, provider, name, trust, taint, inherited, base_url, schema_hash, plan_hash)
SELECT @tenant_id::uuid, @provider::text, f.name, 'own', '[]', f.name <> '', f.base_url, f.schema_hash, f.plan_hash
  FROM forms_to_trust(@tenant_id::uuid, @provider::text) f
ON CONFLICT (tenant_id, provider, name) DO UPDATE SET trust = 'own', base_url = excluded.base_url, schema_hash = excluded.schema_hash, plan_hash = excluded.plan_hash
 WHERE t.inherited OR t.trust = 'own' OR t.name = '';

-- name: DistrustProvider :exec
-- Its verbs are trusted no longer, those of which it was said by themselves too. Their places stay, and so
-- does what was said to be external.
UPDATE trusted_sources SET trust = 'external', inherited = (inherited OR trust = 'own' AND name <> '') WHERE tenant_id = @tenant_id AND provider = @provider;

-- name: TrustVerb :execrows
INSERT INTO trusted_sources AS t (tenant_id, provider, name, trust, taint, inherited, egress, base_url, schema_hash, plan_hash)
SELECT @tenant_id::uuid, @provider::text, f.name, @trust::text, @taint::json, @inherited::boolean, @egress::boolean, f.base_url, f.schema_hash, f.plan_hash
  FROM forms_to_trust(@tenant_id::uuid, @provider::text) f WHERE f.name = @name::text
ON CONFLICT (tenant_id, provider, name) DO UPDATE SET trust = excluded.trust, taint = excluded.taint, inherited = excluded.inherited, egress = excluded.egress,
    base_url = excluded.base_url, schema_hash = excluded.schema_hash, plan_hash = excluded.plan_hash;

-- name: ForgetTrust :exec
-- Nothing is trusted of a provider that is deleted.
DELETE FROM trusted_sources WHERE tenant_id = @tenant_id AND provider = @provider;

-- name: ForgetAnswers :exec
-- Verbs that have other answers now are trusted no longer. One with places stays so until it is said of
-- the verb itself, because its places are about the answers before.
UPDATE trusted_sources SET trust = 'external', inherited = inherited AND taint::text = '[]' WHERE tenant_id = @tenant_id AND provider = @provider AND name = ANY (@names::text[]);

-- name: AnswersOfProvider :many
SELECT name, answer FROM verb_answers WHERE tenant_id = @tenant_id AND provider = @provider;

-- name: TrustedVerbs :many
-- The verbs whose answers are the tenant's own words, without a place that taints, as trusted_places says it of
-- one. The tenant's own provider hides the platform's.
SELECT t.provider, t.name FROM trusted_sources t
  JOIN providers p ON p.tenant_id = t.tenant_id AND p.slug = t.provider AND p.base_url = t.base_url
  JOIN verbs v ON v.tenant_id = t.tenant_id AND v.provider = t.provider AND v.name = t.name AND v.schema_hash = t.schema_hash AND v.plan_hash = t.plan_hash
 WHERE t.tenant_id = @tenant_id AND t.trust = 'own' AND t.taint::text = '[]'
 UNION ALL
SELECT t.provider, t.name FROM trusted_sources t
  JOIN platform_providers p ON p.slug = t.provider AND p.base_url = t.base_url
  JOIN platform_verbs v ON v.provider = t.provider AND v.name = t.name AND v.schema_hash = t.schema_hash AND v.plan_hash = t.plan_hash
 WHERE t.tenant_id = @tenant_id AND t.trust = 'own' AND t.taint::text = '[]'
   AND NOT EXISTS (SELECT FROM providers own WHERE own.tenant_id = t.tenant_id AND own.slug = t.provider);
