-- add_to_window adds a run to what a window counts by minutes and by hours, and takes it away where
-- p_sign is -1. The caller has the lock of the window and the value. What was deleted for its age
-- is not made again by what is taken away.
CREATE OR REPLACE FUNCTION add_to_window(p_tenant uuid, p_series uuid, p_value bytea, p_minute integer, p_up numeric, p_down numeric, p_done boolean, p_sign integer)
RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    finished numeric := CASE WHEN p_done THEN coalesce(p_up, 0) * p_sign ELSE 0 END;
    up       numeric := CASE WHEN p_done THEN 0 ELSE coalesce(p_up, 0) * p_sign END;
    down     numeric := coalesce(p_down, 0) * p_sign;
    u        integer := (p_up IS NULL)::integer * p_sign;
    g        integer;
BEGIN
    FOREACH g IN ARRAY ARRAY[1, 60] LOOP
        UPDATE window_counts c SET done = c.done + finished, ups = c.ups + up, downs = c.downs + down, unknown = c.unknown + u
         WHERE c.tenant_id = p_tenant AND c.series = p_series AND c.value = p_value AND c.grain = g AND c.minute = p_minute - p_minute % g;
        IF NOT FOUND AND p_sign > 0 THEN
            INSERT INTO window_counts (tenant_id, series, value, grain, minute, done, ups, downs, unknown)
            VALUES (p_tenant, p_series, p_value, g, p_minute - p_minute % g, finished, up, down, u);
        END IF;
    END LOOP;
END
$$;
