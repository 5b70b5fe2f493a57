-- +goose Up

-- The verb reaches an address of the caller's choice.
ALTER TABLE trusted_sources ADD COLUMN egress boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE trusted_sources DROP COLUMN egress;
