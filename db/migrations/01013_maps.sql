-- +goose Up

-- Maps and their executions.

-- A tenant's Maps. What a Map does is in its versions. A deleted Map keeps its row and its
-- versions, because executions that began before go on with the version that they pinned.
CREATE TABLE maps (
    id                uuid NOT NULL,
    tenant_id         uuid NOT NULL REFERENCES tenants (id),
    name              text NOT NULL, -- of the newest version, like the description
    description       text NOT NULL,
    latest_version    integer NOT NULL, -- versions count from 1, without gaps
    published_version integer, -- what triggers run; null before the first publication
    published_by      text, -- "user:<id>" or "key:<id>"
    published_at      timestamptz,
    revision          integer NOT NULL, -- counts all changes: the ETag
    bytes             bigint NOT NULL, -- of the definitions of all versions, for the quota
    created_by        text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_by        text NOT NULL,
    updated_at        timestamptz NOT NULL,
    deleted_at        timestamptz,
    looked_at         timestamptz, -- when the job last looked whether one can
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT maps_check CHECK (((published_version IS NULL) = (published_by IS NULL))),
    CONSTRAINT maps_check1 CHECK (((published_version IS NULL) = (published_at IS NULL)))
);
CREATE INDEX maps_deleted ON maps (deleted_at) WHERE (deleted_at IS NOT NULL);
CREATE INDEX maps_live ON maps (tenant_id, id) WHERE (deleted_at IS NULL);
ALTER TABLE maps ENABLE ROW LEVEL SECURITY;
ALTER TABLE maps FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON maps FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON maps USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON maps TO agentruntime_app;

-- The versions. A version never changes; only its last publication is noted in it.
CREATE TABLE map_versions (
    tenant_id      uuid NOT NULL,
    map_id         uuid NOT NULL,
    version        integer NOT NULL,
    name           text NOT NULL,
    definition     json NOT NULL, -- the text as written; YAML was converted
    size           integer NOT NULL, -- bytes of that text
    digest         bytea NOT NULL, -- SHA-256 of that text
    cognitive      boolean NOT NULL, -- it has a model step of its own
    -- The Maps that its steps start, each once, and of each the version: 0 is the published one.
    starts         uuid[] NOT NULL,
    start_versions integer[] NOT NULL,
    created_by     text NOT NULL,
    created_at     timestamptz NOT NULL,
    published_by   text, -- the last time that it was published
    published_at   timestamptz,
    -- The verbs that a version names: its steps, compensations and the tools of its agents.
    verbs          text[] DEFAULT '{}'::text[] NOT NULL,
    PRIMARY KEY (tenant_id, map_id, version),
    CONSTRAINT map_versions_check CHECK ((cardinality(starts) = cardinality(start_versions))),
    CONSTRAINT map_versions_check1 CHECK (((published_by IS NULL) = (published_at IS NULL))),
    CONSTRAINT map_versions_tenant_id_map_id_fkey FOREIGN KEY (tenant_id, map_id) REFERENCES maps(tenant_id, id)
);
ALTER TABLE map_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON map_versions USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON map_versions TO agentruntime_app;
GRANT UPDATE (published_by, published_at) ON map_versions TO agentruntime_app;

