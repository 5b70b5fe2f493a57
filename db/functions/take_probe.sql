-- take_probe lets the run through a circuit that is not closed, as its probe, or undoes the
-- transaction that marks the run as sending. A circuit that has closed meanwhile lets it through
-- without. It waits for no other transaction: one that holds the row is a probe, or changes the
-- provider, and the run is looked at again.
CREATE OR REPLACE FUNCTION take_probe(p_tenant uuid, p_provider text, p_run uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    c circuits;
BEGIN
    SELECT * INTO c FROM circuits k WHERE k.tenant_id = p_tenant AND k.provider = p_provider FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NOT EXISTS (SELECT FROM circuits k WHERE k.tenant_id = p_tenant AND k.provider = p_provider) OR run_not_changed();
    END IF;
    -- A statement of its own sees what was committed before the row was locked.
    IF c.state = 'closed' THEN
        RETURN true;
    ELSIF c.state = 'open' AND c.probe_at > clock_timestamp() OR c.state = 'half_open' AND c.probe_run <> p_run AND circuit_busy(p_tenant, c.probe_run) THEN
        RETURN run_not_changed();
    END IF;
    UPDATE circuits k SET state = 'half_open', probe_run = p_run WHERE k.tenant_id = p_tenant AND k.provider = p_provider;
    RETURN true;
END
$$;
