-- +goose Up

-- What the calls of models for steps of Maps have cost, and what a manager has decided about a step.
ALTER TABLE model_calls
    ADD COLUMN money_micros bigint NOT NULL DEFAULT 0,
    ADD COLUMN ruling       text; -- sealed

-- +goose Down
ALTER TABLE model_calls DROP COLUMN ruling, DROP COLUMN money_micros;
