-- over_budget_wait returns after how many milliseconds the budgets of the month begin again.
CREATE OR REPLACE FUNCTION over_budget_wait(p_month integer) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN greatest(1, extract(epoch FROM budget_resets_at(p_month) - request_clock()) * 1000)::bigint;
END
$$;
