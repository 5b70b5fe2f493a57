-- reaches_any_address reports whether the tenant has marked a verb as one that reaches an address of the
-- caller's choice. A new document or another base URL does not end that.
CREATE OR REPLACE FUNCTION reaches_any_address(p_tenant uuid, p_provider text, p_verb text)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM trusted_sources t WHERE t.tenant_id = p_tenant AND t.provider = p_provider AND t.name = p_verb AND t.egress);
$$;
