-- enter_windows is the gate of the windows of a call, in the transaction that moves its run to
-- sending. It locks each window and value, and where a customer has several names the one lock of
-- them all, and counts again. Where the decision may be another one by
-- now, it raises an error that undoes the transaction; db.IsWindowMoved finds it. Otherwise the run is
-- counted from now on, if p_counted. p_windows is what governance.Windows.Stored writes.
--
-- It runs before the statements that take a circuit and count in budgets: a run that ends takes the locks in that order.
CREATE OR REPLACE FUNCTION enter_windows(p_tenant uuid, p_run uuid, p_windows json, p_counted boolean) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    now_minute integer := floor(extract(epoch FROM now()) / 60)::integer;
    u          record;
    r          record;
    n          record;
BEGIN
    IF (SELECT x.xmin = pg_current_xact_id()::xid AND x.state = 'sending' FROM runs x WHERE x.tenant_id = p_tenant AND x.id = p_run) IS NOT TRUE THEN
        RETURN run_not_changed();
    END IF;
    PERFORM lock_windows(ARRAY(
        SELECT p.series::text || encode(e.value, 'hex') FROM window_entries e JOIN policy_windows p ON p.tenant_id = e.tenant_id AND p.series = e.series
         WHERE e.tenant_id = p_tenant AND e.run_id = p_run
        UNION
        SELECT p.series::text || x.value FROM json_to_recordset(p_windows) AS x ("window" text, value text)
          JOIN policy_windows p ON p.tenant_id = p_tenant AND p.id = decode(x."window", 'hex') AND p.gone_at IS NULL
        UNION
        SELECT p.series::text || x.lock FROM json_to_recordset(p_windows) AS x ("window" text, lock text)
          JOIN policy_windows p ON p.tenant_id = p_tenant AND p.id = decode(x."window", 'hex') AND p.gone_at IS NULL
         WHERE x.lock IS NOT NULL));
    PERFORM leave_windows(p_tenant, p_run);
    FOR u IN SELECT x.*, p.series, decode(x.value, 'hex') AS digest
               FROM json_to_recordset(p_windows) AS x ("window" text, value text, also json, up numeric, down numeric, counts boolean, reads json)
               JOIN policy_windows p ON p.tenant_id = p_tenant AND p.id = decode(x."window", 'hex') AND p.gone_at IS NULL LOOP
        FOR r IN SELECT y.* FROM json_to_recordset(u.reads) AS y (per integer, low json, high json)
                  WHERE json_array_length(y.low) + json_array_length(y.high) > 0 LOOP
            SELECT * INTO n FROM count_window(p_tenant, p_run, u.series, window_values(u.value, u.also), r.per,
                                              CASE WHEN u.counts THEN u.up ELSE 0 END, CASE WHEN u.counts THEN u.down ELSE 0 END);
            IF n.unknown OR EXISTS (SELECT FROM json_to_recordset(r.low) AS b (bound numeric, sign integer) WHERE sign(n.low - b.bound) <> b.sign)
                         OR EXISTS (SELECT FROM json_to_recordset(r.high) AS b (bound numeric, sign integer) WHERE sign(n.high - b.bound) <> b.sign) THEN
                RAISE EXCEPTION 'a window contains more or less than when the call was judged' USING ERRCODE = 'AR004';
            END IF;
        END LOOP;
        IF p_counted AND u.counts THEN
            INSERT INTO window_entries (tenant_id, run_id, series, value, minute, up, down, done)
            VALUES (p_tenant, p_run, u.series, u.digest, now_minute, u.up, u.down, false);
            PERFORM add_to_window(p_tenant, u.series, u.digest, now_minute, u.up, u.down, false, 1);
        END IF;
    END LOOP;
    RETURN true;
END
$$;
