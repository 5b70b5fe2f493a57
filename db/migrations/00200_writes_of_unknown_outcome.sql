-- +goose Up

-- A call that a model asks for is compared with the writes whose outcome is unknown; see unsettled_call.
-- The predicate is on a column that only changes where a run is held or ends, so that the move to sending
-- writes into no index (HOT).
CREATE INDEX runs_unknown ON runs (tenant_id, fingerprint) WHERE listed_state = 'outcome_unknown';

-- +goose Down
DROP INDEX runs_unknown;
DROP FUNCTION IF EXISTS unsettled_call(uuid, bytea, text, boolean);
DROP FUNCTION IF EXISTS root_of_execution(uuid, text);
