-- +goose Up

-- The fingerprint of the arguments that people have edited; NULL where they have not. A call is compared
-- with what was sent; see unsettled_call.
ALTER TABLE runs ADD COLUMN sent_fingerprint bytea;
DROP FUNCTION IF EXISTS unsettled_call(uuid, bytea, text, boolean);
DROP INDEX runs_unknown;
CREATE INDEX runs_unknown ON runs (tenant_id, coalesce(sent_fingerprint, fingerprint)) WHERE listed_state = 'outcome_unknown';

-- +goose Down
DROP FUNCTION IF EXISTS unsettled_call(uuid, bytea, text, boolean);
DROP INDEX runs_unknown;
CREATE INDEX runs_unknown ON runs (tenant_id, fingerprint) WHERE listed_state = 'outcome_unknown';
ALTER TABLE runs DROP COLUMN sent_fingerprint;
