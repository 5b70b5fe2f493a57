-- budget_resets_at returns when the month ends, at which its budgets begin again.
CREATE OR REPLACE FUNCTION budget_resets_at(p_month integer) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT (make_date(p_month / 100, p_month % 100, 1) + interval '1 month') AT TIME ZONE 'UTC'
$$;
