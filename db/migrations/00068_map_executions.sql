-- +goose Up

-- The executions of Maps. A row is the truth about one: its workflow drives it and may be started
-- again under the same id at any time.
CREATE TABLE map_executions (
    id           uuid NOT NULL,
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    execution_id text COLLATE "C" NOT NULL,
    map_id       uuid NOT NULL,
    version      integer NOT NULL,
    machine      integer NOT NULL, -- the version of the step machine that it runs on
    map_type     text NOT NULL,
    dry_run      boolean NOT NULL,
    attempt      integer NOT NULL DEFAULT 1, -- counts its retries; each has a workflow of its own
    -- Of its payload, sealed as the texts are.
    fingerprint  bytea NOT NULL,
    payload      text NOT NULL,
    metadata     json NOT NULL,
    session_id   text,
    customer     text, -- as the caller named it
    origin       text NOT NULL,
    key_id       uuid,
    user_id      uuid,
    parent_id    text COLLATE "C", -- the execution that started it, and the path of the step
    step         text,
    depth        integer NOT NULL DEFAULT 0,
    request_id   text NOT NULL,
    source_addr  text NOT NULL,
    workflow_id  text COLLATE "C" NOT NULL,
    status       text NOT NULL DEFAULT 'running'
                 CHECK (status IN ('running', 'waiting', 'pending_approval', 'paused', 'escalated', 'completed', 'failed', 'cancelled')),
    waiting_for  json,
    -- What people have asked for; the workflow reads it when it is told to look.
    wants_cancel boolean NOT NULL DEFAULT false,
    wants_pause  boolean NOT NULL DEFAULT false,
    actions      integer NOT NULL DEFAULT 0, -- calls that were sent
    asked        boolean NOT NULL DEFAULT false, -- people were asked
    governance   text NOT NULL DEFAULT 'approved',
    output       text, -- sealed
    error        text, -- sealed
    state        text, -- sealed: that of the step machine at the end, from which a retry goes on
    records      integer NOT NULL DEFAULT 0, -- how many were written of its steps
    begun_at     timestamptz, -- when its workflow first looked at it
    updated_at   timestamptz NOT NULL,
    finished_at  timestamptz,
    erased_at    timestamptz, -- when its texts, steps and values were erased
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX map_executions_by_name ON map_executions (tenant_id, execution_id);
CREATE INDEX map_executions_of_map ON map_executions (tenant_id, map_id, id);
CREATE INDEX map_executions_of_key ON map_executions (tenant_id, key_id, id) WHERE key_id IS NOT NULL;
CREATE INDEX map_executions_of_session ON map_executions (tenant_id, session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX map_executions_of_parent ON map_executions (tenant_id, parent_id) WHERE parent_id IS NOT NULL;
-- Those that the sweeper looks at, over all tenants.
CREATE INDEX map_executions_open ON map_executions (updated_at) WHERE finished_at IS NULL;
CREATE INDEX map_executions_of_customer ON map_executions (tenant_id, customer, id) WHERE customer IS NOT NULL;
CREATE INDEX map_executions_old ON map_executions (finished_at) WHERE finished_at IS NOT NULL AND erased_at IS NULL;
CREATE INDEX map_executions_open_of_tenant ON map_executions (tenant_id) WHERE finished_at IS NULL;

-- Jobs start those whose start was lost, and erase what is old.
CREATE POLICY sweep_select ON map_executions FOR SELECT USING (app_setting('app.sweep') = 'on');

-- The names by which a trigger is repeated, of each Map over all its versions.
CREATE TABLE map_keys (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    map_id    uuid NOT NULL,
    key       text COLLATE "C" NOT NULL,
    execution uuid NOT NULL,
    PRIMARY KEY (tenant_id, map_id, key),
    FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX map_keys_of_execution ON map_keys (tenant_id, execution);

-- What each step has done: one row for each place in the definition, with the iterations of the
-- loops around it.
CREATE TABLE map_steps (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    execution  uuid NOT NULL,
    path       text COLLATE "C" NOT NULL,
    seq        integer NOT NULL, -- the order in which they began
    rev        integer NOT NULL, -- the record that the row has; an earlier one changes nothing
    step       text NOT NULL, -- its id in the definition
    type       text NOT NULL,
    instance   text NOT NULL, -- its place in the definition
    status     text NOT NULL,
    attempts   integer NOT NULL,
    input      text, -- sealed, as output and error
    output     text,
    error      text,
    run_id     text, -- the execution_id of the run that it made
    began_at   timestamptz NOT NULL,
    ended_at   timestamptz,
    PRIMARY KEY (tenant_id, execution, path),
    FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX map_steps_in_order ON map_steps (tenant_id, execution, seq);

-- Values that are too large for the state of a workflow, which has their names only.
CREATE TABLE map_values (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    execution uuid NOT NULL,
    name      text COLLATE "C" NOT NULL,
    body      text NOT NULL, -- sealed: a value of the step machine
    PRIMARY KEY (tenant_id, execution, name),
    FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE
);

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['map_executions', 'map_keys', 'map_steps', 'map_values'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY tenant ON %I USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO agentruntime_app', t);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE map_values, map_steps, map_keys, map_executions;
