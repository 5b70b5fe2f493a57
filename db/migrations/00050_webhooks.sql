-- +goose Up

-- Where a tenant is told of its events. Both secrets are sealed under the tenant's data key.
CREATE TABLE webhooks (
    id              uuid PRIMARY KEY, -- UUIDv7: lists are in the order of creation
    tenant_id       uuid NOT NULL REFERENCES tenants (id),
    url             text NOT NULL,
    events          text[] NOT NULL, -- types, families as action.*, or *
    description     text NOT NULL,
    enabled         boolean NOT NULL,
    disabled_at     timestamptz, -- NULL where enabled
    disabled_reason text, -- why the service disabled it; NULL where a caller did
    secret          text NOT NULL,
    previous_secret text, -- signs too, until previous_until
    previous_until  timestamptz,
    rotated_at      timestamptz,
    succeeded_at    timestamptz, -- of the last delivery, at most a minute too early
    created_by      text NOT NULL,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL
);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant_id, id);
ALTER TABLE webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhooks FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON webhooks USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON webhooks FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_update ON webhooks FOR UPDATE USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON webhooks TO agentruntime_app;

-- One event for one webhook. The row is written with the event, in the transaction of the change
-- that the event reports. It references neither: a reference would lock the webhook's row in the
-- transactions of all runs of its tenant.
CREATE TABLE webhook_deliveries (
    event_id   uuid NOT NULL,
    webhook_id uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    type       text NOT NULL, -- the event's
    status     text NOT NULL CHECK (status IN ('pending', 'retrying', 'delivered', 'failed', 'cancelled')),
    round      integer NOT NULL DEFAULT 1, -- counts redeliveries
    attempts   integer NOT NULL DEFAULT 0, -- of the round
    first_at   timestamptz, -- of the round's first attempt
    -- When the next attempt is due. While one is under way, when it counts as lost. NULL at the end.
    next_at    timestamptz,
    updated_at timestamptz NOT NULL,
    -- The webhook, while the first attempt is to be made. Only one index has it, so every plan of the
    -- dispatcher uses that one, however few rows there were when the plan was made.
    queue      uuid GENERATED ALWAYS AS (CASE WHEN status = 'pending' THEN webhook_id END) STORED,
    PRIMARY KEY (event_id, webhook_id)
);
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, event_id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (queue, next_at) WHERE queue IS NOT NULL;
-- Those that a redelivery may be asked for.
CREATE INDEX webhook_deliveries_undone ON webhook_deliveries (webhook_id, event_id) WHERE status IN ('failed', 'cancelled');
ALTER TABLE webhook_deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_deliveries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON webhook_deliveries USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON webhook_deliveries FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_update ON webhook_deliveries FOR UPDATE USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_delete ON webhook_deliveries FOR DELETE USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_deliveries TO agentruntime_app;

-- Each attempt of a delivery.
CREATE TABLE webhook_attempts (
    event_id    uuid NOT NULL,
    webhook_id  uuid NOT NULL,
    tenant_id   uuid NOT NULL,
    round       integer NOT NULL,
    attempt     integer NOT NULL, -- 1 is the first of the round
    started_at  timestamptz NOT NULL,
    latency_ms  bigint NOT NULL,
    status_code integer, -- NULL where no answer came
    error       text, -- why none came
    answer      text, -- its first 4 KiB, sealed under the tenant's data key
    next_at     timestamptz, -- when the next attempt follows; NULL where none does
    PRIMARY KEY (event_id, webhook_id, round, attempt)
);
ALTER TABLE webhook_attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_attempts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON webhook_attempts USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON webhook_attempts FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_insert ON webhook_attempts FOR INSERT WITH CHECK (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_delete ON webhook_attempts FOR DELETE USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, DELETE ON webhook_attempts TO agentruntime_app;

-- +goose Down
DROP TABLE webhook_attempts;
DROP TABLE webhook_deliveries;
DROP TABLE webhooks;
