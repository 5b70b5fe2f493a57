-- leave_windows takes a run out of all windows. The caller has their locks.
CREATE OR REPLACE FUNCTION leave_windows(p_tenant uuid, p_run uuid) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    e record;
BEGIN
    FOR e IN DELETE FROM window_entries x WHERE x.tenant_id = p_tenant AND x.run_id = p_run
             RETURNING x.series, x.value, x.minute, x.up, x.down, x.done LOOP
        PERFORM add_to_window(p_tenant, e.series, e.value, e.minute, e.up, e.down, e.done, -1);
    END LOOP;
END
$$;
