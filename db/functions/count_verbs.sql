-- count_verbs makes the counts of one provider match its verbs, in the transaction that
-- changed the verbs. Imports of a tenant's providers wait for each other here, because they
-- share the rows of provider '*'.
CREATE OR REPLACE FUNCTION count_verbs(p_tenant uuid, p_provider text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('verb_counts:' || p_tenant::text, 0));
    UPDATE verb_counts t SET n = t.n - old.n
      FROM verb_counts old
     WHERE old.tenant_id = p_tenant AND old.provider = p_provider
       AND t.tenant_id = p_tenant AND t.provider = '*' AND t.domain = old.domain AND t.risk_level = old.risk_level;
    DELETE FROM verb_counts WHERE tenant_id = p_tenant AND provider = p_provider;
    INSERT INTO verb_counts (tenant_id, provider, domain, risk_level, n)
        SELECT p_tenant, p_provider, coalesce(v.domain, '*'), coalesce(v.risk_level, '*'), count(*)
          FROM verbs v WHERE v.tenant_id = p_tenant AND v.provider = p_provider
         GROUP BY CUBE (v.domain, v.risk_level) HAVING count(*) > 0;
    INSERT INTO verb_counts (tenant_id, provider, domain, risk_level, n)
        SELECT p_tenant, '*', c.domain, c.risk_level, c.n
          FROM verb_counts c WHERE c.tenant_id = p_tenant AND c.provider = p_provider
        ON CONFLICT ON CONSTRAINT verb_counts_pkey DO UPDATE SET n = verb_counts.n + excluded.n;
    DELETE FROM verb_counts WHERE tenant_id = p_tenant AND provider = '*' AND n = 0;
END
$$;
