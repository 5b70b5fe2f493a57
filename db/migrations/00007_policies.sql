-- +goose Up

-- A tenant's rules. document is the policy as the API shows it (verbMatchers,
-- conditions, action, approval); the columns beside it are those that lists and
-- counts ask for. A deleted policy keeps its row, so that approvals and audit records
-- that name it can still be read.
CREATE TABLE policies (
    id          uuid NOT NULL,
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    version     integer NOT NULL, -- counts its changes, from 1
    name        text NOT NULL,
    description text NOT NULL,
    enabled     boolean NOT NULL,
    mode        text NOT NULL CHECK (mode IN ('enforce', 'shadow')),
    priority    integer NOT NULL,
    action      text NOT NULL CHECK (action IN ('allow', 'notify', 'require_approval', 'block')),
    document    json NOT NULL,
    created_by  text NOT NULL, -- "user:<id>" or "key:<id>"
    created_at  timestamptz NOT NULL,
    updated_by  text NOT NULL,
    updated_at  timestamptz NOT NULL,
    deleted_at  timestamptz,
    PRIMARY KEY (tenant_id, id)
);
ALTER TABLE policies ENABLE ROW LEVEL SECURITY;
ALTER TABLE policies FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policies USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE ON policies TO agentruntime_app;

-- Every state that a policy has been in, and who made it so. Insert-only.
CREATE TABLE policy_versions (
    tenant_id  uuid NOT NULL,
    policy_id  uuid NOT NULL,
    version    integer NOT NULL,
    change     text NOT NULL CHECK (change IN ('created', 'updated', 'deleted')),
    policy     json NOT NULL, -- whole, as the API shows it
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, policy_id, version),
    FOREIGN KEY (tenant_id, policy_id) REFERENCES policies (tenant_id, id)
);
ALTER TABLE policy_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy_versions USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT ON policy_versions TO agentruntime_app;

-- One row per tenant that has ever had a policy: version counts every change of any of
-- them and of mask_paths, in the transaction of the change. Processes keep compiled
-- policies by it, and a run is sent only under the version it was judged by.
CREATE TABLE policy_sets (
    tenant_id  uuid PRIMARY KEY REFERENCES tenants (id),
    version    bigint NOT NULL,
    mask_paths json NOT NULL DEFAULT '[]' -- [{verb, path}]: what is masked besides what looks secret
);
ALTER TABLE policy_sets ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_sets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy_sets USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE ON policy_sets TO agentruntime_app;

-- Which policies matched which decision about a run, for coverage. Inserted with the
-- decision; counters would put all runs of a tenant in one line.
CREATE TABLE policy_matches (
    tenant_id      uuid NOT NULL,
    policy_id      uuid NOT NULL,
    run_id         uuid NOT NULL,
    attempt        integer NOT NULL,
    policy_version integer NOT NULL,
    mode           text NOT NULL,
    action         text NOT NULL,
    decided        boolean NOT NULL, -- the policy whose name the decision reports
    decision       text NOT NULL, -- what became of the run
    shadow         text NOT NULL, -- what would have, had shadow policies been enforced
    at             timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, policy_id, run_id, attempt)
);
CREATE INDEX policy_matches_by_time ON policy_matches (tenant_id, policy_id, at);
ALTER TABLE policy_matches ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_matches FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy_matches USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT ON policy_matches TO agentruntime_app;

-- +goose Down
DROP TABLE policy_matches;
DROP TABLE policy_sets;
DROP TABLE policy_versions;
DROP TABLE policies;
