-- over_budget_message returns what a caller is told whose call is over a budget.
CREATE OR REPLACE FUNCTION over_budget_message(p_measure text, p_of_key boolean, p_month integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT format('The monthly budget of %s of this %s is used up. Nothing was sent. The budget begins again at %s.',
        CASE p_measure WHEN 'write_calls' THEN 'write calls' WHEN 'model_tokens' THEN 'model tokens' ELSE 'money' END,
        CASE WHEN p_of_key THEN 'API key' ELSE 'tenant' END,
        to_char(budget_resets_at(p_month) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
$$;
