-- queue_deliveries reads the complete events of tenants for their webhooks, and writes a delivery of
-- each that a webhook wants. It goes over the webhooks after an id, at most p_looks of them. It reads
-- p_each events for one and p_most in all, so the transaction is short whatever a tenant emits. Each
-- webhook has a place of its own: it moves in the transaction that writes the deliveries, so an event
-- is read once. One for which p_waiting deliveries wait for their first attempt is left out for a
-- second. What another process reads at the same moment is left to it. Where the service disabled a
-- webhook lately, its deliveries are cancelled from the start: they can be recovered.
--
-- It returns where the next look begins, whether more events are complete, and whether there are some
-- that are not complete yet.
CREATE OR REPLACE FUNCTION queue_deliveries(p_after uuid, p_looks integer, p_each integer, p_most integer, p_waiting integer, p_now timestamptz, p_recoverable timestamptz)
RETURNS TABLE (next uuid, more boolean, soon boolean)
LANGUAGE plpgsql AS $$
DECLARE
    none     CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    frontier xid8 := pg_snapshot_xmin(pg_current_snapshot());
    w        record;
    at       webhook_readers;
    looked   integer := 0;
    room     integer;
    n        integer;
    xids     xid8[];
    ids      uuid[];
    types    text[];
BEGIN
    next := none;
    more := false;
    soon := false;
    FOR w IN
        SELECT r.webhook_id, r.next_at, h.events, h.enabled, h.disabled_reason, h.disabled_at, e.xid AS first
          FROM (SELECT * FROM webhook_readers x WHERE x.webhook_id > p_after ORDER BY x.webhook_id LIMIT p_looks) r
          JOIN webhooks h ON h.id = r.webhook_id
          LEFT JOIN LATERAL (SELECT f.xid FROM events f WHERE f.tenant_id = r.tenant_id AND (f.xid, f.id) > (r.xid, r.id)
                              ORDER BY f.xid, f.id LIMIT 1) e ON true
         ORDER BY r.webhook_id
    LOOP
        looked := looked + 1;
        CONTINUE WHEN w.first IS NULL OR w.next_at > p_now
                   OR NOT (w.enabled OR coalesce(w.disabled_reason IS NOT NULL AND w.disabled_at > p_recoverable, false));
        IF w.first >= frontier THEN
            soon := true;
            CONTINUE;
        END IF;
        IF p_most <= 0 THEN
            more := true;
            RETURN NEXT;
            RETURN;
        END IF;
        next := w.webhook_id;
        SELECT * INTO at FROM webhook_readers r WHERE r.webhook_id = w.webhook_id FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        SELECT p_waiting - count(*) INTO room FROM (SELECT FROM webhook_deliveries d WHERE d.queue = w.webhook_id LIMIT p_waiting) q;
        IF room <= 0 THEN
            UPDATE webhook_readers r SET next_at = p_now + interval '1 second' WHERE r.webhook_id = w.webhook_id;
            CONTINUE;
        END IF;
        room := least(room, p_each, p_most);
        SELECT array_agg(e.xid ORDER BY e.xid, e.id), array_agg(e.id ORDER BY e.xid, e.id), array_agg(e.type ORDER BY e.xid, e.id)
          INTO xids, ids, types
          FROM (SELECT f.xid, f.id, f.type FROM events f
                 WHERE f.tenant_id = at.tenant_id AND (f.xid, f.id) > (at.xid, at.id) AND f.xid < frontier
                 ORDER BY f.xid, f.id LIMIT room) e;
        n := coalesce(cardinality(ids), 0);
        CONTINUE WHEN n = 0;
        p_most := p_most - n;
        more := more OR n = room;
        -- First attempts are made in the order of next_at.
        INSERT INTO webhook_deliveries (event_id, webhook_id, tenant_id, type, status, next_at, updated_at)
        SELECT e.id, w.webhook_id, at.tenant_id, e.type, CASE WHEN w.enabled THEN 'pending' ELSE 'cancelled' END,
               CASE WHEN w.enabled THEN p_now - (n - e.i) * interval '1 microsecond' END, p_now
          FROM unnest(ids, types) WITH ORDINALITY AS e (id, type, i)
         WHERE e.type <> 'webhook.test'
           AND EXISTS (SELECT FROM unnest(w.events) AS wanted (name)
                        WHERE wanted.name IN ('*', e.type) OR right(wanted.name, 2) = '.*' AND starts_with(e.type, left(wanted.name, -1)))
        ON CONFLICT DO NOTHING;
        UPDATE webhook_readers r SET xid = xids[n], id = ids[n] WHERE r.webhook_id = w.webhook_id;
    END LOOP;
    -- All were looked at, or as many as one look takes.
    next := CASE WHEN looked < p_looks THEN none
                 ELSE (SELECT max(r.webhook_id::text)::uuid FROM (SELECT x.webhook_id FROM webhook_readers x WHERE x.webhook_id > p_after ORDER BY x.webhook_id LIMIT p_looks) r) END;
    RETURN NEXT;
END
$$;
