-- +goose Up

-- What is left to erase of a customer, and what was erased. The row names the customer only until
-- all is erased.
CREATE TABLE customer_erasures (
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    customer_id  uuid NOT NULL,
    names        text[] NOT NULL, -- the texts that named the customer; {} at the end
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    completed_at timestamptz,
    erased       json NOT NULL DEFAULT '{}', -- how many of each kind
    PRIMARY KEY (tenant_id, customer_id)
);
CREATE INDEX customer_erasures_open ON customer_erasures (requested_at) WHERE completed_at IS NULL;
ALTER TABLE customer_erasures ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_erasures FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customer_erasures USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON customer_erasures FOR SELECT USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE (names, completed_at, erased) ON customer_erasures TO agentruntime_app;

-- An erasure empties what a person's call has left behind.
GRANT UPDATE (args, explanation, request) ON approvals TO agentruntime_app;
GRANT UPDATE (edited_args) ON approval_decisions TO agentruntime_app;
GRANT UPDATE (customer_id, conditions, reason) ON grants TO agentruntime_app;
CREATE INDEX grants_by_customer ON grants (tenant_id, customer_id) WHERE customer_id IS NOT NULL;

-- +goose Down
DROP INDEX grants_by_customer;
REVOKE UPDATE (customer_id, conditions, reason) ON grants FROM agentruntime_app;
REVOKE UPDATE (edited_args) ON approval_decisions FROM agentruntime_app;
REVOKE UPDATE (args, explanation, request) ON approvals FROM agentruntime_app;
DROP TABLE customer_erasures;
