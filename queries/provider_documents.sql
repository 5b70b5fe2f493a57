-- name: GetProviderSource :one
-- What the provider that a call would meet was imported from. A provider of the platform has no
-- document here.
SELECT v.shared, v.document_hash, v.updated_at, p.document_size, p.import_settings
  FROM visible_providers v LEFT JOIN providers p ON p.tenant_id = v.tenant_id AND p.slug = v.slug
 WHERE v.tenant_id = @tenant_id AND v.slug = @slug;

-- name: GetDocumentPart :one
-- No row where the document was replaced since its hash was read.
SELECT d.content FROM provider_documents d JOIN providers p ON p.tenant_id = d.tenant_id AND p.slug = d.slug
 WHERE d.tenant_id = @tenant_id AND d.slug = @slug AND d.part = @part AND p.document_hash = @document_hash;

-- name: DeleteDocument :exec
DELETE FROM provider_documents WHERE tenant_id = @tenant_id AND slug = @slug;

-- name: InsertDocumentPart :exec
INSERT INTO provider_documents (tenant_id, slug, part, content) VALUES (@tenant_id, @slug, @part, @content);

-- name: RenameProvider :execrows
UPDATE providers
   SET name = coalesce(sqlc.narg('name'), name), updated_at = @now,
       import_settings = CASE WHEN sqlc.narg('name')::text IS NULL OR import_settings IS NULL THEN import_settings
                         ELSE (import_settings::jsonb || jsonb_build_object('name', sqlc.narg('name')::text))::json END
 WHERE tenant_id = @tenant_id AND slug = @slug;
