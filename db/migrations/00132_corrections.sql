-- +goose Up

-- report is what the last import said, beside the operations that lost something. risk_by says
-- where a verb's risk comes from; '' is a verb from before that was stored.
ALTER TABLE providers ADD COLUMN report json;
ALTER TABLE verbs ADD COLUMN risk_by text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE verbs DROP COLUMN risk_by;
ALTER TABLE providers DROP COLUMN report;
