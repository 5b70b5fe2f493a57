-- +goose Up

-- A tenant's agents. What an agent is told and may do is in its versions. A deleted agent keeps its
-- row and its versions for a while, because messages that came before go on with the version that
-- they pinned.
CREATE TABLE agents (
    id                uuid NOT NULL,
    tenant_id         uuid NOT NULL REFERENCES tenants (id),
    name              text NOT NULL, -- of the newest version
    status            text NOT NULL CHECK (status IN ('active', 'paused')),
    latest_version    integer NOT NULL, -- versions count from 1, without gaps
    published_version integer NOT NULL, -- what answers messages
    published_by      text NOT NULL, -- "user:<id>" or "key:<id>"
    published_at      timestamptz NOT NULL,
    revision          integer NOT NULL, -- counts all changes: the ETag
    bytes             bigint NOT NULL, -- of the definitions of all versions, for the quota
    created_by        text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_by        text NOT NULL,
    updated_at        timestamptz NOT NULL,
    deleted_at        timestamptz,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX agents_live ON agents (tenant_id, id) WHERE deleted_at IS NULL;
CREATE INDEX agents_deleted ON agents (deleted_at) WHERE deleted_at IS NOT NULL;
ALTER TABLE agents ENABLE ROW LEVEL SECURITY;
ALTER TABLE agents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON agents USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON agents FOR SELECT USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON agents TO agentruntime_app;

-- The versions. A version never changes; only its last publication is noted in it.
CREATE TABLE agent_versions (
    tenant_id    uuid NOT NULL,
    agent_id     uuid NOT NULL,
    version      integer NOT NULL,
    name         text NOT NULL,
    definition   json NOT NULL, -- with its defaults
    size         integer NOT NULL, -- bytes of that text
    digest       bytea NOT NULL, -- SHA-256 of that text
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL,
    published_by text, -- the last time that it was published
    published_at timestamptz,
    PRIMARY KEY (tenant_id, agent_id, version),
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, id),
    CHECK ((published_by IS NULL) = (published_at IS NULL))
);
ALTER TABLE agent_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE agent_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON agent_versions USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE, UPDATE (published_by, published_at) ON agent_versions TO agentruntime_app;

-- +goose Down
DROP TABLE agent_versions;
DROP TABLE agents;
