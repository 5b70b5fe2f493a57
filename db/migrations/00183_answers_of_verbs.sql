-- +goose Up

-- The JSON Schema of the body of a verb's successful answer, as far as its document has one. No call
-- is judged, built or checked by it, so it is apart from the verbs: what each call reads stays as
-- small as it was. A verb that was imported before has none until the next import.
CREATE TABLE verb_answers (
    tenant_id uuid NOT NULL,
    provider  text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL, -- of the verb
    answer    text NOT NULL,
    PRIMARY KEY (tenant_id, provider, name),
    FOREIGN KEY (tenant_id, provider) REFERENCES providers (tenant_id, slug) ON DELETE CASCADE
);
ALTER TABLE verb_answers ENABLE ROW LEVEL SECURITY;
ALTER TABLE verb_answers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON verb_answers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE ON verb_answers TO agentruntime_app;

CREATE TABLE platform_verb_answers (LIKE verb_answers INCLUDING ALL EXCLUDING INDEXES);
ALTER TABLE platform_verb_answers DROP COLUMN tenant_id, ADD PRIMARY KEY (provider, name),
    ADD FOREIGN KEY (provider) REFERENCES platform_providers (slug) ON DELETE CASCADE;
GRANT SELECT ON platform_verb_answers TO agentruntime_app;

-- +goose Down
DROP TABLE platform_verb_answers;
DROP TABLE verb_answers;
