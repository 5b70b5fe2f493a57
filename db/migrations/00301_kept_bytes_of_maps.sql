-- +goose Up

-- How many bytes of values an execution has kept by its end: what its steps read and returned. It is 0
-- until then, and again once they are erased. The quota map_value_bytes adds up the large ones.
ALTER TABLE map_executions ADD COLUMN kept_bytes bigint NOT NULL DEFAULT 0;
CREATE INDEX map_executions_kept ON map_executions (tenant_id) INCLUDE (kept_bytes) WHERE kept_bytes >= 4194304;

-- +goose Down
ALTER TABLE map_executions DROP COLUMN kept_bytes;
