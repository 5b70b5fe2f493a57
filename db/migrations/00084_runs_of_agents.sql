-- +goose Up

-- The runs of the calls that an answer of a model has asked for: by the number of the call, its verb
-- and the execution_id of the run.
ALTER TABLE model_calls ADD COLUMN runs jsonb NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE model_calls DROP COLUMN runs;
