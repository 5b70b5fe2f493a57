-- +goose Up

-- The revision of the step machine that an execution ran on, written at its end: a dry run that is
-- applied later is run once more by the same rules. NULL for executions from before this column.
ALTER TABLE map_executions ADD COLUMN revision integer;

-- +goose Down
ALTER TABLE map_executions DROP COLUMN revision;
