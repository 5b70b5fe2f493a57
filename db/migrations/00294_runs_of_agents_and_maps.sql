-- Lists of what an agent, a Map or an execution did, in the order of the list. All three are said with the
-- claim, by the service only: a call over HTTP has no parent. Calls over HTTP are in none of the indexes.
-- +goose Up
ALTER TABLE runs ADD COLUMN of_map text GENERATED ALWAYS AS (CASE WHEN parent_id IS NOT NULL THEN metadata ->> 'map_id' END) STORED;
CREATE INDEX runs_by_map ON runs (tenant_id, of_map, id DESC) WHERE of_map IS NOT NULL;
CREATE INDEX runs_by_parent ON runs (tenant_id, parent_id, id DESC) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_by_agent ON runs (tenant_id, agent_id, id DESC) WHERE agent_id IS NOT NULL;

-- +goose Down
DROP INDEX runs_by_agent, runs_by_parent, runs_by_map;
ALTER TABLE runs DROP COLUMN of_map;
