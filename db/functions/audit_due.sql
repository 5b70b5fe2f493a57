-- audit_due returns the tenants that have records to seal, and those whose chain has grown
-- since a checkpoint before p_before. It makes four look-ups for each tenant. It sets each
-- tenant in turn, so that row-level security applies here too.
CREATE OR REPLACE FUNCTION audit_due(p_before timestamptz) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
    here     bigint := audit_cluster();
    complete xid8 := pg_snapshot_xmin(pg_current_snapshot());
    newest   xid8 := pg_snapshot_xmax(pg_current_snapshot());
    t        uuid;
    entered  record;
    head     record;
    signed   record;
    mark     xid8;
BEGIN
    FOR t IN SELECT id FROM tenants LOOP
        PERFORM set_config('app.tenant_id', t::text, true);
        SELECT e.cluster, e.mark, e.after_seq INTO entered
          FROM audit_clusters e WHERE e.tenant_id = t ORDER BY e.entry DESC LIMIT 1;
        IF entered.cluster IS NULL THEN
            IF EXISTS (SELECT FROM audit_records r WHERE r.tenant_id = t) THEN
                RETURN NEXT t;
            END IF;
            CONTINUE;
        END IF;
        SELECT s.seq, s.xid INTO head FROM audit_seals s WHERE s.tenant_id = t ORDER BY s.seq DESC LIMIT 1;
        mark := CASE WHEN head.seq > entered.after_seq THEN head.xid ELSE entered.mark END;
        IF entered.cluster <> here OR mark >= newest
           OR EXISTS (SELECT FROM audit_records r WHERE r.tenant_id = t AND r.xid > mark AND r.xid < complete) THEN
            RETURN NEXT t;
            CONTINUE;
        END IF;
        SELECT c.seq, c.at INTO signed FROM audit_checkpoints c WHERE c.tenant_id = t ORDER BY c.seq DESC, c.id DESC LIMIT 1;
        IF head.seq > coalesce(signed.seq, 0) AND coalesce(signed.at, '-infinity') <= p_before THEN
            RETURN NEXT t;
        END IF;
    END LOOP;
END
$$;
