-- waits_for_itself reports whether an execution that waits for a place of a key would wait for ever:
-- those that have the places wait for its own end. These are the executions that started it, one by
-- a step of the other. It also follows a place that one execution has alone, which waits for another
-- Map that waits for a place. Two that begin such waits at the same moment do not see each other.
CREATE OR REPLACE FUNCTION waits_for_itself(p_tenant uuid, p_map uuid, p_key bytea, p_execution uuid) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    above   uuid[];
    holders uuid[];
    of_map  uuid := p_map;
    of_key  bytea := p_key;
BEGIN
    -- Most were started by nobody who waits for them.
    IF NOT EXISTS (SELECT FROM map_executions e WHERE e.tenant_id = p_tenant AND e.id = p_execution AND e.parent_id IS NOT NULL AND e.awaited) THEN
        RETURN false;
    END IF;
    WITH RECURSIVE up AS (
        SELECT e.parent_id, e.awaited, NULL::uuid AS id FROM map_executions e WHERE e.tenant_id = p_tenant AND e.id = p_execution
        UNION ALL
        SELECT e.parent_id, e.awaited, e.id FROM up JOIN map_executions e ON e.tenant_id = p_tenant AND e.execution_id = up.parent_id WHERE up.awaited
    )
    SELECT array_agg(up.id) INTO above FROM up WHERE up.id IS NOT NULL;
    IF above IS NULL THEN
        RETURN false;
    END IF;
    FOR i IN 1..20 LOOP
        SELECT array_agg(l.execution) INTO holders FROM map_places l
         WHERE l.tenant_id = p_tenant AND l.map_id = of_map AND l.key = of_key AND l.state = 'held';
        IF holders <@ above THEN
            RETURN true;
        END IF;
        IF holders IS NULL OR cardinality(holders) > 1 THEN
            RETURN false;
        END IF;
        WITH RECURSIVE down AS (
            SELECT e.id, e.execution_id FROM map_executions e WHERE e.tenant_id = p_tenant AND e.id = holders[1]
            UNION ALL
            SELECT e.id, e.execution_id FROM down
              JOIN map_executions e ON e.tenant_id = p_tenant AND e.parent_id = down.execution_id AND e.awaited AND e.finished_at IS NULL
        )
        SELECT l.map_id, l.key INTO of_map, of_key FROM down JOIN map_places l ON l.tenant_id = p_tenant AND l.execution = down.id
         WHERE l.state = 'queued' LIMIT 1;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN false;
END
$$;
