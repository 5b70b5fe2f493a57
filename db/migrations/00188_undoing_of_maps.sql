-- +goose Up

-- What came of undoing the steps of an execution that failed or was cancelled, sealed. NULL where
-- nothing was to be undone and no outcome is unknown.
ALTER TABLE map_executions ADD COLUMN compensation text;

-- +goose Down
ALTER TABLE map_executions DROP COLUMN compensation;
