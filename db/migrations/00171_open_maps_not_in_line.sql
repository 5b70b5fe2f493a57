-- +goose Up

-- The sweeper read all executions that wait for a place of their key, to leave them out: every ten
-- seconds, one look-up for each. One that is to end is still found.
DROP INDEX map_executions_open;
CREATE INDEX map_executions_open ON map_executions (updated_at)
    WHERE finished_at IS NULL AND ((waiting_for ->> 'for') IS DISTINCT FROM 'concurrency' OR wants_cancel);

-- +goose Down
DROP INDEX map_executions_open;
CREATE INDEX map_executions_open ON map_executions (updated_at) WHERE finished_at IS NULL;
