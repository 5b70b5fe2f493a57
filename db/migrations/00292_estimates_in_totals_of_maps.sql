-- +goose Up

-- Whether tokens_used has estimates, because a server of models has not reported all tokens.
ALTER TABLE map_executions ADD COLUMN usage_estimated boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE map_executions DROP COLUMN usage_estimated;
