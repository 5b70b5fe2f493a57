-- +goose Up

-- The transaction that wrote a record. What is older than the oldest transaction under
-- way is complete, so records are sealed in the order of xid and none is passed over,
-- however late its transaction commits, and no writer waits for another.
-- (Existing records get the xid of this migration; the table is written anew.)
ALTER TABLE audit_records ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX audit_records_by_xid ON audit_records (tenant_id, xid, id);
CREATE INDEX audit_records_by_execution ON audit_records (tenant_id, execution_id, id) WHERE execution_id <> '';
CREATE INDEX audit_records_by_session ON audit_records (tenant_id, session_id, id) WHERE session_id IS NOT NULL;

-- The service says what happened, Postgres says when and in which transaction.
REVOKE INSERT ON audit_records FROM agentruntime_app;
GRANT INSERT (id, tenant_id, actor_type, actor_id, action, provider, verb, risk_level, decision, outcome, subject_type, subject_id,
              execution_id, session_id, request_id, source_addr, input, details) ON audit_records TO agentruntime_app;

-- The hash chain: hash = SHA-256(hash of seq - 1 || leaf), leaf = SHA-256 of the
-- record's text (docs/audit.md). Written behind the records, by one sealer of a tenant
-- at a time.
CREATE TABLE audit_seals (
    tenant_id uuid NOT NULL,
    seq       bigint NOT NULL CHECK (seq > 0),
    record_id uuid NOT NULL,
    xid       xid8 NOT NULL, -- of the record
    leaf      bytea NOT NULL CHECK (length(leaf) = 32),
    hash      bytea NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant_id, seq),
    UNIQUE (tenant_id, record_id)
);
ALTER TABLE audit_seals ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_seals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON audit_seals USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT ON audit_seals TO agentruntime_app;

-- Signed statements about the chain.
CREATE TABLE audit_checkpoints (
    id        uuid NOT NULL,
    tenant_id uuid NOT NULL,
    seq       bigint NOT NULL,
    hash      bytea NOT NULL CHECK (length(hash) = 32), -- of that seq
    kind      text NOT NULL CHECK (kind IN ('hourly', 'export')),
    at        timestamptz NOT NULL,
    kid       text NOT NULL,
    signature bytea NOT NULL, -- Ed25519
    PRIMARY KEY (tenant_id, seq, id)
);
ALTER TABLE audit_checkpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_checkpoints FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON audit_checkpoints USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT ON audit_checkpoints TO agentruntime_app;

-- xids count anew in another cluster, where a dump may be restored. The newest row says
-- in which cluster a tenant's records are sealed, and from where: all records whose xid
-- is at most mark are sealed; so are, once there are seals after after_seq, all up to
-- the xid of the last.
CREATE TABLE audit_clusters (
    tenant_id uuid NOT NULL,
    entry     integer NOT NULL, -- counts from 1
    cluster   bigint NOT NULL, -- system identifier of Postgres
    mark      xid8 NOT NULL,
    after_seq bigint NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, entry)
);
ALTER TABLE audit_clusters ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_clusters FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON audit_clusters USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT ON audit_clusters TO agentruntime_app;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_is_insert_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is insert-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_seals
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_insert_only();
CREATE TRIGGER audit_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_insert_only();
CREATE TRIGGER audit_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_clusters
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_insert_only();

-- audit_cluster is the system identifier of this cluster, 0 where the role may not know it.
-- +goose StatementBegin
CREATE FUNCTION audit_cluster() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN 0;
END
$$;
-- +goose StatementEnd

-- The sealer of all tenants sees which there are.
CREATE POLICY tenants_seal ON tenants FOR SELECT USING (app_setting('app.seal') = 'on');

-- audit_due returns the tenants that have records to seal, and those whose chain has
-- grown since a checkpoint that was made before p_before. Four look-ups a tenant. It
-- becomes each tenant in turn, so that row-level security holds here too.
-- +goose StatementBegin
CREATE FUNCTION audit_due(p_before timestamptz) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
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
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION audit_due(timestamptz);
DROP POLICY tenants_seal ON tenants;
DROP FUNCTION audit_cluster();
DROP TABLE audit_clusters;
DROP TABLE audit_checkpoints;
DROP TABLE audit_seals;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_is_insert_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_records is insert-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
GRANT INSERT ON audit_records TO agentruntime_app;
DROP INDEX audit_records_by_session;
DROP INDEX audit_records_by_execution;
ALTER TABLE audit_records DROP COLUMN xid;
