-- +goose Up

-- While the table is small, Postgres looks an execution up by any index that begins with its tenant, and
-- connections keep that plan until the table is analyzed: each look-up read all executions of the tenant, or
-- all open ones. With these indexes it reads one.
DROP INDEX map_executions_open_of_tenant;
CREATE INDEX map_executions_open_of_tenant ON map_executions (tenant_id, id) WHERE finished_at IS NULL;
DROP INDEX map_executions_of_map;
CREATE INDEX map_executions_of_map ON map_executions (map_id, tenant_id, id);
DROP INDEX map_executions_by_name;
CREATE UNIQUE INDEX map_executions_by_name ON map_executions (execution_id, tenant_id);

-- It returns one row now, and not a table of one.
DROP FUNCTION IF EXISTS claim_map(uuid, text[], jsonb, text, bytea, json, timestamptz);

-- +goose Down
DROP FUNCTION IF EXISTS claim_map(uuid, text[], jsonb, text, bytea, json, timestamptz);
DROP INDEX map_executions_by_name;
CREATE UNIQUE INDEX map_executions_by_name ON map_executions (tenant_id, execution_id);
DROP INDEX map_executions_of_map;
CREATE INDEX map_executions_of_map ON map_executions (tenant_id, map_id, id);
DROP INDEX map_executions_open_of_tenant;
CREATE INDEX map_executions_open_of_tenant ON map_executions (tenant_id) WHERE finished_at IS NULL;
