-- Lists with a filter read what they show and little more: each filter has an index in the
-- order of its list, by the tenant first. What a claim fixes is indexed as it is. The state
-- changes with each step, so the index by state leaves out the states of a run under way. A
-- run enters it once, when it ends or begins to wait.
-- +goose Up
CREATE INDEX api_keys_active ON api_keys (tenant_id, id DESC) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_revoked ON api_keys (tenant_id, id DESC) WHERE revoked_at IS NOT NULL;

CREATE INDEX runs_by_key ON runs (tenant_id, key_id, id DESC) WHERE key_id IS NOT NULL;
CREATE INDEX runs_by_provider ON runs (tenant_id, provider, id DESC);
CREATE INDEX runs_by_verb ON runs (tenant_id, provider, verb, id DESC);
CREATE INDEX runs_by_state ON runs (tenant_id, state, id DESC) WHERE state NOT IN ('claimed', 'sending');
CREATE INDEX runs_under_way ON runs (tenant_id, id DESC) WHERE state IN ('claimed', 'sending');

CREATE INDEX approvals_by_status ON approvals (tenant_id, status, id DESC) WHERE status <> 'pending';
CREATE INDEX approvals_by_kind ON approvals (tenant_id, kind, id DESC);
CREATE INDEX approvals_by_provider ON approvals (tenant_id, provider, id DESC);
CREATE INDEX approvals_by_verb ON approvals (tenant_id, provider, verb, id DESC);
CREATE INDEX approvals_by_risk ON approvals (tenant_id, risk_level, id DESC);
CREATE INDEX approvals_by_execution ON approvals (tenant_id, execution_id, id DESC);

CREATE INDEX audit_records_by_action ON audit_records (tenant_id, action, id);
CREATE INDEX audit_records_by_actor ON audit_records (tenant_id, actor_id, id);
CREATE INDEX audit_records_by_subject ON audit_records (tenant_id, subject_id, id) WHERE subject_id <> '';
CREATE INDEX audit_records_by_verb ON audit_records (tenant_id, provider, verb, id) WHERE provider <> '';

-- The sealer asks which tenants have new records. It sees which, and reads the records of one
-- tenant at a time under the policy of tenants.
CREATE INDEX audit_records_appended ON audit_records (xid, tenant_id);
CREATE POLICY audit_records_seal ON audit_records FOR SELECT USING (app_setting('app.seal') = 'on');

CREATE INDEX credentials_by_customer ON credentials (tenant_id, customer_id, id DESC) WHERE customer_id IS NOT NULL;

-- +goose Down
DROP POLICY audit_records_seal ON audit_records;
DROP INDEX audit_records_appended;
DROP INDEX api_keys_active, api_keys_revoked, runs_by_key, runs_by_provider, runs_by_verb, runs_by_state, runs_under_way,
    approvals_by_status, approvals_by_kind, approvals_by_provider, approvals_by_verb, approvals_by_risk, approvals_by_execution,
    audit_records_by_action, audit_records_by_actor, audit_records_by_subject, audit_records_by_verb, credentials_by_customer;
