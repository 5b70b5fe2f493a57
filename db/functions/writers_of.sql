-- writers_of returns the users who have written what an execution does, NULL for none: those of the
-- execution of a Map or of the session of a message, and of the executions that have started it. With p_calls
-- it is about a call: then the users are among them who have written or published the versions of the Maps,
-- because a definition makes arguments. 20 is more than executions can be within each other.
CREATE OR REPLACE FUNCTION writers_of(p_tenant uuid, p_execution text, p_calls boolean)
RETURNS uuid[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    here    text := p_execution;
    wrote   uuid[] := '{}';
    e       record;
BEGIN
    FOR level IN 1..20 LOOP
        EXIT WHEN here IS NULL;
        SELECT m.writers, m.parent_id, m.map_id, m.version INTO e
          FROM map_executions m WHERE m.tenant_id = p_tenant AND m.execution_id = here;
        IF FOUND THEN
            wrote := wrote || e.writers;
            IF p_calls THEN
                wrote := wrote || ARRAY(SELECT substr(by_user, 6)::uuid FROM map_versions v, unnest(ARRAY[v.created_by, v.published_by]) AS by_user
                                         WHERE v.tenant_id = p_tenant AND v.map_id = e.map_id AND v.version = e.version AND by_user LIKE 'user:%');
            END IF;
            here := e.parent_id;
        ELSE
            SELECT c.writers, t.parent_id INTO e
              FROM turns t JOIN conversations c ON c.tenant_id = t.tenant_id AND c.id = t.conversation
             WHERE t.tenant_id = p_tenant AND t.execution_id = here;
            EXIT WHEN NOT FOUND;
            wrote := wrote || e.writers;
            here := e.parent_id;
        END IF;
    END LOOP;
    RETURN ARRAY(SELECT DISTINCT w FROM unnest(wrote) AS w WHERE w IS NOT NULL ORDER BY w);
END
$$;
