-- +goose Up

-- Events and webhooks.

-- What webhooks, streams and triggers are told. A row is written in the transaction of the change
-- that it reports. Its body is final: it is deleted, and never changed.
--
-- xid is the transaction that wrote the row. Readers see only what is older than the oldest
-- transaction under way, in the order of (xid, id). So no event can appear behind a reader,
-- however late its transaction commits.
CREATE TABLE events (
    id           uuid PRIMARY KEY, -- UUIDv7: events are found and forgotten by their time
    tenant_id    uuid NOT NULL,
    xid          xid8 DEFAULT pg_current_xact_id() NOT NULL,
    type         text NOT NULL,
    execution_id text,
    session_id   text,
    customer_id  text,
    source_id    text, -- the sender's own id of a custom event
    body         text NOT NULL, -- JSON; sealed under the tenant's data key where a call wrote a part of it
    -- What a custom event belongs to, in the sender's words.
    correlate    text
);
CREATE INDEX events_by_correlate ON events (tenant_id, type, correlate, xid, id) WHERE (correlate IS NOT NULL);
CREATE INDEX events_by_customer ON events (tenant_id, customer_id, xid, id) WHERE (customer_id IS NOT NULL);
CREATE INDEX events_by_execution ON events (tenant_id, execution_id, xid, id) WHERE (execution_id IS NOT NULL);
CREATE INDEX events_by_session ON events (tenant_id, session_id, xid, id) WHERE (session_id IS NOT NULL);
CREATE UNIQUE INDEX events_by_source ON events (tenant_id, source_id) WHERE (source_id IS NOT NULL);
-- Most events are of the one type that it leaves out. A page of that one is soon found in order.
CREATE INDEX events_by_type ON events (tenant_id, type, xid, id) WHERE (type <> 'action.executed');
CREATE INDEX events_in_order ON events (tenant_id, xid, id);
-- For the quota of what a tenant sends in an hour.
CREATE INDEX events_sent ON events (tenant_id, id) WHERE (source_id IS NOT NULL);
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
ALTER TABLE events FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON events FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_select ON events FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON events USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,DELETE ON events TO agentruntime_app;
GRANT INSERT (id, tenant_id, type, execution_id, session_id, customer_id, source_id, body, correlate) ON events TO agentruntime_app;

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
CREATE POLICY sweep_select ON webhooks FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_update ON webhooks FOR UPDATE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON webhooks USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON webhooks TO agentruntime_app;

-- How far the events of its tenant were read for each webhook. The events behind the place have their
-- deliveries. A webhook is told of what is emitted after it was made.
CREATE TABLE webhook_readers (
    webhook_id uuid PRIMARY KEY REFERENCES webhooks (id) ON DELETE CASCADE,
    tenant_id  uuid NOT NULL,
    xid        xid8 DEFAULT pg_current_xact_id() NOT NULL,
    id         uuid DEFAULT 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid NOT NULL,
    next_at    timestamptz DEFAULT '-infinity'::timestamptz NOT NULL -- not read before, as too many deliveries wait
) WITH (fillfactor=50);
ALTER TABLE webhook_readers ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_readers FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON webhook_readers FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_update ON webhook_readers FOR UPDATE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON webhook_readers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,UPDATE ON webhook_readers TO agentruntime_app;

-- One event for one webhook. The row is written with the event, in the transaction of the change
-- that the event reports. It references neither: a reference would lock the webhook's row in the
-- transactions of all runs of its tenant.
CREATE TABLE webhook_deliveries (
    event_id   uuid NOT NULL,
    webhook_id uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    type       text NOT NULL, -- the event's
    status     text NOT NULL CHECK ((status IN ('pending', 'retrying', 'delivered', 'failed', 'cancelled'))),
    round      integer DEFAULT 1 NOT NULL, -- counts redeliveries
    attempts   integer DEFAULT 0 NOT NULL, -- of the round
    first_at   timestamptz, -- of the round's first attempt
    -- When the next attempt is due. While one is under way, when it counts as lost. NULL at the end.
    next_at    timestamptz,
    updated_at timestamptz NOT NULL,
    -- The webhook, while the first attempt is to be made. Only one index has it, so every plan of the
    -- dispatcher uses that one, however few rows there were when the plan was made.
    queue      uuid GENERATED ALWAYS AS ( CASE WHEN (status = 'pending') THEN webhook_id ELSE NULL::uuid END) STORED,
    PRIMARY KEY (event_id, webhook_id)
);
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, event_id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (queue, next_at) WHERE (queue IS NOT NULL);
-- Those that a redelivery may be asked for.
CREATE INDEX webhook_deliveries_undone ON webhook_deliveries (webhook_id, event_id) WHERE (status = ANY (ARRAY['failed', 'cancelled']));
ALTER TABLE webhook_deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_deliveries FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON webhook_deliveries FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_insert ON webhook_deliveries FOR INSERT WITH CHECK ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_select ON webhook_deliveries FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_update ON webhook_deliveries FOR UPDATE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON webhook_deliveries USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON webhook_deliveries TO agentruntime_app;

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
CREATE POLICY sweep_delete ON webhook_attempts FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_insert ON webhook_attempts FOR INSERT WITH CHECK ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_select ON webhook_attempts FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON webhook_attempts USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON webhook_attempts TO agentruntime_app;

-- +goose Down
DROP TABLE webhook_attempts, webhook_deliveries, webhook_readers, webhooks, events CASCADE;
