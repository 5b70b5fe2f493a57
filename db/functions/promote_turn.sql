-- promote_turn lets the next message of a session be answered, where none is and no person has taken
-- over. The caller has locked the session's row. A message that goes on after a wait is older than
-- those that came meanwhile, so it is first.
CREATE OR REPLACE FUNCTION promote_turn(p_tenant uuid, p_conversation uuid, p_now timestamptz) RETURNS SETOF turns
LANGUAGE sql AS $$
    UPDATE turns t SET state = 'working', begun_at = p_now, updated_at = p_now
     WHERE t.tenant_id = p_tenant AND t.id = (
               SELECT n.id FROM turns n
                WHERE n.tenant_id = p_tenant AND n.conversation = p_conversation AND n.state = 'queued' AND n.finished_at IS NULL
                  AND NOT EXISTS (SELECT FROM turns w WHERE w.tenant_id = p_tenant AND w.conversation = p_conversation AND w.state = 'working' AND w.finished_at IS NULL)
                  AND NOT EXISTS (SELECT FROM conversations h WHERE h.tenant_id = p_tenant AND h.id = p_conversation AND h.held_by IS NOT NULL)
                ORDER BY n.id LIMIT 1)
    RETURNING t.*;
$$;
