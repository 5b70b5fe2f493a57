-- run_owners returns the run that each key names, NULL for a key that is free. It makes one
-- look-up for each key. While the table is small, `key = ANY (keys)` is planned as a scan of
-- all the tenant's keys, and that plan would be kept.
CREATE OR REPLACE FUNCTION run_owners(p_tenant uuid, p_keys text[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    owners uuid[] := '{}';
    owner  uuid;
    k      text;
BEGIN
    FOREACH k IN ARRAY p_keys LOOP
        SELECT r.run_id INTO owner FROM run_keys r WHERE r.tenant_id = p_tenant AND r.key = k;
        owners := owners || owner; -- NULL where there is none
    END LOOP;
    RETURN owners;
END
$$;
