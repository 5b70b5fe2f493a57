-- lock_windows takes the locks of windows and values until the transaction ends. All transactions
-- take them in one order, and before those of budgets. So no two transactions wait for each other.
CREATE OR REPLACE FUNCTION lock_windows(p_names text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    k bigint;
BEGIN
    FOR k IN SELECT DISTINCT hashtextextended('window:' || n.name, 0) FROM unnest(p_names) AS n (name) ORDER BY 1 LOOP
        PERFORM pg_advisory_xact_lock(k);
    END LOOP;
END
$$;
