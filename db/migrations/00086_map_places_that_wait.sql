-- +goose Up

-- The keys for which executions wait, each found without reading all that wait for it.
DROP INDEX map_places_queued;
CREATE INDEX map_places_waiting ON map_places (tenant_id, map_id, key, seq) WHERE state = 'queued';

-- +goose Down
DROP INDEX map_places_waiting;
CREATE INDEX map_places_queued ON map_places (seq) WHERE state = 'queued';
