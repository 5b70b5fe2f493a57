-- +goose Up

-- A change of a row needs no new entry in any index where no indexed column changes and its
-- page has room (HOT). The state stood in the predicates of three indexes, and one of them was
-- by updated_at, so the move to sending and each mark that a call is alive wrote into all
-- indexes of the table. listed_state changes only where a list shows it: when the run is held
-- or ends. Postgres computes it, so it cannot disagree with the state.
--
-- The column rewrites the table, with the room that the new versions of its rows need.
ALTER TABLE runs SET (fillfactor = 80);
ALTER TABLE runs ADD COLUMN listed_state text
    GENERATED ALWAYS AS (CASE WHEN state IN ('claimed', 'sending') THEN NULL ELSE state END) STORED;
DROP INDEX runs_by_state, runs_under_way, runs_unfinished;
CREATE INDEX runs_by_state ON runs (tenant_id, listed_state, id DESC) WHERE listed_state IS NOT NULL;
-- For the list of one tenant's unfinished runs, and for the sweeper's of all tenants.
CREATE INDEX runs_under_way ON runs (tenant_id, id) WHERE listed_state IS NULL;

-- +goose Down
DROP INDEX runs_by_state, runs_under_way;
ALTER TABLE runs DROP COLUMN listed_state;
ALTER TABLE runs RESET (fillfactor);
CREATE INDEX runs_by_state ON runs (tenant_id, state, id DESC) WHERE state NOT IN ('claimed', 'sending');
CREATE INDEX runs_under_way ON runs (tenant_id, id DESC) WHERE state IN ('claimed', 'sending');
CREATE INDEX runs_unfinished ON runs (updated_at) WHERE (state IN ('claimed', 'sending')) IS TRUE;
