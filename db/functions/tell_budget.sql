-- tell_budget returns {level that the tenant was told of, level that is reached, used, limit} of a
-- budget in a month, and notes that the tenant is told. It returns null where there is nothing to
-- tell. All stripes are locked, so no transaction under way is missed, and only one process tells.
CREATE OR REPLACE FUNCTION tell_budget(p_tenant uuid, p_budget uuid, p_month integer) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    t record;
BEGIN
    PERFORM FROM budget_counters c WHERE c.tenant_id = p_tenant AND c.budget_id = p_budget AND c.month = p_month
      ORDER BY c.stripe FOR NO KEY UPDATE;
    SELECT max(c.told) AS told, sum(c.used) AS used, sum(c.share) AS share,
           CASE WHEN min(c.level) = 2 THEN 2 ELSE least(1, budget_level(sum(c.used), sum(c.share))) END AS level INTO t
      FROM budget_counters c WHERE c.tenant_id = p_tenant AND c.budget_id = p_budget AND c.month = p_month;
    IF t.told IS NULL OR t.level <= t.told THEN
        RETURN NULL;
    END IF;
    UPDATE budget_counters c SET told = t.level WHERE c.tenant_id = p_tenant AND c.budget_id = p_budget AND c.month = p_month;
    RETURN ARRAY[t.told, t.level, t.used, t.share]::bigint[];
END
$$;
