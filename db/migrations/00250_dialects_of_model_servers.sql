-- +goose Up

-- How a server differs from the API whose form it has.
ALTER TABLE model_providers
    ADD COLUMN max_tokens_field text NOT NULL DEFAULT 'max_completion_tokens' CHECK (max_tokens_field IN ('max_completion_tokens', 'max_tokens')),
    ADD COLUMN stream_usage boolean NOT NULL DEFAULT true;

-- Whether tokens are estimates, because a server has not reported them.
ALTER TABLE turns ADD COLUMN usage_estimated boolean NOT NULL DEFAULT false;
ALTER TABLE turn_answers ADD COLUMN estimated boolean NOT NULL DEFAULT false;
ALTER TABLE model_calls ADD COLUMN estimated boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE model_calls DROP COLUMN estimated;
ALTER TABLE turn_answers DROP COLUMN estimated;
ALTER TABLE turns DROP COLUMN usage_estimated;
ALTER TABLE model_providers DROP COLUMN stream_usage, DROP COLUMN max_tokens_field;
