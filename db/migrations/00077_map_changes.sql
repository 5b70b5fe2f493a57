-- +goose Up

-- The writes that a dry run of a Map has not made, in one ordered list with those of the Maps that
-- its steps started and waited for. What a change would send is a sealed value of map_values.
CREATE TABLE map_changes (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    dry_run    uuid NOT NULL, -- the execution whose list it is in
    id         text COLLATE "C" NOT NULL,
    execution  uuid NOT NULL, -- the one that came to it
    place      integer[] NOT NULL, -- orders the list
    path       text[] NOT NULL, -- the step, after the steps that started the executions around it
    verb       text NOT NULL,
    depends_on text[] NOT NULL,
    status     text NOT NULL DEFAULT 'proposed'
               CHECK (status IN ('proposed', 'approved', 'rejected', 'applying', 'applied', 'failed', 'drifted', 'not_applied')),
    run        uuid, -- that applies it
    code       text, -- why it failed or drifted
    reason     text,
    PRIMARY KEY (tenant_id, dry_run, id),
    FOREIGN KEY (tenant_id, dry_run) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX map_changes_in_order ON map_changes (tenant_id, dry_run, place, id);
CREATE INDEX map_changes_to_apply ON map_changes (tenant_id, dry_run, place, id) WHERE status IN ('approved', 'applying');

-- The list of a dry run that has completed. People decide about it once, and a workflow applies it.
CREATE TABLE map_change_sets (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    execution   uuid NOT NULL,
    status      text NOT NULL DEFAULT 'proposed'
                CHECK (status IN ('proposed', 'applying', 'applied', 'stopped', 'rejected', 'expired')),
    workflow_id text COLLATE "C" NOT NULL,
    -- Which changes were approved and rejected, as a hash: a repeat of the decision is known by it.
    decision    bytea,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, execution),
    FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE
);
-- Those that the sweeper looks at, over all tenants.
CREATE INDEX map_change_sets_applying ON map_change_sets (updated_at) WHERE status = 'applying';

-- Of an execution that a step of a dry run started and waits for: the dry run whose list has its
-- changes, their place in it, and the steps that lead to it.
ALTER TABLE map_executions
    ADD COLUMN changes_of   uuid,
    ADD COLUMN changes_at   integer[] NOT NULL DEFAULT '{}',
    ADD COLUMN changes_path text[] NOT NULL DEFAULT '{}';

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['map_changes', 'map_change_sets'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY tenant ON %I USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO agentruntime_app', t);
    END LOOP;
END
$$;
-- +goose StatementEnd
-- A job starts the workflows whose start was lost.
CREATE POLICY sweep_select ON map_change_sets FOR SELECT USING (app_setting('app.sweep') = 'on');

-- +goose Down
DROP TABLE map_change_sets, map_changes;
ALTER TABLE map_executions DROP COLUMN changes_of, DROP COLUMN changes_at, DROP COLUMN changes_path;
