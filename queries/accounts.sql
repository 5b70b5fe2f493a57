-- name: SignUp :one
-- Makes a tenant and its owner, or nothing where the address is taken. The
-- message in the log makes both cases write and flush alike when they commit, so
-- that the time taken does not tell which it was.
WITH made AS (
    INSERT INTO users (id, tenant_id, email, password_hash, name, role, created_at)
    VALUES (@user_id, @tenant_id, @email, @password_hash, @name, 'owner', @now)
    ON CONFLICT (email) DO NOTHING
    RETURNING tenant_id
), owned AS (
    INSERT INTO tenants (id, name, created_at)
    SELECT made.tenant_id, @tenant_name, @now FROM made
)
SELECT (SELECT count(*) FROM made) > 0 AS created, pg_logical_emit_message(true, 'signup', '')::text AS logged;

-- name: BeginLogin :one
-- Always one row: the user of the address, if any, and the failures counted for
-- the subject in its current window.
SELECT users.id AS user_id, users.tenant_id, users.password_hash, users.email_verified_at,
       coalesce(attempts.failures, 0)::integer AS failures, attempts.window_ends_at
FROM (SELECT 1) AS always
LEFT JOIN users ON users.email = @email
LEFT JOIN login_attempts AS attempts ON attempts.subject = @subject AND attempts.window_ends_at > @now::timestamptz;

-- name: CountFailedLogin :exec
-- Counts into the subject's window, or opens one. Clears away a few windows that
-- have ended, so that strangers cannot fill the table.
WITH ended AS (
    DELETE FROM login_attempts WHERE subject IN (
        SELECT old.subject FROM login_attempts AS old
        WHERE old.window_ends_at <= @now AND old.subject <> @subject
        ORDER BY old.window_ends_at LIMIT 10 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO login_attempts AS a (subject, failures, window_ends_at)
VALUES (@subject, 1, @window_ends_at)
ON CONFLICT (subject) DO UPDATE
SET failures = CASE WHEN a.window_ends_at <= @now THEN 1 ELSE a.failures + 1 END,
    window_ends_at = CASE WHEN a.window_ends_at <= @now THEN excluded.window_ends_at ELSE a.window_ends_at END;

-- name: ForgetFailedLogins :exec
DELETE FROM login_attempts WHERE subject = $1;

-- name: InsertSession :exec
INSERT INTO sessions (id, tenant_id, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4, $5);

-- name: DeleteEndedSessions :exec
DELETE FROM sessions WHERE tenant_id = $1 AND user_id = $2 AND expires_at <= $3;

-- name: GetSession :one
SELECT sessions.user_id, sessions.expires_at, sessions.revoked_at, users.email, users.role, users.name
FROM sessions JOIN users ON users.id = sessions.user_id
WHERE sessions.id = @id AND sessions.tenant_id = @tenant_id;

-- name: LockSession :one
SELECT sessions.user_id, sessions.expires_at, sessions.revoked_at, users.email
FROM sessions JOIN users ON users.id = sessions.user_id
WHERE sessions.id = @id AND sessions.tenant_id = @tenant_id
FOR UPDATE OF sessions;

-- name: RevokeSession :execrows
UPDATE sessions SET revoked_at = @now::timestamptz WHERE id = @id AND tenant_id = @tenant_id AND revoked_at IS NULL;

-- name: InsertRefreshToken :exec
INSERT INTO refresh_tokens (token_hash, tenant_id, session_id, expires_at) VALUES ($1, $2, $3, $4);

-- name: FindRefreshToken :one
SELECT tenant_id, session_id, expires_at FROM refresh_tokens WHERE token_hash = $1;

-- name: UseRefreshToken :execrows
-- No row means that the token was used before.
UPDATE refresh_tokens SET used_at = @now::timestamptz
WHERE token_hash = @token_hash AND tenant_id = @tenant_id AND used_at IS NULL;
