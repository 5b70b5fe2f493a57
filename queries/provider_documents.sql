-- name: GetProviderSource :one
-- What the provider that the tenant sees under a slug was imported from. A provider of the platform
-- has no document here.
SELECT v.shared, v.document_hash, v.updated_at, v.document_size, v.import_settings
  FROM (SELECT false AS shared, p.document_hash, p.updated_at, p.document_size, p.import_settings
          FROM providers p WHERE p.tenant_id = @tenant_id AND p.slug = @slug
        UNION ALL
        SELECT true, s.document_hash, s.updated_at, NULL::bigint, NULL::json
          FROM platform_providers s
         WHERE s.slug = @slug AND NOT EXISTS (SELECT FROM providers p WHERE p.tenant_id = @tenant_id AND p.slug = s.slug)) v
 LIMIT 1;

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
