-- +goose Up

-- What a provider was imported from, and with which members of the request: so it can be shown,
-- and read again with other members. A provider that was imported before has neither.
ALTER TABLE providers ADD COLUMN document_size bigint, ADD COLUMN import_settings json;

-- The documents, compressed (gzip) and cut into parts. A reader has one part in memory at a
-- time. No list and no call reads them, so they have a table of their own.
CREATE TABLE provider_documents (
    tenant_id uuid NOT NULL,
    slug      text COLLATE "C" NOT NULL,
    part      integer NOT NULL, -- from 0
    content   bytea NOT NULL,
    PRIMARY KEY (tenant_id, slug, part),
    FOREIGN KEY (tenant_id, slug) REFERENCES providers (tenant_id, slug) ON DELETE CASCADE
);
-- It is compressed already.
ALTER TABLE provider_documents ALTER COLUMN content SET STORAGE EXTERNAL;
ALTER TABLE provider_documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE provider_documents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON provider_documents USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE ON provider_documents TO agentruntime_app;

-- +goose Down
DROP TABLE provider_documents;
ALTER TABLE providers DROP COLUMN import_settings, DROP COLUMN document_size;
