-- begin_budget_month makes the counters of a budget for a month, where there are none. The lock on
-- the budget keeps its limit as it is until they are committed.
CREATE OR REPLACE FUNCTION begin_budget_month(p_tenant uuid, p_budget uuid, p_month integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    b budgets;
    n integer;
BEGIN
    SELECT * INTO b FROM budgets WHERE tenant_id = p_tenant AND id = p_budget FOR SHARE;
    n := budget_stripes(b.measure, b.most);
    INSERT INTO budget_counters (tenant_id, budget_id, month, stripe, share, level)
        SELECT p_tenant, p_budget, p_month, s.stripe, s.share, budget_level(0, s.share)
          FROM (SELECT i AS stripe, b.most / n + (i < b.most % n)::integer AS share FROM generate_series(0, n - 1) AS i) AS s
        ON CONFLICT ON CONSTRAINT budget_counters_pkey DO NOTHING;
END
$$;
