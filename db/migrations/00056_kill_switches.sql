-- +goose Up

-- What a tenant has switched off: all its calls, those of a provider, of a verb or of an agent.
-- No call begins while a row that covers it is not lifted.
CREATE TABLE kill_switches (
    id        uuid NOT NULL,
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    scope     text NOT NULL CHECK (scope IN ('tenant', 'provider', 'verb', 'agent')),
    target    text, -- the slug, the verb's name or the agent's id; null for a tenant
    -- The scope and the target as one text: a call looks for those that cover it by this.
    covers    text COLLATE "C" NOT NULL,
    reason    text NOT NULL,
    set_by    uuid NOT NULL,
    set_at    timestamptz NOT NULL,
    lifted_by uuid,
    lifted_at timestamptz,
    PRIMARY KEY (tenant_id, id),
    CHECK ((target IS NULL) = (scope = 'tenant')),
    CHECK ((lifted_by IS NULL) = (lifted_at IS NULL))
);
CREATE INDEX kill_switches_set ON kill_switches (tenant_id, covers) WHERE lifted_at IS NULL;
ALTER TABLE kill_switches ENABLE ROW LEVEL SECURITY;
ALTER TABLE kill_switches FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON kill_switches USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE ON kill_switches TO agentruntime_app;

-- +goose Down
DROP TABLE kill_switches;
