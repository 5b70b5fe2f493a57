-- take_map_place gives an execution a place of its concurrency key, by what the definition says for
-- the case that all are taken. The caller has taken lock_map_places. It returns
--   held     it may run
--   queued   it waits until a place is free
-- and the executions that it has asked to end. Each error undoes the transaction:
--   AR010    all places are taken, and p_when is refuse
--   AR011    p_most executions of the key wait already
--   AR012    the place becomes free only when the execution itself has ended
CREATE OR REPLACE FUNCTION take_map_place(p_tenant uuid, p_map uuid, p_key bytea, p_execution uuid, p_limit integer, p_when text, p_most integer, p_now timestamptz)
RETURNS TABLE (outcome text, ends uuid[])
LANGUAGE plpgsql AS $$
DECLARE
    older uuid[] := '{}';
    busy  integer;
    p     record;
BEGIN
    SELECT count(*) INTO busy FROM map_places l WHERE l.tenant_id = p_tenant AND l.map_id = p_map AND l.key = p_key AND l.state = 'held';
    IF busy < p_limit AND NOT EXISTS (
        SELECT FROM map_places l WHERE l.tenant_id = p_tenant AND l.map_id = p_map AND l.key = p_key AND l.state = 'queued') THEN
        INSERT INTO map_places (tenant_id, execution, map_id, key, state, most) VALUES (p_tenant, p_execution, p_map, p_key, 'held', p_limit);
        RETURN QUERY SELECT 'held'::text, older;
        RETURN;
    END IF;
    IF p_when = 'refuse' THEN
        RAISE EXCEPTION 'all places of the key are taken' USING ERRCODE = 'AR010';
    END IF;
    IF waits_for_itself(p_tenant, p_map, p_key, p_execution) THEN
        RAISE EXCEPTION 'the execution would wait for itself' USING ERRCODE = 'AR012';
    END IF;
    IF p_when = 'queue' AND EXISTS (
        SELECT FROM map_places l WHERE l.tenant_id = p_tenant AND l.map_id = p_map AND l.key = p_key AND l.state = 'queued' OFFSET p_most - 1) THEN
        RAISE EXCEPTION 'too many executions of the key wait' USING ERRCODE = 'AR011';
    END IF;
    IF p_when = 'replace' THEN
        -- As many as may run, this one among them, are left: the oldest end first.
        FOR p IN SELECT l.execution, l.state FROM map_places l JOIN map_executions e ON e.tenant_id = l.tenant_id AND e.id = l.execution
                  WHERE l.tenant_id = p_tenant AND l.map_id = p_map AND l.key = p_key AND l.state <> 'dropped' AND NOT e.wants_cancel
                  ORDER BY l.seq DESC OFFSET p_limit - 1 LOOP
            older := older || p.execution;
            -- News that the workflow does not read are told again.
            UPDATE map_executions e SET wants_cancel = true, updated_at = p_now, news_at = CASE p.state WHEN 'held' THEN p_now END
             WHERE e.tenant_id = p_tenant AND e.id = p.execution;
            UPDATE map_places l SET state = 'dropped' WHERE l.tenant_id = p_tenant AND l.execution = p.execution AND l.state = 'queued';
        END LOOP;
    END IF;
    INSERT INTO map_places (tenant_id, execution, map_id, key, state, most) VALUES (p_tenant, p_execution, p_map, p_key, 'queued', p_limit);
    UPDATE map_executions e SET status = 'waiting', waiting_for = '{"for":"concurrency","step":""}', updated_at = p_now
     WHERE e.tenant_id = p_tenant AND e.id = p_execution;
    RETURN QUERY SELECT 'queued'::text, older;
END
$$;
