-- root_of_execution returns what a message to an agent, or an execution of a Map, has followed from: the
-- session of the first message above it, or the first Map; NULL where there is no such execution.
CREATE OR REPLACE FUNCTION root_of_execution(p_tenant uuid, p_execution text) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    above text := p_execution;
    one   record;
    root  uuid;
BEGIN
    WHILE above IS NOT NULL LOOP
        SELECT t.conversation AS id, t.parent_id INTO one FROM turns t WHERE t.tenant_id = p_tenant AND t.execution_id = above;
        IF one.id IS NULL THEN
            SELECT m.id, m.parent_id INTO one FROM map_executions m WHERE m.tenant_id = p_tenant AND m.execution_id = above;
        END IF;
        EXIT WHEN one.id IS NULL;
        root := one.id;
        above := one.parent_id;
    END LOOP;
    RETURN root;
END
$$;
