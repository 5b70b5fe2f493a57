-- +goose Up

-- A provider is one imported document under a slug of the tenant's choice. The
-- slug again replaces it.
CREATE TABLE providers (
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    slug          text COLLATE "C" NOT NULL,
    name          text NOT NULL,
    domain        text COLLATE "C" NOT NULL,
    base_url      text NOT NULL,
    auth_type     text NOT NULL, -- 'none' needs no credential and counts as connected
    auth          json NOT NULL,
    document_hash bytea NOT NULL, -- SHA-256 of the document as it was sent
    imported      integer NOT NULL, -- verbs that can be called
    degraded      json NOT NULL, -- [{operation, reason}] of those that lost something
    rejected      json NOT NULL, -- [{operation, reason}] of those that cannot be called
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, slug)
);
ALTER TABLE providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON providers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON providers TO agentruntime_app;

-- Names sort by byte ("C"), so that pages have one order under every locale.
-- There is no foreign key to tenants: the one to providers implies it, and each
-- costs an import a look-up per row.
CREATE TABLE verbs (
    tenant_id      uuid NOT NULL,
    provider       text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL,
    domain         text COLLATE "C" NOT NULL CHECK (domain <> '*'), -- '*' is "any" in verb_counts
    description    text NOT NULL,
    risk_level     text COLLATE "C" NOT NULL CHECK (risk_level IN ('low', 'medium', 'high')),
    operation_type text NOT NULL CHECK (operation_type IN ('read', 'write')),
    idempotency    text NOT NULL,
    schema_hash    bytea NOT NULL, -- SHA-256 of schema
    plan_hash      bytea NOT NULL, -- SHA-256 of plan
    search         text NOT NULL, -- lower-case provider:name and description
    schema         text NOT NULL, -- JSON Schema of the arguments
    plan           text NOT NULL, -- how a request is built from them
    PRIMARY KEY (tenant_id, provider, name),
    FOREIGN KEY (tenant_id, provider) REFERENCES providers (tenant_id, slug) ON DELETE CASCADE
);
-- Uncompressed and out of line when large: a page of 100 reads a third faster than
-- with compression or with a second table, and who needs neither reads neither.
ALTER TABLE verbs ALTER COLUMN schema SET STORAGE EXTERNAL, ALTER COLUMN plan SET STORAGE EXTERNAL;
CREATE INDEX verbs_by_domain ON verbs (tenant_id, domain, provider, name);
CREATE INDEX verbs_by_risk ON verbs (tenant_id, risk_level, provider, name);
ALTER TABLE verbs ENABLE ROW LEVEL SECURITY;
ALTER TABLE verbs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON verbs USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON verbs TO agentruntime_app;

-- How many verbs there are for every combination of filters, '*' meaning any:
-- the total of a page is one row, however large the catalog.
CREATE TABLE verb_counts (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    provider   text COLLATE "C" NOT NULL,
    domain     text COLLATE "C" NOT NULL,
    risk_level text COLLATE "C" NOT NULL,
    n          bigint NOT NULL,
    PRIMARY KEY (tenant_id, provider, domain, risk_level)
);
ALTER TABLE verb_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE verb_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON verb_counts USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON verb_counts TO agentruntime_app;

-- count_verbs brings the counts in line with the verbs of one provider, within the
-- transaction that changed them. Imports of other providers of the tenant wait for
-- each other here, because they share the rows of provider '*'.
-- +goose StatementBegin
CREATE FUNCTION count_verbs(p_tenant uuid, p_provider text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('verb_counts:' || p_tenant::text, 0));
    UPDATE verb_counts t SET n = t.n - old.n
      FROM verb_counts old
     WHERE old.tenant_id = p_tenant AND old.provider = p_provider
       AND t.tenant_id = p_tenant AND t.provider = '*' AND t.domain = old.domain AND t.risk_level = old.risk_level;
    DELETE FROM verb_counts WHERE tenant_id = p_tenant AND provider = p_provider;
    INSERT INTO verb_counts (tenant_id, provider, domain, risk_level, n)
        SELECT p_tenant, p_provider, coalesce(v.domain, '*'), coalesce(v.risk_level, '*'), count(*)
          FROM verbs v WHERE v.tenant_id = p_tenant AND v.provider = p_provider
         GROUP BY CUBE (v.domain, v.risk_level) HAVING count(*) > 0;
    INSERT INTO verb_counts (tenant_id, provider, domain, risk_level, n)
        SELECT p_tenant, '*', c.domain, c.risk_level, c.n
          FROM verb_counts c WHERE c.tenant_id = p_tenant AND c.provider = p_provider
        ON CONFLICT ON CONSTRAINT verb_counts_pkey DO UPDATE SET n = verb_counts.n + excluded.n;
    DELETE FROM verb_counts WHERE tenant_id = p_tenant AND provider = '*' AND n = 0;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION count_verbs(uuid, text);
DROP TABLE verb_counts;
DROP TABLE verbs;
DROP TABLE providers;
