-- return_write_call gives back what take_write_call has counted for a run whose attempt provably had
-- no effect. The lock on the budget keeps a change of its limit away: where the limit was lowered
-- below what is used, the first stripe has to be filled first.
CREATE OR REPLACE FUNCTION return_write_call(p_tenant uuid, p_run uuid) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    r    record;
    b    uuid;
    into_stripe integer;
BEGIN
    SELECT x.charged, x.charged_month INTO r FROM runs x WHERE x.tenant_id = p_tenant AND x.id = p_run;
    IF r.charged IS NULL THEN
        RETURN false;
    END IF;
    FOREACH b IN ARRAY r.charged LOOP
        PERFORM FROM budgets x WHERE x.tenant_id = p_tenant AND x.id = b FOR SHARE;
        SELECT c.stripe INTO into_stripe FROM budget_counters c
         WHERE c.tenant_id = p_tenant AND c.budget_id = b AND c.month = r.charged_month AND c.stripe = 0 AND c.used > c.share;
        IF NOT FOUND THEN
            SELECT c.stripe INTO into_stripe FROM budget_counters c
             WHERE c.tenant_id = p_tenant AND c.budget_id = b AND c.month = r.charged_month
             ORDER BY (c.stripe - pg_backend_pid() % 16 + 16) % 16 LIMIT 1;
        END IF;
        UPDATE budget_counters c SET used = c.used - 1, level = budget_level(c.used - 1, c.share)
         WHERE c.tenant_id = p_tenant AND c.budget_id = b AND c.month = r.charged_month AND c.stripe = into_stripe;
    END LOOP;
    UPDATE runs x SET charged = NULL, charged_month = NULL WHERE x.tenant_id = p_tenant AND x.id = p_run;
    RETURN true;
END
$$;
