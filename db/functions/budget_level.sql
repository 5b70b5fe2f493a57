-- budget_level returns 2 where all of a share is used, 1 from 80 % of it, otherwise 0. If no stripe
-- of a budget is at level 1, the budget is not at 80 %, because the shares add up to the limit.
CREATE OR REPLACE FUNCTION budget_level(p_used numeric, p_share numeric) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_used >= p_share THEN 2 WHEN p_used * 5 >= p_share * 4 THEN 1 ELSE 0 END
$$;
