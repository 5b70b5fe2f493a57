-- tell_map_waits marks the executions that wait for one of the next events of a tenant, and moves the
-- watch behind those events. It returns the workflows of the executions, and whether more events
-- are complete already. Events are taken in the order in which readers see them, so none appears
-- behind the watch. Another process that does the same for the tenant is not waited for. Rows are
-- locked in the order watch, executions by id.
CREATE OR REPLACE FUNCTION tell_map_waits(p_tenant uuid, p_most integer, p_now timestamptz)
RETURNS TABLE (workflows text[], more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    at         map_watches;
    frontier   xid8;
    xids       xid8[];
    ids        uuid[];
    types      text[];
    correlates text[];
    n          integer;
BEGIN
    workflows := '{}';
    more := false;
    SELECT * INTO at FROM map_watches w WHERE w.tenant_id = p_tenant FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- Each statement sees what has committed before it.
    IF NOT EXISTS (SELECT FROM map_waits w WHERE w.tenant_id = p_tenant) THEN
        DELETE FROM map_watches w WHERE w.tenant_id = p_tenant;
        RETURN NEXT;
        RETURN;
    END IF;
    frontier := pg_snapshot_xmin(pg_current_snapshot());
    SELECT array_agg(e.xid ORDER BY e.xid, e.id), array_agg(e.id ORDER BY e.xid, e.id),
           array_agg(e.type ORDER BY e.xid, e.id), array_agg(e.correlate ORDER BY e.xid, e.id)
      INTO xids, ids, types, correlates
      FROM (SELECT l.xid, l.id, l.type, l.correlate FROM events l
             WHERE l.tenant_id = p_tenant AND (l.xid, l.id) > (at.xid, at.id) AND l.xid < frontier
             ORDER BY l.xid, l.id LIMIT p_most) e;
    n := coalesce(cardinality(ids), 0);
    IF n = 0 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    UPDATE map_watches w SET xid = xids[n], id = ids[n] WHERE w.tenant_id = p_tenant;
    WITH told AS (
        SELECT x.id FROM map_executions x
         WHERE x.tenant_id = p_tenant AND x.finished_at IS NULL AND x.id IN (
               SELECT w.execution FROM map_waits w JOIN (SELECT DISTINCT u.type, u.correlate FROM unnest(types, correlates) AS u (type, correlate)) new
                   ON w.type = new.type AND (w.correlate IS NULL OR w.correlate = new.correlate)
                WHERE w.tenant_id = p_tenant)
         ORDER BY x.id FOR NO KEY UPDATE
    ), marked AS (
        UPDATE map_executions m SET news_at = p_now FROM told WHERE m.tenant_id = p_tenant AND m.id = told.id
        RETURNING m.workflow_id
    )
    SELECT coalesce(array_agg(workflow_id), '{}') INTO workflows FROM marked;
    more := n = p_most;
    RETURN NEXT;
END
$$;
