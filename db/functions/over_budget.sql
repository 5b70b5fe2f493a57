-- over_budget undoes the transaction of what is over a budget. db translates the code into the fault
-- BUDGET_EXCEEDED. Its message is the given one, and its detail is after how many milliseconds the
-- budget begins again.
CREATE OR REPLACE FUNCTION over_budget(p_measure text, p_of_key boolean, p_month integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', over_budget_message(p_measure, p_of_key, p_month)
        USING ERRCODE = 'AR003', DETAIL = over_budget_wait(p_month)::text;
END
$$;
