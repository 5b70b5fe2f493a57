-- free_map_place frees the place of an execution that has ended, and returns those that have got
-- one. An execution that has not ended keeps its place. The caller has taken lock_map_places.
CREATE OR REPLACE FUNCTION free_map_place(p_tenant uuid, p_execution uuid, p_now timestamptz) RETURNS SETOF uuid
LANGUAGE plpgsql AS $$
DECLARE
    freed map_places;
BEGIN
    DELETE FROM map_places l WHERE l.tenant_id = p_tenant AND l.execution = p_execution
       AND EXISTS (SELECT FROM map_executions e WHERE e.tenant_id = p_tenant AND e.id = p_execution AND e.finished_at IS NOT NULL)
    RETURNING l.* INTO freed;
    IF FOUND THEN
        RETURN QUERY SELECT * FROM promote_map_places(p_tenant, freed.map_id, freed.key, p_now);
    END IF;
END
$$;
