-- +goose Up

-- What a retry goes on with, sealed: the event that takes the step machine's state up again. And
-- the names of triggers that the execution lost when it failed without any effect: a retry takes
-- them back.
ALTER TABLE map_executions
    ADD COLUMN again      text,
    ADD COLUMN freed_keys text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE map_executions
    DROP COLUMN again,
    DROP COLUMN freed_keys;
