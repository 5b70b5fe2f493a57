-- name: InsertModelProvider :one
INSERT INTO model_providers (id, tenant_id, slug, api, base_url, private, default_model, max_tokens_field, stream_usage, created_by, created_at)
VALUES (@id, @tenant_id, @slug, @api, sqlc.narg('base_url'), sqlc.narg('private'), sqlc.narg('default_model'), @max_tokens_field, @stream_usage, @created_by, @created_at)
ON CONFLICT (tenant_id, slug) DO NOTHING
RETURNING *;

-- name: GetModelProvider :one
SELECT * FROM model_providers WHERE tenant_id = @tenant_id AND id = @id;

-- name: FindModelProvider :one
SELECT * FROM model_providers WHERE tenant_id = @tenant_id AND slug = @slug;

-- name: ListModelProviders :many
SELECT * FROM model_providers
 WHERE tenant_id = @tenant_id AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
 ORDER BY id DESC
 LIMIT @most;

-- The one that the model steps of Maps ask: the newest with a default model.
-- name: DefaultModelProvider :one
SELECT * FROM model_providers
 WHERE tenant_id = @tenant_id AND default_model IS NOT NULL
 ORDER BY id DESC
 LIMIT 1;

-- name: LockModelProvider :one
SELECT * FROM model_providers WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: UpdateModelProvider :one
UPDATE model_providers SET default_model = sqlc.narg('default_model'), max_tokens_field = @max_tokens_field, stream_usage = @stream_usage
 WHERE tenant_id = @tenant_id AND id = @id
RETURNING *;

-- name: DeleteModelProvider :execrows
DELETE FROM model_providers WHERE tenant_id = @tenant_id AND id = @id;
