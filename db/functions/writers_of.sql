-- writers_of returns the users who have written what an execution does, NULL for none: those of the
-- execution of a Map or of the session of a message, and of the executions that have started it. With p_calls
-- it is about a call: then the users are among them who have written or published the versions of the Maps,
-- because a definition makes arguments: those that the call is within, and those that have run for them,
-- whose outputs it may have. 20 is more than executions can be within each other.
CREATE OR REPLACE FUNCTION writers_of(p_tenant uuid, p_execution text, p_calls boolean)
RETURNS uuid[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    here    text := p_execution;
    wrote   uuid[] := '{}';
    around  text[] := '{}'; -- the executions that the call is within
    e       record;
BEGIN
    FOR level IN 1..20 LOOP
        EXIT WHEN here IS NULL;
        around := around || here;
        SELECT m.writers, m.parent_id, m.map_id, m.version INTO e
          FROM map_executions m WHERE m.tenant_id = p_tenant AND m.execution_id = here;
        IF FOUND THEN
            wrote := wrote || e.writers;
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
    IF p_calls THEN
        wrote := wrote || ARRAY(
            WITH RECURSIVE below (execution_id, map_id, version, level) AS (
                SELECT m.execution_id, m.map_id, m.version, 1 FROM map_executions m
                 WHERE m.tenant_id = p_tenant AND (m.execution_id = ANY (around) OR m.parent_id = ANY (around))
                UNION
                SELECT c.execution_id, c.map_id, c.version, b.level + 1
                  FROM below b CROSS JOIN LATERAL (
                       SELECT m.execution_id, m.map_id, m.version FROM map_executions m
                        WHERE m.tenant_id = p_tenant AND m.parent_id = b.execution_id OFFSET 0) c
                 WHERE b.level < 20)
            SELECT DISTINCT substr(by_user, 6)::uuid
              FROM (SELECT DISTINCT b.map_id, b.version FROM below b) ran
              JOIN map_versions v ON v.tenant_id = p_tenant AND v.map_id = ran.map_id AND v.version = ran.version
             CROSS JOIN unnest(ARRAY[v.created_by, v.published_by]) AS by_user WHERE by_user LIKE 'user:%');
    END IF;
    RETURN ARRAY(SELECT DISTINCT w FROM unnest(wrote) AS w WHERE w IS NOT NULL ORDER BY w);
END
$$;
