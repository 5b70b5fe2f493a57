-- call_target returns what a call of a verb needs, as JSON: the tenant's own verb with its
-- provider, the credential that the call uses, the version of the tenant's policies, the kill
-- switches that may cover the call, the provider's circuit, and which of the digests are those of
-- the tenant's own secrets. For a call that names a customer it also has the customer's record and the texts that name the customer. Bytes are in base64. A part is null
-- where there is none: "verb" also where the verb is one of the platform's, "own" where
-- p_digests is null. internal/service/dispatch reads it. The readers of the parts are
-- catalog.ReadMeta and vault.ReadNewest; the credential is chosen as NewestCredential does, and is
-- none but p_credential where that is not null.
--
-- It is a function, so that a claim asks for it only where the claim is fresh, and a repeat
-- does not pay for it.
--
-- plan_cache_mode: a plan for the digests of one call looks cheaper than one for any digests, so
-- Postgres would plan the statement at each call. That takes ten times as long as running it.
CREATE OR REPLACE FUNCTION call_target(p_tenant uuid, p_provider text, p_verb text, p_customer text, p_credential uuid, p_digests bytea[])
RETURNS json LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    names text[] := CASE WHEN p_customer IS NOT NULL THEN customer_names(p_tenant, p_customer) END;
BEGIN
    RETURN json_build_object(
        'verb', (SELECT json_build_object(
                   'domain', v.domain, 'risk_level', v.risk_level, 'operation_type', v.operation_type, 'idempotency', v.idempotency,
                   'schema_hash', encode(v.schema_hash, 'base64'), 'plan_hash', encode(v.plan_hash, 'base64'),
                   'base_url', p.base_url, 'auth', p.auth, 'provider_at', p.updated_at, 'quarantine', v.quarantine,
                   'trusted', trusted_places(p_tenant, v.provider, v.name, p.base_url, v.schema_hash, v.plan_hash),
                   'egress', reaches_any_address(p_tenant, v.provider, v.name))
              FROM verbs v JOIN providers p ON p.tenant_id = v.tenant_id AND p.slug = v.provider
             WHERE v.tenant_id = p_tenant AND v.provider = p_provider AND v.name = p_verb),
        'credential', (SELECT json_build_object(
                   'id', c.id, 'provider', c.provider, 'type', c.type, 'label', c.label, 'customer_id', c.customer_id,
                   'origin', c.origin, 'allowed_hosts', c.allowed_hosts, 'status', c.status, 'version', c.version,
                   'kek_id', c.kek_id, 'wrapped_key', encode(c.wrapped_key, 'base64'), 'ciphertext', encode(c.ciphertext, 'base64'),
                   'updated_at', c.updated_at, 'schemes', encode(convert_to(c.schemes::text, 'UTF8'), 'base64'))
              FROM credentials c
             WHERE c.tenant_id = p_tenant AND c.provider = p_provider AND c.status IN ('active', 'expired')
               AND (c.customer_id IS NULL OR c.customer_id = ANY (names))
               AND (p_credential IS NULL OR c.id = p_credential)
             ORDER BY (c.customer_id IS NOT NULL) DESC, (c.status = 'active') DESC, c.created_at DESC, c.id DESC
             LIMIT 1),
        'customer', CASE WHEN p_customer IS NOT NULL THEN customer_record(p_tenant, p_customer) END,
        'customer_names', names,
        'kill_switches', kill_switches_over(p_tenant, p_provider, p_verb),
        'circuit', circuit_over(p_tenant, p_provider),
        'policy_version', coalesce((SELECT s.version FROM policy_sets s WHERE s.tenant_id = p_tenant), 0),
        'own', CASE WHEN cardinality(p_digests) > 0 THEN coalesce(
                   (SELECT json_agg(DISTINCT encode(found.digest, 'base64')) -- one look-up each, as OwnDigests
                      FROM unnest(p_digests) AS wanted (digest) CROSS JOIN LATERAL (
                          SELECT d.digest FROM credential_digests d
                           WHERE d.tenant_id = p_tenant AND d.digest = wanted.digest LIMIT 1) found), '[]'::json)
                    WHEN p_digests IS NOT NULL THEN '[]'::json END);
END
$$;
