-- +goose Up

-- The audit trail.

-- One record per decision and per state change. Insert-only for every role: the
-- grants allow only that, and the trigger refuses it to owners and superusers too.
CREATE TABLE audit_records (
    id           uuid NOT NULL,
    tenant_id    uuid NOT NULL,
    at           timestamptz DEFAULT now() NOT NULL,
    actor_type   text NOT NULL CHECK ((actor_type IN ('key', 'user', 'agent', 'map', 'workflow', 'system', 'operator'))),
    actor_id     text NOT NULL,
    action       text NOT NULL,
    provider     text DEFAULT '' NOT NULL,
    verb         text DEFAULT '' NOT NULL,
    risk_level   text DEFAULT '' NOT NULL,
    decision     text DEFAULT '' NOT NULL,
    outcome      text DEFAULT '' NOT NULL,
    execution_id text DEFAULT '' NOT NULL,
    session_id   text,
    request_id   text DEFAULT '' NOT NULL,
    source_addr  text DEFAULT '' NOT NULL,
    input        text, -- masked arguments
    details      json,
    -- What a record is about, where it is not (only) a run: a policy, an approval, a
    -- key, a credential, a user.
    subject_type text DEFAULT '' NOT NULL,
    subject_id   text DEFAULT '' NOT NULL,
    -- The transaction that wrote a record. What is older than the oldest transaction under
    -- way is complete, so records are sealed in the order of xid and none is passed over,
    -- however late its transaction commits, and no writer waits for another.
    xid          xid8 DEFAULT pg_current_xact_id() NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
-- The sealer asks which tenants have new records. It sees which, and reads the records of one
-- tenant at a time under the policy of tenants.
CREATE INDEX audit_records_appended ON audit_records (xid, tenant_id);
CREATE INDEX audit_records_by_action ON audit_records (tenant_id, action, id);
CREATE INDEX audit_records_by_actor ON audit_records (tenant_id, actor_id, id);
-- Records of calls that were allowed are most of the trail, and need no index by decision.
CREATE INDEX audit_records_by_decision ON audit_records (tenant_id, decision, id) WHERE (decision <> ALL (ARRAY['', 'allow']));
CREATE INDEX audit_records_by_execution ON audit_records (tenant_id, execution_id, id) WHERE (execution_id <> '');
CREATE INDEX audit_records_by_session ON audit_records (tenant_id, session_id, id) WHERE (session_id IS NOT NULL);
CREATE INDEX audit_records_by_subject ON audit_records (tenant_id, subject_id, id) WHERE (subject_id <> '');
CREATE INDEX audit_records_by_verb ON audit_records (tenant_id, provider, verb, id) WHERE (provider <> '');
CREATE INDEX audit_records_by_xid ON audit_records (tenant_id, xid, id);
ALTER TABLE audit_records ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_records FORCE ROW LEVEL SECURITY;
CREATE POLICY audit_records_seal ON audit_records FOR SELECT USING ((app_setting('app.seal') = 'on'));
CREATE POLICY tenant ON audit_records USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE TRIGGER audit_insert_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit_records FOR EACH STATEMENT EXECUTE FUNCTION audit_is_insert_only();
GRANT SELECT ON audit_records TO agentruntime_app;
GRANT INSERT (id, tenant_id, actor_type, actor_id, action, provider, verb, risk_level, decision, outcome, execution_id, session_id,
    request_id, source_addr, input, details, subject_type, subject_id) ON audit_records TO agentruntime_app;

-- The hash chain: hash = SHA-256(hash of seq - 1 || leaf), leaf = SHA-256 of the
-- record's text (docs/operate/audit.md). Written behind the records, by one sealer of a tenant
-- at a time.
CREATE TABLE audit_seals (
    tenant_id uuid NOT NULL,
    seq       bigint NOT NULL CHECK ((seq > 0)),
    record_id uuid NOT NULL,
    xid       xid8 NOT NULL, -- of the record
    leaf      bytea NOT NULL CHECK ((length(leaf) = 32)),
    hash      bytea NOT NULL CHECK ((length(hash) = 32)),
    PRIMARY KEY (tenant_id, seq),
    CONSTRAINT audit_seals_tenant_id_record_id_key UNIQUE (tenant_id, record_id)
);
ALTER TABLE audit_seals ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_seals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON audit_seals USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE TRIGGER audit_insert_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit_seals FOR EACH STATEMENT EXECUTE FUNCTION audit_is_insert_only();
GRANT SELECT,INSERT ON audit_seals TO agentruntime_app;

-- Signed statements about the chain.
CREATE TABLE audit_checkpoints (
    id        uuid NOT NULL,
    tenant_id uuid NOT NULL,
    seq       bigint NOT NULL,
    hash      bytea NOT NULL CHECK ((length(hash) = 32)), -- of that seq
    kind      text NOT NULL CHECK ((kind IN ('hourly', 'export'))),
    at        timestamptz NOT NULL,
    kid       text NOT NULL,
    signature bytea NOT NULL, -- Ed25519
    PRIMARY KEY (tenant_id, seq, id)
);
ALTER TABLE audit_checkpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_checkpoints FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON audit_checkpoints USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE TRIGGER audit_insert_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION audit_is_insert_only();
GRANT SELECT,INSERT ON audit_checkpoints TO agentruntime_app;

-- xids begin again in another cluster, where a dump may be restored. The newest row says
-- in which cluster a tenant's records are sealed, and from where: all records whose xid
-- is at most mark are sealed; so are, once there are seals after after_seq, all up to
-- the xid of the last.
CREATE TABLE audit_clusters (
    tenant_id uuid NOT NULL,
    entry     integer NOT NULL, -- counts from 1
    cluster   bigint NOT NULL, -- system identifier of Postgres
    mark      xid8 NOT NULL,
    after_seq bigint NOT NULL,
    at        timestamptz DEFAULT now() NOT NULL,
    PRIMARY KEY (tenant_id, entry)
);
ALTER TABLE audit_clusters ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_clusters FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON audit_clusters USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE TRIGGER audit_insert_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit_clusters FOR EACH STATEMENT EXECUTE FUNCTION audit_is_insert_only();
GRANT SELECT,INSERT ON audit_clusters TO agentruntime_app;

-- +goose Down
DROP TABLE audit_clusters, audit_checkpoints, audit_seals, audit_records CASCADE;
