-- +goose Up

-- The calls of models for steps of Maps, one row for each, however often it is repeated after a
-- crash. No history has what the models read and wrote.
CREATE TABLE model_calls (
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    execution     uuid NOT NULL,
    path          text COLLATE "C" NOT NULL, -- of the step, as in map_steps
    attempt       integer NOT NULL, -- of the step
    turn          integer NOT NULL, -- from 0
    purpose       text NOT NULL,
    asked         text NOT NULL, -- sealed: what the model reads in this turn, beside what it has read before
    answer        text, -- sealed
    error         text, -- sealed: why there is no answer
    model         text NOT NULL DEFAULT '',
    tokens_in     bigint NOT NULL DEFAULT 0,
    tokens_cached bigint NOT NULL DEFAULT 0,
    tokens_out    bigint NOT NULL DEFAULT 0,
    finish        text NOT NULL DEFAULT '',
    began_at      timestamptz NOT NULL,
    ended_at      timestamptz,
    PRIMARY KEY (tenant_id, execution, path, attempt, turn),
    FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE model_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE model_calls FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON model_calls USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON model_calls TO agentruntime_app;

-- What the models of an execution have used, and how much is stored of it.
ALTER TABLE map_executions ADD COLUMN tokens_used bigint NOT NULL DEFAULT 0;
ALTER TABLE map_executions ADD COLUMN models_asked integer NOT NULL DEFAULT 0;
ALTER TABLE map_executions ADD COLUMN model_bytes bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE map_executions DROP COLUMN model_bytes;
ALTER TABLE map_executions DROP COLUMN models_asked;
ALTER TABLE map_executions DROP COLUMN tokens_used;
DROP TABLE model_calls;
