-- +goose Up

-- What webhooks, streams and triggers are told. A row is written in the transaction of the change
-- that it reports. Its body is final: it is deleted, and never changed.
--
-- xid is the transaction that wrote the row. Readers see only what is older than the oldest
-- transaction under way, in the order of (xid, id). So no event can appear behind a reader,
-- however late its transaction commits.
CREATE TABLE events (
    id           uuid PRIMARY KEY, -- UUIDv7: events are found and forgotten by their time
    tenant_id    uuid NOT NULL,
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    type         text NOT NULL,
    execution_id text,
    session_id   text,
    customer_id  text,
    source_id    text, -- the sender's own id of a custom event
    body         text NOT NULL -- JSON; sealed under the tenant's data key where a call wrote a part of it
);
CREATE INDEX events_in_order ON events (tenant_id, xid, id);
CREATE INDEX events_by_execution ON events (tenant_id, execution_id, xid, id) WHERE execution_id IS NOT NULL;
CREATE INDEX events_by_session ON events (tenant_id, session_id, xid, id) WHERE session_id IS NOT NULL;
CREATE INDEX events_by_customer ON events (tenant_id, customer_id, xid, id) WHERE customer_id IS NOT NULL;
-- Most events are of the one type that it leaves out. A page of that one is soon found in order.
CREATE INDEX events_by_type ON events (tenant_id, type, xid, id) WHERE type <> 'action.executed';
CREATE UNIQUE INDEX events_by_source ON events (tenant_id, source_id) WHERE source_id IS NOT NULL;
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
ALTER TABLE events FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON events USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON events FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_delete ON events FOR DELETE USING (app_setting('app.sweep') = 'on');
GRANT SELECT, DELETE ON events TO agentruntime_app;
-- Postgres says in which transaction.
GRANT INSERT (id, tenant_id, type, execution_id, session_id, customer_id, source_id, body) ON events TO agentruntime_app;

-- +goose Down
DROP TABLE events;
