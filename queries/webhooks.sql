-- name: InsertWebhook :exec
-- It is told of what is emitted from now on.
WITH made AS (
    INSERT INTO webhooks (id, tenant_id, url, events, description, enabled, disabled_at, secret, created_by, created_at, updated_at)
    VALUES (@id, @tenant_id, @url, @events, @description, @enabled, sqlc.narg('disabled_at'), @secret, @created_by, @now, @now)
    RETURNING id, tenant_id
)
INSERT INTO webhook_readers (webhook_id, tenant_id) SELECT id, tenant_id FROM made;

-- name: GetWebhook :one
SELECT * FROM webhooks WHERE tenant_id = @tenant_id AND id = @id;

-- name: LockWebhook :one
SELECT * FROM webhooks WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: ListWebhooks :many
-- The newest first.
SELECT * FROM webhooks WHERE tenant_id = @tenant_id AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
 ORDER BY id DESC LIMIT @n;

-- name: ForgoEvents :exec
-- The webhook is told of what is emitted from now on.
UPDATE webhook_readers SET xid = pg_current_xact_id(), id = 'ffffffff-ffff-ffff-ffff-ffffffffffff' WHERE tenant_id = @tenant_id AND webhook_id = @id;

-- name: UpdateWebhook :exec
UPDATE webhooks
   SET url = @url, events = @events, description = @description, enabled = @enabled, disabled_at = sqlc.narg('disabled_at'),
       disabled_reason = sqlc.narg('disabled_reason'), updated_at = @now
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: RotateWebhookSecret :exec
UPDATE webhooks SET previous_secret = secret, previous_until = @previous_until::timestamptz, secret = @secret, rotated_at = @now::timestamptz, updated_at = @now::timestamptz
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: DeleteWebhook :execrows
DELETE FROM webhooks WHERE tenant_id = @tenant_id AND id = @id;

-- name: DisableWebhook :execrows
-- Where it is enabled, still has the address, and no delivery has succeeded since @since.
UPDATE webhooks SET enabled = false, disabled_at = @now::timestamptz, disabled_reason = @reason::text, updated_at = @now::timestamptz
 WHERE tenant_id = @tenant_id AND id = @id AND enabled AND url = @url AND (sqlc.narg('since')::timestamptz IS NULL OR succeeded_at IS NULL OR succeeded_at < sqlc.narg('since'));

-- name: NoteWebhookSuccess :exec
-- At most once a minute each, so that busy webhooks' rows are seldom written.
UPDATE webhooks SET succeeded_at = @now::timestamptz WHERE id = ANY (@ids::uuid[]) AND (succeeded_at IS NULL OR succeeded_at < @before::timestamptz);
