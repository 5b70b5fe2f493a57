-- +goose Up

-- Why calls of the verb are blocked until a user accepts its new form; null where they are not.
ALTER TABLE verbs ADD COLUMN quarantine json;
CREATE INDEX verbs_quarantined ON verbs (tenant_id, provider, name) WHERE quarantine IS NOT NULL;

-- The accepted form of verbs that are quarantined, and of those that were removed while a policy, a
-- Map or an agent named them.
CREATE TABLE accepted_verbs (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    provider   text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    risk_level text NOT NULL,
    schema     text NOT NULL, -- of the arguments
    bytes      integer NOT NULL, -- of the schema, for the quota
    PRIMARY KEY (tenant_id, provider, name)
);
ALTER TABLE accepted_verbs ENABLE ROW LEVEL SECURITY;
ALTER TABLE accepted_verbs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON accepted_verbs USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON accepted_verbs TO agentruntime_app;

-- The verbs that a version names: its steps, compensations and the tools of its agents. Of versions
-- from before they were noted, each text that has the form of a verb's name counts.
ALTER TABLE map_versions ADD COLUMN verbs text[] NOT NULL DEFAULT '{}';
-- The owner of the table is bound by row-level security too.
ALTER TABLE map_versions NO FORCE ROW LEVEL SECURITY;
UPDATE map_versions SET verbs = ARRAY(
    SELECT DISTINCT m[1] FROM regexp_matches(definition::text, '"([a-z0-9][a-z0-9_-]*:[a-z0-9][a-z0-9_-]*)"', 'g') AS m);
ALTER TABLE map_versions FORCE ROW LEVEL SECURITY;

-- +goose Down
ALTER TABLE map_versions DROP COLUMN verbs;
DROP TABLE accepted_verbs;
DROP INDEX verbs_quarantined;
ALTER TABLE verbs DROP COLUMN quarantine;
