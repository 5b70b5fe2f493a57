-- +goose Up

-- The executions that have the places of a key, found without reading all that wait for one.
CREATE INDEX map_places_held ON map_places (tenant_id, map_id, key) WHERE state = 'held';

-- +goose Down
DROP INDEX map_places_held;
