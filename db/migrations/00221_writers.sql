-- +goose Up

-- Who has written a text that becomes an argument: of a call, of a step, of what the execution starts.
ALTER TABLE map_executions RENAME COLUMN editors TO writers;
-- Those of the execution or the session when the approval was asked for.
ALTER TABLE approvals RENAME COLUMN editors TO writers;
ALTER TABLE conversations ADD COLUMN writers uuid[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE conversations DROP COLUMN writers;
ALTER TABLE approvals RENAME COLUMN writers TO editors;
ALTER TABLE map_executions RENAME COLUMN writers TO editors;
