-- trusted_places returns, of a verb that the tenant trusts, the JSON pointers of the places in its
-- result that taint all the same; null for any other verb. Trust ends where the verb or the address of
-- its provider is not what the tenant has trusted.
CREATE OR REPLACE FUNCTION trusted_places(p_tenant uuid, p_provider text, p_verb text, p_base_url text, p_schema bytea, p_plan bytea)
RETURNS json LANGUAGE sql STABLE AS $$
    SELECT t.taint FROM trusted_sources t
     WHERE t.tenant_id = p_tenant AND t.provider = p_provider AND t.name = p_verb AND t.trust = 'own'
       AND t.base_url = p_base_url AND t.schema_hash = p_schema AND t.plan_hash = p_plan;
$$;
