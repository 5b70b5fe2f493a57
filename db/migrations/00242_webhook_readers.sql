-- +goose Up

-- How far the events of its tenant were read for each webhook. The events behind the place have their
-- deliveries. A webhook is told of what is emitted after it was made.
CREATE TABLE webhook_readers (
    webhook_id uuid PRIMARY KEY REFERENCES webhooks (id) ON DELETE CASCADE,
    tenant_id  uuid NOT NULL,
    xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id         uuid NOT NULL DEFAULT 'ffffffff-ffff-ffff-ffff-ffffffffffff',
    next_at    timestamptz NOT NULL DEFAULT '-infinity' -- not read before, as too many deliveries wait
) WITH (fillfactor = 50);
ALTER TABLE webhook_readers ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_readers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON webhook_readers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON webhook_readers FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_update ON webhook_readers FOR UPDATE USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE ON webhook_readers TO agentruntime_app;
CREATE POLICY sweep_insert ON webhook_deliveries FOR INSERT WITH CHECK (app_setting('app.sweep') = 'on');
INSERT INTO webhook_readers (webhook_id, tenant_id) SELECT id, tenant_id FROM webhooks;

-- +goose Down
DROP FUNCTION IF EXISTS queue_deliveries(uuid, integer, integer, integer, integer, timestamptz, timestamptz);
DROP POLICY sweep_insert ON webhook_deliveries;
DROP TABLE webhook_readers;
