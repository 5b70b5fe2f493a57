-- promote_map_places gives the free places of a concurrency key to those that have waited longest,
-- and returns them: their workflows are to be started. The caller has taken lock_map_places.
-- It looks up one at a time: a query for all would sort as many as wait.
CREATE OR REPLACE FUNCTION promote_map_places(p_tenant uuid, p_map uuid, p_key bytea, p_now timestamptz) RETURNS SETOF uuid
LANGUAGE plpgsql AS $$
DECLARE
    busy  integer;
    after bigint := 0; -- seq of the one before
    p     record;
BEGIN
    SELECT count(*) INTO busy FROM map_places l WHERE l.tenant_id = p_tenant AND l.map_id = p_map AND l.key = p_key AND l.state = 'held';
    LOOP
        SELECT l.execution, l.most, l.seq INTO p FROM map_places l
         WHERE l.tenant_id = p_tenant AND l.map_id = p_map AND l.key = p_key AND l.state = 'queued' AND l.seq > after
         ORDER BY l.seq LIMIT 1;
        EXIT WHEN NOT FOUND OR busy >= p.most;
        after := p.seq;
        -- One that was cancelled at this moment gets no place.
        UPDATE map_places l SET state = 'held' WHERE l.tenant_id = p_tenant AND l.execution = p.execution AND l.state = 'queued';
        CONTINUE WHEN NOT FOUND;
        UPDATE map_executions e SET status = 'running', waiting_for = NULL, updated_at = p_now WHERE e.tenant_id = p_tenant AND e.id = p.execution;
        busy := busy + 1;
        RETURN NEXT p.execution;
    END LOOP;
END
$$;
