-- name: InsertInvitedUser :exec
INSERT INTO users (id, tenant_id, email, name, role, created_at, invitation_hash, invitation_expires_at, invitation_mail_hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: GetUser :one
SELECT id, email, name, role, created_at, joined_at, removed_at, invitation_expires_at, email_verified_at
FROM users WHERE tenant_id = @tenant_id AND id = @id;

-- name: ListUsers :many
-- The caller asks for one row more than the page, to know whether there are more.
SELECT id, email, name, role, created_at, joined_at, removed_at, invitation_expires_at, email_verified_at
FROM users
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
  AND CASE WHEN removed_at IS NOT NULL THEN @removed::boolean WHEN joined_at IS NULL THEN @invited::boolean ELSE @active::boolean END
ORDER BY id DESC
LIMIT @n;

-- name: LockUsers :exec
-- Changes of a tenant's users wait for each other, so that each sees which owners are left
-- after the one before.
SELECT id FROM tenants WHERE id = @tenant_id FOR NO KEY UPDATE;

-- name: RoleOfActiveUser :one
SELECT role FROM users WHERE tenant_id = @tenant_id AND id = @id AND joined_at IS NOT NULL AND removed_at IS NULL;

-- name: CountOtherOwners :one
SELECT count(*) FROM users
WHERE tenant_id = @tenant_id AND id <> @id AND role = 'owner' AND joined_at IS NOT NULL AND removed_at IS NULL;

-- name: UpdateUser :exec
UPDATE users SET role = @role, name = @name WHERE tenant_id = @tenant_id AND id = @id;

-- name: RemoveUser :exec
UPDATE users SET removed_at = @now::timestamptz, password_hash = NULL, invitation_hash = NULL, invitation_mail_hash = NULL, invitation_expires_at = NULL
WHERE tenant_id = @tenant_id AND id = @id;

-- name: RenewInvitation :exec
UPDATE users SET invitation_hash = @invitation_hash, invitation_mail_hash = @invitation_mail_hash, invitation_expires_at = @invitation_expires_at
WHERE tenant_id = @tenant_id AND id = @id;

-- name: AcceptInvitation :execrows
-- No row means that the token was used or withdrawn meanwhile. The token of the mail verifies
-- the address.
UPDATE users SET joined_at = @now::timestamptz, password_hash = @password_hash, name = @name, invitation_hash = NULL, invitation_mail_hash = NULL,
       invitation_expires_at = NULL, email_verified_at = CASE WHEN invitation_mail_hash = @token_hash THEN @now::timestamptz END
WHERE tenant_id = @tenant_id AND id = @id AND @token_hash::bytea IN (invitation_hash, invitation_mail_hash);

-- name: ForgetWithdrawnInvitations :execrows
-- The oldest of all tenants. A user who has joined is never among them.
DELETE FROM users WHERE id IN (
    SELECT old.id FROM users AS old WHERE old.removed_at <= @before::timestamptz AND old.joined_at IS NULL
     ORDER BY old.removed_at LIMIT @most FOR UPDATE SKIP LOCKED);
