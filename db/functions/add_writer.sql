-- add_writer notes that a user has written a text that an execution goes on with: a signal, an edit, a
-- response or a reason of an approval, a result of a call. p_execution is the execution of a Map or of a
-- message. What waits for its output has that text too, so they are a writer of all that wait.
CREATE OR REPLACE FUNCTION add_writer(p_tenant uuid, p_execution text, p_user uuid)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    here  text := p_execution;
    above text;
BEGIN
    FOR level IN 1..20 LOOP
        EXIT WHEN here IS NULL OR p_user IS NULL;
        UPDATE map_executions m SET writers = array_append(m.writers, p_user)
         WHERE m.tenant_id = p_tenant AND m.execution_id = here AND NOT p_user = ANY (m.writers);
        SELECT CASE WHEN m.awaited THEN m.parent_id END INTO above
          FROM map_executions m WHERE m.tenant_id = p_tenant AND m.execution_id = here;
        IF NOT FOUND THEN
            UPDATE conversations c SET writers = array_append(c.writers, p_user)
              FROM turns t
             WHERE t.tenant_id = p_tenant AND t.execution_id = here AND c.tenant_id = p_tenant AND c.id = t.conversation AND NOT p_user = ANY (c.writers);
            SELECT t.parent_id INTO above FROM turns t WHERE t.tenant_id = p_tenant AND t.execution_id = here;
        END IF;
        here := above;
    END LOOP;
END
$$;
