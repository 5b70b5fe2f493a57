-- forms_to_trust returns what a trust of a provider and its verbs counts for: the base URL, and of each
-- verb its schema and plan. The row with the name '' is that of the provider. The tenant's own provider
-- hides the platform's.
CREATE OR REPLACE FUNCTION forms_to_trust(p_tenant uuid, p_provider text)
RETURNS TABLE (name text, base_url text, schema_hash bytea, plan_hash bytea) LANGUAGE sql STABLE AS $$
    WITH own AS (SELECT p.base_url FROM providers p WHERE p.tenant_id = p_tenant AND p.slug = p_provider),
         shared AS (SELECT p.base_url FROM platform_providers p JOIN enabled_providers e ON e.tenant_id = p_tenant AND e.slug = p.slug
                     WHERE p.slug = p_provider AND NOT EXISTS (SELECT FROM own))
    SELECT '', o.base_url, ''::bytea, ''::bytea FROM own o
    UNION ALL
    SELECT v.name, o.base_url, v.schema_hash, v.plan_hash FROM own o JOIN verbs v ON v.tenant_id = p_tenant AND v.provider = p_provider
    UNION ALL
    SELECT '', s.base_url, ''::bytea, ''::bytea FROM shared s
    UNION ALL
    SELECT v.name, s.base_url, v.schema_hash, v.plan_hash FROM shared s JOIN platform_verbs v ON v.provider = p_provider;
$$;
