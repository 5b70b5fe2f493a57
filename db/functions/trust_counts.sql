-- trust_counts reports whether a provider (the name '') or a verb is what the tenant has trusted: at the
-- same base URL, and a verb with the same schema and plan. The tenant's own provider hides the platform's.
CREATE OR REPLACE FUNCTION trust_counts(p_tenant uuid, p_provider text, p_verb text, p_base_url text, p_schema bytea, p_plan bytea)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM providers p WHERE p.tenant_id = p_tenant AND p.slug = p_provider)
        THEN EXISTS (SELECT FROM providers p WHERE p.tenant_id = p_tenant AND p.slug = p_provider AND p.base_url = p_base_url)
             AND (p_verb = '' OR EXISTS (
                 SELECT FROM verbs v WHERE v.tenant_id = p_tenant AND v.provider = p_provider AND v.name = p_verb AND v.schema_hash = p_schema AND v.plan_hash = p_plan))
        ELSE EXISTS (SELECT FROM enabled_providers e WHERE e.tenant_id = p_tenant AND e.slug = p_provider)
             AND EXISTS (SELECT FROM platform_providers p WHERE p.slug = p_provider AND p.base_url = p_base_url)
             AND (p_verb = '' OR EXISTS (
                 SELECT FROM platform_verbs v WHERE v.provider = p_provider AND v.name = p_verb AND v.schema_hash = p_schema AND v.plan_hash = p_plan)) END;
$$;
