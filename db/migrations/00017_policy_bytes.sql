-- What the regular expressions of a policy take is not in the length of its text.
-- +goose Up
ALTER TABLE policies ADD COLUMN instructions integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE policies DROP COLUMN instructions;
