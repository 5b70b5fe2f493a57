-- +goose Up
ALTER TABLE map_executions DROP COLUMN revision, DROP COLUMN machine;

DROP POLICY credentials_sweep ON credentials;
ALTER TABLE credentials DROP COLUMN digested;

-- +goose Down
ALTER TABLE map_executions ADD COLUMN revision integer, ADD COLUMN machine integer NOT NULL DEFAULT 1;
ALTER TABLE credentials ADD COLUMN digested boolean NOT NULL DEFAULT true;
