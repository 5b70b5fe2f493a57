-- fill_window adds recorded runs to a window, each once. p_runs has run, value, up, down, minute
-- and done. The caller has locked the runs that may still change.
CREATE OR REPLACE FUNCTION fill_window(p_tenant uuid, p_series uuid, p_runs json) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    r record;
BEGIN
    PERFORM lock_windows(ARRAY(SELECT p_series::text || x.value FROM json_to_recordset(p_runs) AS x (value text)));
    FOR r IN SELECT x.run, decode(x.value, 'hex') AS digest, x.up, x.down, x.minute, x.done
               FROM json_to_recordset(p_runs) AS x (run uuid, value text, up numeric, down numeric, minute integer, done boolean) LOOP
        INSERT INTO window_entries (tenant_id, run_id, series, value, minute, up, down, done)
        VALUES (p_tenant, r.run, p_series, r.digest, r.minute, r.up, r.down, r.done) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            PERFORM add_to_window(p_tenant, p_series, r.digest, r.minute, r.up, r.down, r.done, 1);
        END IF;
    END LOOP;
END
$$;