-- The executions of Maps. A row is the truth about one: its workflow drives it and may be started
-- again under the same id at any time.
CREATE TABLE map_executions (
    id               uuid NOT NULL,
    tenant_id        uuid NOT NULL,
    execution_id     text NOT NULL COLLATE pg_catalog."C",
    map_id           uuid NOT NULL,
    version          integer NOT NULL,
    map_type         text NOT NULL,
    dry_run          boolean NOT NULL,
    attempt          integer DEFAULT 1 NOT NULL, -- counts its retries; each has a workflow of its own
    -- Of its payload, sealed as the texts are.
    fingerprint      bytea NOT NULL,
    payload          text NOT NULL,
    metadata         json NOT NULL,
    session_id       text,
    customer         text, -- as the caller named it
    origin           text NOT NULL,
    key_id           uuid,
    user_id          uuid,
    parent_id        text COLLATE pg_catalog."C", -- the execution that started it, and the path of the step
    step             text,
    depth            integer DEFAULT 0 NOT NULL,
    request_id       text NOT NULL,
    source_addr      text NOT NULL,
    workflow_id      text NOT NULL COLLATE pg_catalog."C",
    status           text DEFAULT 'running' NOT NULL CHECK ((status IN ('running', 'waiting', 'pending_approval', 'paused', 'escalated',
        'completed', 'failed', 'cancelled'))),
    waiting_for      json,
    -- What people have asked for; the workflow reads it when it is told to look.
    wants_cancel     boolean DEFAULT false NOT NULL,
    wants_pause      boolean DEFAULT false NOT NULL,
    actions          integer DEFAULT 0 NOT NULL, -- calls that were sent
    asked            boolean DEFAULT false NOT NULL, -- people were asked
    governance       text DEFAULT 'approved' NOT NULL,
    output           text, -- sealed
    error            text, -- sealed
    state            text, -- sealed: that of the step machine at the end, from which a retry goes on
    records          integer DEFAULT 0 NOT NULL, -- how many were written of its steps
    begun_at         timestamptz, -- when its workflow first looked at it
    updated_at       timestamptz NOT NULL,
    finished_at      timestamptz,
    erased_at        timestamptz, -- when its texts, steps and values were erased
    -- The transaction that triggered it: an event of a later one came after the trigger.
    began_xid        bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    -- When something was written that its workflow has not read; null where there is nothing.
    news_at          timestamptz,
    -- How many signals were sent to it; of those how many the step machine has taken, and of these
    -- how many no step has used.
    signals          integer DEFAULT 0 NOT NULL,
    signals_heard    integer DEFAULT 0 NOT NULL,
    signals_unused   integer DEFAULT 0 NOT NULL,
    -- The step that started it waits for its end.
    awaited          boolean DEFAULT false NOT NULL,
    -- A call of its steps, or of an execution that they started, may have changed something.
    wrote            boolean DEFAULT false NOT NULL,
    -- The changes of a dry run whose invented results the payload, or the output, was built from.
    payload_invented text[] DEFAULT '{}'::text[] NOT NULL,
    output_invented  text[] DEFAULT '{}'::text[] NOT NULL,
    -- What a retry goes on with, sealed: the event that takes the step machine's state up again. And
    -- the names of triggers that the execution lost when it failed without any effect: a retry takes
    -- them back.
    again            text,
    freed_keys       text[] DEFAULT '{}'::text[] NOT NULL,
    -- Of an execution that a step of a dry run started and waits for: the dry run whose list has its
    -- changes, their place in it, and the steps that lead to it.
    changes_of       uuid,
    changes_at       integer[] DEFAULT '{}'::integer[] NOT NULL,
    changes_path     text[] DEFAULT '{}'::text[] NOT NULL,
    -- What the models of an execution have used, and how much is stored of it.
    tokens_used      bigint DEFAULT 0 NOT NULL,
    models_asked     integer DEFAULT 0 NOT NULL,
    model_bytes      bigint DEFAULT 0 NOT NULL,
    chain            json, -- the messages and Maps above it, where an agent is among them
    caller_workflow  text, -- of the message that has started it
    tainted          boolean DEFAULT false NOT NULL, -- the agent had read what others than the tenant wrote
    -- A task that was lost may still show what an execution waited for, after its repeat has shown what it
    -- waits for now. Numbers of records tell which is later.
    shown            integer DEFAULT 0 NOT NULL,
    -- What came of undoing the steps of an execution that failed or was cancelled, sealed. NULL where
    -- nothing was to be undone and no outcome is unknown.
    compensation     text,
    writers          uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    taint_sources    text[] DEFAULT '{}'::text[] NOT NULL,
    -- The sources whose words its output may have; null where that is not known.
    reads            text[],
    -- Whether tokens_used has estimates, because a server of models has not reported all tokens.
    usage_estimated  boolean DEFAULT false NOT NULL,
    -- How many bytes of values an execution has kept by its end: what its steps read and returned. It is 0
    -- until then, and again once they are erased. The quota map_value_bytes adds up the large ones.
    kept_bytes       bigint DEFAULT 0 NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX map_executions_by_name ON map_executions (execution_id, tenant_id);
CREATE INDEX map_executions_kept ON map_executions (tenant_id) INCLUDE (kept_bytes) WHERE (kept_bytes >= 4194304);
CREATE INDEX map_executions_of_customer ON map_executions (tenant_id, customer, id) WHERE (customer IS NOT NULL);
CREATE INDEX map_executions_of_key ON map_executions (tenant_id, key_id, id) WHERE (key_id IS NOT NULL);
CREATE INDEX map_executions_of_map ON map_executions (map_id, tenant_id, id);
CREATE INDEX map_executions_of_parent ON map_executions (tenant_id, parent_id) WHERE (parent_id IS NOT NULL);
CREATE INDEX map_executions_of_session ON map_executions (tenant_id, session_id, id) WHERE (session_id IS NOT NULL);
CREATE INDEX map_executions_old ON map_executions (finished_at) WHERE ((finished_at IS NOT NULL) AND (erased_at IS NULL));
-- Those that the sweeper looks at, over all tenants.
CREATE INDEX map_executions_open ON map_executions (updated_at) WHERE ((finished_at IS NULL)
    AND (((waiting_for ->> 'for') IS DISTINCT FROM 'concurrency') OR wants_cancel));
CREATE INDEX map_executions_open_of_tenant ON map_executions (tenant_id, id) WHERE (finished_at IS NULL);
-- Those whose workflow may have missed that it was told.
CREATE INDEX map_executions_with_news ON map_executions (news_at) WHERE ((news_at IS NOT NULL) AND (finished_at IS NULL));
ALTER TABLE map_executions ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_executions FORCE ROW LEVEL SECURITY;
-- Jobs start those whose start was lost, and erase what is old.
CREATE POLICY sweep_select ON map_executions FOR SELECT USING ((( SELECT app_setting('app.sweep') AS app_setting) = 'on'));
CREATE POLICY tenant ON map_executions USING ((tenant_id = ( SELECT app_tenant() AS app_tenant))) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_executions TO agentruntime_app;

-- The names by which a trigger is repeated, of each Map over all its versions.
CREATE TABLE map_keys (
    tenant_id uuid NOT NULL,
    map_id    uuid NOT NULL,
    key       text NOT NULL COLLATE pg_catalog."C",
    execution uuid NOT NULL,
    PRIMARY KEY (tenant_id, map_id, key)
);
CREATE INDEX map_keys_of_execution ON map_keys (tenant_id, execution);
ALTER TABLE map_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON map_keys USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_keys TO agentruntime_app;

-- What each step has done: one row for each place in the definition, with the iterations of the
-- loops around it.
CREATE TABLE map_steps (
    tenant_id uuid NOT NULL,
    execution uuid NOT NULL,
    path      text NOT NULL COLLATE pg_catalog."C",
    seq       integer NOT NULL, -- the order in which they began
    rev       integer NOT NULL, -- the record that the row has; an earlier one changes nothing
    step      text NOT NULL, -- its id in the definition
    type      text NOT NULL,
    instance  text NOT NULL, -- its place in the definition
    status    text NOT NULL,
    attempts  integer NOT NULL,
    input     text, -- sealed, as output and error
    output    text,
    error     text,
    run_id    text, -- the execution_id of the run that it made
    began_at  timestamptz NOT NULL,
    ended_at  timestamptz,
    PRIMARY KEY (tenant_id, execution, path)
);
CREATE INDEX map_steps_in_order ON map_steps (tenant_id, execution, seq);
ALTER TABLE map_steps ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_steps FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON map_steps USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_steps TO agentruntime_app;

-- Values that are too large for the state of a workflow, which has their names only.
CREATE TABLE map_values (
    tenant_id uuid NOT NULL,
    execution uuid NOT NULL,
    name      text NOT NULL COLLATE pg_catalog."C",
    body      text NOT NULL, -- sealed: a value of the step machine
    PRIMARY KEY (tenant_id, execution, name)
);
ALTER TABLE map_values ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_values FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON map_values USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_values TO agentruntime_app;

-- What executions wait for: each row is a step that waits for events.
CREATE TABLE map_waits (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    execution uuid NOT NULL,
    path      text NOT NULL COLLATE pg_catalog."C", -- of the step, with the iterations around it
    type      text NOT NULL, -- of the events
    correlate text, -- null for any
    since     xid8 NOT NULL, -- events of this transaction and of earlier ones do not count
    PRIMARY KEY (tenant_id, execution, path),
    CONSTRAINT map_waits_tenant_id_execution_fkey FOREIGN KEY (tenant_id, execution) REFERENCES map_executions(tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX map_waits_by_type ON map_waits (tenant_id, type);
ALTER TABLE map_waits ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_waits FORCE ROW LEVEL SECURITY;
-- A job looks which tenants have events that executions wait for.
CREATE POLICY sweep_select ON map_waits FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON map_waits USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_waits TO agentruntime_app;

-- Tenants with such executions, and up to which of their events the executions were told.
CREATE TABLE map_watches (
    tenant_id uuid PRIMARY KEY REFERENCES tenants (id),
    xid       xid8 NOT NULL,
    id        uuid NOT NULL
);
ALTER TABLE map_watches ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_watches FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON map_watches FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON map_watches USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_watches TO agentruntime_app;

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
    CONSTRAINT map_signals_tenant_id_execution_fkey FOREIGN KEY (tenant_id, execution) REFERENCES map_executions(tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE map_signals ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_signals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON map_signals USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_signals TO agentruntime_app;

-- The places of executions whose Map has a concurrency key. An execution has its row until it ends:
-- held while it may run, queued while it waits for a place, dropped where a newer one took its turn
-- before it began. The key is a digest under the tenant's data key.
CREATE TABLE map_places (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    execution uuid NOT NULL,
    map_id    uuid NOT NULL,
    key       bytea NOT NULL,
    seq       bigint NOT NULL, -- the order of those that are queued
    state     text NOT NULL CHECK ((state IN ('held', 'queued', 'dropped'))),
    most      integer NOT NULL, -- how many may run, as the version says
    PRIMARY KEY (tenant_id, execution),
    CONSTRAINT map_places_tenant_id_execution_fkey FOREIGN KEY (tenant_id, execution) REFERENCES map_executions(tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE map_places ALTER COLUMN seq ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME map_places_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
-- The executions that have the places of a key, found without reading all that wait for one.
CREATE INDEX map_places_held ON map_places (tenant_id, map_id, key) WHERE (state = 'held');
CREATE INDEX map_places_of_key ON map_places (tenant_id, map_id, key, seq);
CREATE INDEX map_places_waiting ON map_places (tenant_id, map_id, key, seq) WHERE (state = 'queued');
ALTER TABLE map_places ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_places FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON map_places FOR SELECT USING ((( SELECT app_setting('app.sweep') AS app_setting) = 'on'));
CREATE POLICY tenant ON map_places USING ((tenant_id = ( SELECT app_tenant() AS app_tenant))) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_places TO agentruntime_app;

-- The list of a dry run that has completed. People decide about it once, and a workflow applies it.
CREATE TABLE map_change_sets (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    execution   uuid NOT NULL,
    status      text DEFAULT 'proposed' NOT NULL CHECK ((status IN ('proposed', 'applying', 'applied', 'stopped', 'rejected', 'expired'))),
    workflow_id text NOT NULL COLLATE pg_catalog."C",
    -- Which changes were approved and rejected, as a hash: a repeat of the decision is known by it.
    decision    bytea,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, execution),
    CONSTRAINT map_change_sets_tenant_id_execution_fkey FOREIGN KEY (tenant_id, execution) REFERENCES map_executions(tenant_id, id) ON DELETE CASCADE
);
-- Those that the sweeper looks at, over all tenants.
CREATE INDEX map_change_sets_applying ON map_change_sets (updated_at) WHERE (status = 'applying');
ALTER TABLE map_change_sets ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_change_sets FORCE ROW LEVEL SECURITY;
-- A job starts the workflows whose start was lost.
CREATE POLICY sweep_select ON map_change_sets FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON map_change_sets USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_change_sets TO agentruntime_app;

-- The writes that a dry run of a Map has not made, in one ordered list with those of the Maps that
-- its steps started and waited for. What a change would send is a sealed value of map_values.
CREATE TABLE map_changes (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    dry_run    uuid NOT NULL, -- the execution whose list it is in
    id         text NOT NULL COLLATE pg_catalog."C",
    execution  uuid NOT NULL, -- the one that came to it
    place      integer[] NOT NULL, -- orders the list
    path       text[] NOT NULL, -- the step, after the steps that started the executions around it
    verb       text NOT NULL,
    depends_on text[] NOT NULL,
    status     text DEFAULT 'proposed' NOT NULL CHECK ((status IN ('proposed', 'approved', 'rejected', 'applying', 'applied', 'failed',
        'drifted', 'not_applied'))),
    run        uuid, -- that applies it
    code       text, -- why it failed or drifted
    reason     text,
    PRIMARY KEY (tenant_id, dry_run, id),
    CONSTRAINT map_changes_tenant_id_dry_run_fkey FOREIGN KEY (tenant_id, dry_run) REFERENCES map_executions(tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX map_changes_in_order ON map_changes (tenant_id, dry_run, place, id);
CREATE INDEX map_changes_to_apply ON map_changes (tenant_id, dry_run, place, id) WHERE (status = ANY (ARRAY['approved', 'applying']));
ALTER TABLE map_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_changes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON map_changes USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON map_changes TO agentruntime_app;

-- The calls of models for steps of Maps, one row for each, however often it is repeated after a
-- crash. No history has what the models read and wrote.
CREATE TABLE model_calls (
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    execution     uuid NOT NULL,
    path          text NOT NULL COLLATE pg_catalog."C", -- of the step, as in map_steps
    attempt       integer NOT NULL, -- of the step
    turn          integer NOT NULL, -- from 0
    purpose       text NOT NULL,
    asked         text NOT NULL, -- sealed: what the model reads in this turn, beside what it has read before
    answer        text, -- sealed
    error         text, -- sealed: why there is no answer
    model         text DEFAULT '' NOT NULL,
    tokens_in     bigint DEFAULT 0 NOT NULL,
    tokens_cached bigint DEFAULT 0 NOT NULL,
    tokens_out    bigint DEFAULT 0 NOT NULL,
    finish        text DEFAULT '' NOT NULL,
    began_at      timestamptz NOT NULL,
    ended_at      timestamptz,
    -- The runs of the calls that an answer of a model has asked for: by the number of the call, its verb
    -- and the execution_id of the run.
    runs          jsonb DEFAULT '{}'::jsonb NOT NULL,
    -- What the calls of models for steps of Maps have cost, and what a manager has decided about a step.
    money_micros  bigint DEFAULT 0 NOT NULL,
    ruling        text, -- sealed
    estimated     boolean DEFAULT false NOT NULL,
    PRIMARY KEY (tenant_id, execution, path, attempt, turn),
    CONSTRAINT model_calls_tenant_id_execution_fkey FOREIGN KEY (tenant_id, execution) REFERENCES map_executions(tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE model_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE model_calls FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON model_calls USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON model_calls TO agentruntime_app;

-- +goose Down
DROP TABLE model_calls, map_changes, map_change_sets, map_places, map_signals, map_watches, map_waits, map_values, map_steps, map_keys,
    map_executions, map_versions, maps CASCADE;
