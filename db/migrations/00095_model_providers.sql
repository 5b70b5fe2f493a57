-- +goose Up

-- Where the language models of a tenant are. Their credentials are rows of credentials, with
-- 'model:' and the slug as the provider.
CREATE TABLE model_providers (
    id            uuid NOT NULL,
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    slug          text NOT NULL COLLATE "C",
    api           text NOT NULL CHECK (api IN ('openai', 'anthropic')),
    base_url      text, -- a public address
    private       text, -- the name of one that the operator has listed
    default_model text, -- what the model steps of Maps ask
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CHECK ((base_url IS NULL) <> (private IS NULL))
);
CREATE UNIQUE INDEX model_providers_slug ON model_providers (tenant_id, slug);
ALTER TABLE model_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE model_providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON model_providers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON model_providers TO agentruntime_app;

-- +goose Down
DROP TABLE model_providers;
