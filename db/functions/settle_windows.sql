-- settle_windows keeps up to date what windows count of a run whose state changes: an executed run
-- stays for good, and one that had no effect leaves. One that may have had an effect stays as it is.
CREATE OR REPLACE FUNCTION settle_windows() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    e record;
BEGIN
    IF NEW.state = 'outcome_unknown' OR NEW.state = 'claimed' AND NEW.maybe_sent THEN
        RETURN NULL;
    END IF;
    PERFORM lock_windows(ARRAY(
        SELECT x.series::text || encode(x.value, 'hex') FROM window_entries x WHERE x.tenant_id = NEW.tenant_id AND x.run_id = NEW.id));
    IF NEW.state <> 'executed' THEN
        PERFORM leave_windows(NEW.tenant_id, NEW.id);
        RETURN NULL;
    END IF;
    FOR e IN UPDATE window_entries x SET done = true WHERE x.tenant_id = NEW.tenant_id AND x.run_id = NEW.id AND NOT x.done
             RETURNING x.series, x.value, x.minute, x.up, x.down LOOP
        PERFORM add_to_window(NEW.tenant_id, e.series, e.value, e.minute, e.up, e.down, false, -1);
        PERFORM add_to_window(NEW.tenant_id, e.series, e.value, e.minute, e.up, e.down, true, 1);
    END LOOP;
    RETURN NULL;
END
$$;
