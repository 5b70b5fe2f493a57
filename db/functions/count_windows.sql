-- count_windows returns what the windows of a call contain, as governance.Windows.Take reads it.
-- p_windows is what Stored writes. A window without a series was asked for a moment ago.
CREATE OR REPLACE FUNCTION count_windows(p_tenant uuid, p_run uuid, p_windows json) RETURNS json
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    u    record;
    r    record;
    w    record;
    n    record;
    list json[] := '{}';
BEGIN
    FOR u IN SELECT * FROM json_to_recordset(p_windows) AS x ("window" text, value text, also json, up numeric, down numeric, counts boolean, reads json) LOOP
        SELECT p.series, p.per, p.filled INTO w FROM policy_windows p WHERE p.tenant_id = p_tenant AND p.id = decode(u."window", 'hex') AND p.gone_at IS NULL;
        CONTINUE WHEN NOT FOUND;
        FOR r IN SELECT y.per FROM json_to_recordset(u.reads) AS y (per integer) LOOP
            SELECT * INTO n FROM count_window(p_tenant, p_run, w.series, window_values(u.value, u.also), r.per,
                                              CASE WHEN u.counts THEN coalesce(u.up, 0) ELSE 0 END, CASE WHEN u.counts THEN coalesce(u.down, 0) ELSE 0 END);
            list := list || json_build_object('window', u."window", 'per', r.per, 'low', n.low::text, 'high', n.high::text,
                                              'unknown', n.unknown, 'filled', w.filled AND r.per <= w.per);
        END LOOP;
    END LOOP;
    RETURN array_to_json(list);
END
$$;
