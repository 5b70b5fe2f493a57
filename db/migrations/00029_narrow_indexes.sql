-- +goose Up

-- A plan is made while a table is small, where all indexes look alike, and is kept while it
-- grows. So an index that begins with the tenant could serve a look-up by tenant and id, and
-- read all runs of the tenant. With these predicates an index only serves a statement that
-- names its column.
DROP INDEX runs_by_provider, runs_by_verb;
CREATE INDEX runs_by_provider ON runs (tenant_id, provider, id DESC) WHERE provider IS NOT NULL;
CREATE INDEX runs_by_verb ON runs (tenant_id, provider, verb, id DESC) WHERE verb IS NOT NULL;
-- The same for the sweeper's index: a change of one run names its state too, and would read
-- what all runs have left in it.
DROP INDEX runs_unfinished;
CREATE INDEX runs_unfinished ON runs (updated_at) WHERE (state IN ('claimed', 'sending')) IS TRUE;

-- +goose Down
DROP INDEX runs_unfinished, runs_by_provider, runs_by_verb;
CREATE INDEX runs_unfinished ON runs (updated_at) WHERE state IN ('claimed', 'sending');
CREATE INDEX runs_by_provider ON runs (tenant_id, provider, id DESC);
CREATE INDEX runs_by_verb ON runs (tenant_id, provider, verb, id DESC);
