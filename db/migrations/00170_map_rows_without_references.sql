-- +goose Up

-- Each row of a step looked up its tenant and its execution, and locked both rows until the commit.
-- All executions of a tenant locked the one row of that tenant. Neither a tenant nor an execution is
-- ever deleted, the statement that writes steps selects from the execution, and row-level security
-- compares the tenant. Runs, their keys, events and audit records refer to nothing either.
ALTER TABLE map_executions DROP CONSTRAINT map_executions_tenant_id_fkey;
ALTER TABLE map_keys DROP CONSTRAINT map_keys_tenant_id_fkey, DROP CONSTRAINT map_keys_tenant_id_execution_fkey;
ALTER TABLE map_steps DROP CONSTRAINT map_steps_tenant_id_fkey, DROP CONSTRAINT map_steps_tenant_id_execution_fkey;
ALTER TABLE map_values DROP CONSTRAINT map_values_tenant_id_fkey, DROP CONSTRAINT map_values_tenant_id_execution_fkey;

-- +goose Down
ALTER TABLE map_values ADD FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    ADD FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE;
ALTER TABLE map_steps ADD FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    ADD FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE;
ALTER TABLE map_keys ADD FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    ADD FOREIGN KEY (tenant_id, execution) REFERENCES map_executions (tenant_id, id) ON DELETE CASCADE;
ALTER TABLE map_executions ADD FOREIGN KEY (tenant_id) REFERENCES tenants (id);
