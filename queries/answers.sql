-- The schemas of what verbs answer: see internal/provider/catalog/answers.go.

-- name: DeleteVerbAnswers :exec
DELETE FROM verb_answers WHERE tenant_id = @tenant_id AND provider = @provider;

-- name: InsertVerbAnswers :exec
INSERT INTO verb_answers (tenant_id, provider, name, answer)
SELECT @tenant_id, @provider, unnest(@names::text[]), unnest(@answers::text[]);

-- name: DeletePlatformVerbAnswers :exec
DELETE FROM platform_verb_answers WHERE provider = @provider;

-- name: InsertPlatformVerbAnswers :exec
INSERT INTO platform_verb_answers (provider, name, answer)
SELECT @provider, unnest(@names::text[]), unnest(@answers::text[]);

-- As in GetVerbMeta, the tenant's own provider hides the platform's.
-- name: GetVerbAnswer :many
SELECT k.answer FROM (
    SELECT a.answer FROM verb_answers a
     WHERE a.tenant_id = @tenant_id::uuid AND a.provider = @provider::text AND a.name = @name::text
    UNION ALL
    SELECT a.answer FROM enabled_providers e JOIN platform_verb_answers a ON a.provider = e.slug
     WHERE e.tenant_id = @tenant_id::uuid AND e.slug = @provider::text AND a.name = @name::text
       AND NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = @tenant_id::uuid AND o.slug = @provider::text)) k
 LIMIT 1;
