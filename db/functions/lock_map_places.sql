-- lock_map_places lets one transaction at a time change the places of a concurrency key. It is
-- taken before any row of an execution is locked, so that no two transactions wait for each other.
CREATE OR REPLACE FUNCTION lock_map_places(p_tenant uuid, p_map uuid, p_key bytea) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(p_tenant::text || p_map::text || encode(p_key, 'hex'), 0));
$$;
