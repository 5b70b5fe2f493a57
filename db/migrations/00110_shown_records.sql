-- +goose Up

-- A task that was lost may still show what an execution waited for, after its repeat has shown what it
-- waits for now. Numbers of records tell which is later.
ALTER TABLE map_executions ADD COLUMN shown integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE map_executions DROP COLUMN shown;
