-- close_gate ends a change of a provider or a credential as CloseGate ends a change of a
-- policy: it waits for the runs of the tenant that are moving to sending at this moment. Later
-- runs wait for the commit, and see the change. It runs when the change commits, because an
-- import can take seconds.
CREATE OR REPLACE FUNCTION close_gate() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('gate:' || coalesce(NEW.tenant_id, OLD.tenant_id)::text, 0));
    RETURN NULL;
END
$$;
