-- +goose Up

-- A tenant's Maps. What a Map does is in its versions. A deleted Map keeps its row and its
-- versions, because executions that began before go on with the version that they pinned.
CREATE TABLE maps (
    id                uuid NOT NULL,
    tenant_id         uuid NOT NULL REFERENCES tenants (id),
    name              text NOT NULL, -- of the newest version, like the description
    description       text NOT NULL,
    latest_version    integer NOT NULL, -- versions count from 1, without gaps
    published_version integer, -- what triggers run; null before the first publication
    published_by      text, -- "user:<id>" or "key:<id>"
    published_at      timestamptz,
    revision          integer NOT NULL, -- counts all changes: the ETag
    bytes             bigint NOT NULL, -- of the definitions of all versions, for the quota
    created_by        text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_by        text NOT NULL,
    updated_at        timestamptz NOT NULL,
    deleted_at        timestamptz,
    PRIMARY KEY (tenant_id, id),
    CHECK ((published_version IS NULL) = (published_by IS NULL)),
    CHECK ((published_version IS NULL) = (published_at IS NULL))
);
CREATE INDEX maps_live ON maps (tenant_id, id) WHERE deleted_at IS NULL;
ALTER TABLE maps ENABLE ROW LEVEL SECURITY;
ALTER TABLE maps FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON maps USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE ON maps TO agentruntime_app;

-- The versions. A version never changes; only its last publication is noted in it.
CREATE TABLE map_versions (
    tenant_id      uuid NOT NULL,
    map_id         uuid NOT NULL,
    version        integer NOT NULL,
    name           text NOT NULL,
    definition     json NOT NULL, -- the text as written; YAML was converted
    size           integer NOT NULL, -- bytes of that text
    digest         bytea NOT NULL, -- SHA-256 of that text
    cognitive      boolean NOT NULL, -- it has a model step of its own
    -- The Maps that its steps start, each once, and of each the version: 0 is the published one.
    starts         uuid[] NOT NULL,
    start_versions integer[] NOT NULL,
    created_by     text NOT NULL,
    created_at     timestamptz NOT NULL,
    published_by   text, -- the last time that it was published
    published_at   timestamptz,
    PRIMARY KEY (tenant_id, map_id, version),
    FOREIGN KEY (tenant_id, map_id) REFERENCES maps (tenant_id, id),
    CHECK (cardinality(starts) = cardinality(start_versions)),
    CHECK ((published_by IS NULL) = (published_at IS NULL))
);
ALTER TABLE map_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE map_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON map_versions USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE (published_by, published_at) ON map_versions TO agentruntime_app;

-- +goose Down
DROP TABLE map_versions;
DROP TABLE maps;
