-- +goose Up

-- For the quota of what a tenant sends in an hour.
CREATE INDEX events_sent ON events (tenant_id, id) WHERE source_id IS NOT NULL;

-- +goose Down
DROP INDEX events_sent;
