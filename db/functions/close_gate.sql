-- close_gate ends a change of a provider or a credential as CloseGate ends a change of a
-- policy: it waits for the runs of the tenant that are moving to sending at this moment. Later
-- runs wait for the commit, and see the change. It runs when the change commits, because an
-- import can take seconds. A change of a platform's provider waits for the runs of all tenants
-- under its slug by one lock: their own locks could be more than Postgres has room for.
CREATE OR REPLACE FUNCTION close_gate() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'platform_providers' THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('platform gate:' || coalesce(NEW.slug, OLD.slug), 0));
    ELSE
        PERFORM pg_advisory_xact_lock(hashtextextended('gate:' || coalesce(NEW.tenant_id, OLD.tenant_id)::text, 0));
    END IF;
    RETURN NULL;
END
$$;
