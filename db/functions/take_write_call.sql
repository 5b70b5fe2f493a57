-- take_write_call counts the write of a run in the budgets of its tenant and its key, and notes them
-- in the run. It raises over_budget where one of them has no room. An attempt that may have been sent
-- was counted, or began before there was a budget, so it is not counted again.
--
-- It is the last statement of the transaction that moves the run to sending: the stripe that it
-- changes is locked until the commit. The key's budget comes first everywhere, so that no two
-- transactions wait for each other.
CREATE OR REPLACE FUNCTION take_write_call(p_tenant uuid, p_run uuid) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    r       record;
    b       record;
    here    integer := budget_month();
    ids     uuid[] := '{}';
    counted boolean;
BEGIN
    SELECT x.key_id, x.charged, x.maybe_sent INTO r FROM runs x WHERE x.tenant_id = p_tenant AND x.id = p_run;
    IF r.charged IS NOT NULL OR r.maybe_sent THEN
        RETURN false;
    END IF;
    FOR b IN
        SELECT x.id, s.of_key FROM (VALUES (r.key_id, true), (p_tenant, false)) AS s (subject, of_key)
         CROSS JOIN LATERAL (SELECT y.id FROM budgets y WHERE y.tenant_id = p_tenant AND y.measure = 'write_calls' AND y.subject = s.subject OFFSET 0) AS x
         ORDER BY s.of_key DESC
    LOOP
        counted := spend_budget(p_tenant, b.id, here);
        IF NOT counted THEN
            PERFORM over_budget('write_calls', b.of_key, here);
        ELSIF counted THEN
            ids := ids || b.id;
        END IF;
    END LOOP;
    IF ids = '{}' THEN
        RETURN false;
    END IF;
    UPDATE runs x SET charged = ids, charged_month = here WHERE x.tenant_id = p_tenant AND x.id = p_run;
    RETURN true;
END
$$;
