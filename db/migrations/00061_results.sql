-- +goose Up

-- When the arguments and the result of a run were erased: some time after its end, or with its
-- customer. What remains of the row is the fence. NULL while they are kept.
ALTER TABLE runs ADD COLUMN erased_at timestamptz;
-- Those of customers that were erased before had a result that said so.
UPDATE runs SET erased_at = now(), args = '', result = NULL WHERE result = '{"erased":true}';

-- Up to which run a tenant's results were looked at, in the order of their ids: so each run is
-- looked at once, by the index of its primary key, and no run pays for an index of its own.
CREATE TABLE run_erasures (
    tenant_id uuid PRIMARY KEY REFERENCES tenants (id),
    erased_to uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    look_at   timestamptz NOT NULL -- when there may be more to erase
);
ALTER TABLE run_erasures ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_erasures FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON run_erasures USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY seal_select ON run_erasures FOR SELECT USING (app_setting('app.seal') = 'on');
GRANT SELECT, INSERT, UPDATE ON run_erasures TO agentruntime_app;

-- The few runs before that place that were not to be erased yet: they had not ended, or not long
-- enough ago, or were claimed again since.
CREATE TABLE runs_left (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    run_id    uuid NOT NULL,
    look_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id)
);
CREATE INDEX runs_left_due ON runs_left (tenant_id, look_at);
ALTER TABLE runs_left ENABLE ROW LEVEL SECURITY;
ALTER TABLE runs_left FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON runs_left USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON runs_left TO agentruntime_app;

-- +goose Down
DROP TABLE runs_left;
DROP TABLE run_erasures;
ALTER TABLE runs DROP COLUMN erased_at;
