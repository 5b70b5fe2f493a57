-- name: BeginRunFile :exec
INSERT INTO run_files (tenant_id, id, bytes) VALUES (@tenant_id, @id, @bytes);

-- name: AddRunFilePart :exec
INSERT INTO run_file_parts (tenant_id, file_id, part, content) VALUES (@tenant_id, @file_id, @part, @content);

-- name: EndRunFile :exec
UPDATE run_files SET bytes = @bytes WHERE tenant_id = @tenant_id AND id = @id;

-- name: KeepRunFile :exec
-- Gives the file to the run whose result names it. Until then the sweeper may delete it.
UPDATE run_files SET run_id = @run_id::uuid WHERE tenant_id = @tenant_id AND id = @id AND run_id IS NULL;

-- name: DropRunFile :exec
DELETE FROM run_files WHERE tenant_id = @tenant_id AND id = @id AND run_id IS NULL;

-- name: ReadRunFilePart :many
-- A part of a file that belongs to the run.
SELECT p.content FROM run_file_parts p
 WHERE p.tenant_id = @tenant_id AND p.file_id = @file_id AND p.part = @part
   AND EXISTS (SELECT FROM run_files f WHERE f.tenant_id = @tenant_id AND f.id = @file_id AND f.run_id = @run_id::uuid OFFSET 0);

-- name: HasRunFile :one
SELECT EXISTS (SELECT FROM run_files f WHERE f.tenant_id = @tenant_id AND f.id = @id AND f.run_id = @run_id::uuid);

-- name: EraseRunFiles :exec
DELETE FROM run_files f WHERE f.tenant_id = @tenant_id AND f.run_id = ANY (@run_ids::uuid[]);

-- name: SweepRunFiles :execrows
-- Across tenants, under the sweep setting: files that no result names, in a batch.
DELETE FROM run_files f WHERE (f.tenant_id, f.id) IN (
    SELECT o.tenant_id, o.id FROM run_files o WHERE o.run_id IS NULL AND o.created_at < @before ORDER BY o.created_at LIMIT @most);
