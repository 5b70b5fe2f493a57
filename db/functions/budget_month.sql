-- budget_month returns the present month of UTC, as 202612, by the one clock of all processes.
CREATE OR REPLACE FUNCTION budget_month() RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN to_char(request_clock() AT TIME ZONE 'UTC', 'YYYYMM')::integer;
END
$$;
