-- lock_windows takes the locks of windows and values until the transaction ends. A
-- transaction that sends a run, ends it or counts it locks the run first, then its windows, in one
-- order, then the circuit of its provider, then the counters of budgets. None does so for two runs,
-- apart from the one that fills a window: it locks runs by their ids and all windows at once, and
-- nothing after them. So no two transactions wait for each other.
CREATE OR REPLACE FUNCTION lock_windows(p_names text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    k bigint;
BEGIN
    FOR k IN SELECT DISTINCT hashtextextended('window:' || n.name, 0) FROM unnest(p_names) AS n (name) ORDER BY 1 LOOP
        PERFORM pg_advisory_xact_lock(k);
    END LOOP;
END
$$;
