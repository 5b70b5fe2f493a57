-- +goose Up

ALTER TABLE map_executions
    -- The transaction that triggered it: an event of a later one came after the trigger.
    ADD COLUMN began_xid bigint NOT NULL DEFAULT (pg_current_xact_id()::text)::bigint,
    -- When something was written that its workflow has not read; null where there is nothing.
    ADD COLUMN news_at timestamptz,
    -- How many signals were sent to it; of those how many the step machine has taken, and of these
    -- how many no step has used.
    ADD COLUMN signals integer NOT NULL DEFAULT 0,
    ADD COLUMN signals_heard integer NOT NULL DEFAULT 0,
    ADD COLUMN signals_unused integer NOT NULL DEFAULT 0;
-- Those whose workflow may have missed that it was told.
CREATE INDEX map_executions_with_news ON map_executions (news_at) WHERE news_at IS NOT NULL AND finished_at IS NULL;

-- The signals to an execution, counted from 1.
CREATE TABLE map_signals (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    execution uuid NOT NULL,
    seq       integer NOT NULL,
    id        uuid NOT NULL, -- under which data is sealed
    name      text NOT NULL,
    data      text NOT NULL, -- sealed
    size      integer NOT NULL, -- bytes of data
    sent_by   text NOT NULL,
    sent_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, execution, seq),
    FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE
);

-- What executions wait for: each row is a step that waits for events.
CREATE TABLE map_waits (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    execution uuid NOT NULL,
    path      text COLLATE "C" NOT NULL, -- of the step, with the iterations around it
    type      text NOT NULL, -- of the events
    correlate text, -- null for any
    since     xid8 NOT NULL, -- events of this transaction and of earlier ones do not count
    PRIMARY KEY (tenant_id, execution, path),
    FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX map_waits_by_type ON map_waits (tenant_id, type);

-- Tenants with such executions, and up to which of their events the executions were told.
CREATE TABLE map_watches (
    tenant_id uuid PRIMARY KEY REFERENCES tenants (id),
    xid       xid8 NOT NULL,
    id        uuid NOT NULL
);

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['map_signals', 'map_waits', 'map_watches'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY tenant ON %I USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO agentruntime_app', t);
    END LOOP;
END
$$;
-- +goose StatementEnd
-- A job looks which tenants have events that executions wait for.
CREATE POLICY sweep_select ON map_waits FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_select ON map_watches FOR SELECT USING (app_setting('app.sweep') = 'on');

-- What a custom event belongs to, in the sender's words.
ALTER TABLE events ADD COLUMN correlate text;
CREATE INDEX events_by_correlate ON events (tenant_id, type, correlate, xid, id) WHERE correlate IS NOT NULL;
GRANT INSERT (correlate) ON events TO agentruntime_app;

-- +goose Down
DROP INDEX events_by_correlate;
ALTER TABLE events DROP COLUMN correlate;
DROP TABLE map_watches, map_waits, map_signals;
DROP INDEX map_executions_with_news;
ALTER TABLE map_executions DROP COLUMN began_xid, DROP COLUMN news_at, DROP COLUMN signals, DROP COLUMN signals_heard, DROP COLUMN signals_unused;
