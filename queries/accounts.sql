-- name: PresentAddress :exec
-- Until the transaction ends, row-level security shows the users of this address.
SELECT set_config('app.login_email', @email::text, true);

-- name: SignUp :one
-- Makes a tenant, its owner and the audit record, or nothing where the address is taken.
-- An invitation takes no address: one tenant must not stop an address from having a tenant
-- of its own. The message in the log makes both cases write and flush when they commit.
-- So the time that they take does not show which case it was. Nothing is made either where the
-- user exists: for a taken address the caller makes another user, and undoes that. The tenant begins
-- with one policy.
WITH made AS (
    INSERT INTO users (id, tenant_id, email, password_hash, name, role, created_at, joined_at)
    SELECT @user_id::uuid, @tenant_id::uuid, @email::text, @password_hash::text, @name::text, 'owner', @now::timestamptz, @now::timestamptz
     WHERE NOT EXISTS (SELECT FROM users WHERE users.id = @user_id::uuid)
    ON CONFLICT (email) WHERE joined_at IS NOT NULL AND removed_at IS NULL DO NOTHING
    RETURNING id, tenant_id
), owned AS (
    INSERT INTO tenants (id, name, created_at)
    SELECT made.tenant_id, @tenant_name, @now::timestamptz FROM made
), told AS (
    INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, subject_type, subject_id, request_id, source_addr)
    SELECT @record_id, made.tenant_id, @actor_type::text, @actor_id::text, 'tenant.created', 'tenant', made.tenant_id::text, @request_id, @source_addr
    FROM made
), judged AS (
    INSERT INTO policy_sets (tenant_id, version) SELECT made.tenant_id, 1 FROM made
), guarded AS (
    INSERT INTO policies (id, tenant_id, version, name, description, enabled, mode, priority, action, document, instructions, created_by, created_at, updated_by, updated_at)
    SELECT @policy_id::uuid, made.tenant_id, 1, first.name, first.description, true, 'enforce', 0, first.action, @policy::json, 0, 'system', @now::timestamptz, 'system', @now::timestamptz
      FROM made CROSS JOIN json_to_record(@policy::json) AS first (name text, description text, action text)
), kept AS (
    INSERT INTO policy_versions (tenant_id, policy_id, version, change, policy, changed_by, changed_at)
    SELECT made.tenant_id, @policy_id::uuid, 1, 'created', @policy::json, 'system', @now::timestamptz FROM made
), told_policy AS (
    INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, subject_type, subject_id, request_id, source_addr, details)
    SELECT @policy_record_id, made.tenant_id, 'system', '', 'policy.created', 'policy', CAST(@policy_id::uuid AS text), @request_id, @source_addr,
           json_build_object('name', CAST(@policy::json AS json) ->> 'name', 'version', 1)
    FROM made
)
SELECT (SELECT count(*) FROM made) > 0 AS created, pg_logical_emit_message(true, 'signup', '')::text AS logged;

-- name: BeginLogin :one
-- Always one row: the active user of the email address, if any, and the failures counted in
-- the present windows: for both addresses together, for the network address alone, and for
-- the email address alone. known says that the user has logged in from there since @since.
SELECT users.id AS user_id, users.tenant_id, users.password_hash, users.email_verified_at,
       coalesce(pair.failures, 0)::integer AS pair_failures, pair.window_ends_at AS pair_ends_at,
       coalesce(source.failures, 0)::integer AS source_failures, source.window_ends_at AS source_ends_at,
       coalesce(account.failures, 0)::integer AS account_failures,
       EXISTS (SELECT FROM login_addresses AS seen
                WHERE seen.user_id = users.id AND seen.subject = @pair AND seen.last_login_at > @since::timestamptz) AS known
FROM (SELECT 1) AS always
LEFT JOIN users ON users.email = @email AND users.joined_at IS NOT NULL AND users.removed_at IS NULL
LEFT JOIN login_attempts AS pair ON pair.subject = @pair AND pair.window_ends_at > @now::timestamptz
LEFT JOIN login_attempts AS source ON source.subject = @source AND source.window_ends_at > @now::timestamptz
LEFT JOIN login_attempts AS account ON account.subject = @account AND account.window_ends_at > @now::timestamptz;

-- name: CountFailures :exec
-- Counts a failure in each subject's window, or opens one. Where a user is known, it records
-- the failed login: record_failed_login says how, and why others write as much. Subjects are
-- locked in one order, so that two callers cannot deadlock.
WITH told AS (
    SELECT record_failed_login(@known::boolean, @record_id::uuid, @tenant_id::uuid, @user_id::text, @request_id::text, @source_addr::text)
)
INSERT INTO login_attempts AS a (subject, failures, window_ends_at)
SELECT s, 1, @window_ends_at::timestamptz FROM unnest(@subjects::bytea[]) AS s, told ORDER BY s
ON CONFLICT (subject) DO UPDATE
SET failures = CASE WHEN a.window_ends_at <= @now::timestamptz THEN 1 ELSE a.failures + 1 END,
    window_ends_at = CASE WHEN a.window_ends_at <= @now::timestamptz THEN excluded.window_ends_at ELSE a.window_ends_at END;

-- name: DeleteEndedAttempts :exec
-- A transaction of its own, which waits for no lock: it deletes more windows that have ended
-- than one failure can open.
DELETE FROM login_attempts WHERE subject IN (
    SELECT old.subject FROM login_attempts AS old
    WHERE old.window_ends_at <= @now::timestamptz
    ORDER BY old.window_ends_at LIMIT 20 FOR UPDATE SKIP LOCKED
);

-- name: ForgetFailedLogins :exec
DELETE FROM login_attempts WHERE subject = $1;

-- name: FailuresOf :one
SELECT coalesce(sum(failures), 0)::integer AS failures, coalesce(max(window_ends_at), @now::timestamptz)::timestamptz AS ends_at
FROM login_attempts WHERE subject = @subject AND window_ends_at > @now::timestamptz;

-- name: RememberLoginAddress :exec
INSERT INTO login_addresses (tenant_id, user_id, subject, last_login_at) VALUES (@tenant_id, @user_id, @subject, @now)
ON CONFLICT (user_id, subject) DO UPDATE SET last_login_at = excluded.last_login_at;

-- name: ForgetLoginAddresses :exec
-- Keeps the newest @most addresses of the user, and none that is older than @before.
DELETE FROM login_addresses AS gone WHERE gone.tenant_id = @tenant_id AND gone.user_id = @user_id AND gone.subject IN (
    SELECT old.subject FROM login_addresses AS old
     WHERE old.tenant_id = @tenant_id AND old.user_id = @user_id
       AND (old.last_login_at <= @before::timestamptz OR old.subject NOT IN (
            SELECT new.subject FROM login_addresses AS new WHERE new.tenant_id = @tenant_id AND new.user_id = @user_id
             ORDER BY new.last_login_at DESC, new.subject LIMIT @most))
       FOR UPDATE SKIP LOCKED
);

-- name: BeginAcceptance :one
-- Always one row: the user who is invited by the token, if any, and the failures counted in
-- the present windows of the token and of the caller's address.
SELECT users.id AS user_id, users.tenant_id, users.email, users.name, users.invitation_expires_at,
       ((users.invitation_mail_hash = @invitation_hash) IS TRUE)::boolean AS by_mail,
       coalesce(token.failures, 0)::integer AS token_failures, token.window_ends_at AS token_ends_at,
       coalesce(source.failures, 0)::integer AS source_failures, source.window_ends_at AS source_ends_at
FROM (SELECT 1) AS always
LEFT JOIN users ON users.invitation_hash = @invitation_hash OR users.invitation_mail_hash = @invitation_hash
LEFT JOIN login_attempts AS token ON token.subject = @token AND token.window_ends_at > @now::timestamptz
LEFT JOIN login_attempts AS source ON source.subject = @source AND source.window_ends_at > @now::timestamptz;

-- name: HoldPassword :many
-- The user, while the password of theirs that was compared is still their password. A change
-- of it waits for the transaction, so it ends the session that the transaction begins.
SELECT id FROM users WHERE tenant_id = @tenant_id AND id = @id AND removed_at IS NULL AND password_hash = @password_hash::text FOR SHARE;

-- name: InsertSession :exec
INSERT INTO sessions (id, tenant_id, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4, $5);

-- name: EndOldestSessions :exec
-- Ends the user's oldest sessions until @most are left.
UPDATE sessions AS ended SET revoked_at = @now::timestamptz
WHERE ended.tenant_id = @tenant_id AND ended.id IN (
    SELECT s.id FROM sessions AS s
    WHERE s.tenant_id = @tenant_id AND s.user_id = @user_id AND s.revoked_at IS NULL AND s.expires_at > @now
    ORDER BY s.id DESC OFFSET @most
);

-- name: DeleteEndedSessions :exec
DELETE FROM sessions WHERE tenant_id = $1 AND user_id = $2 AND expires_at <= $3;

-- name: PresentSession :one
-- The sessions of a removed user do not exist, whatever their rows say. A request of a session
-- that has not ended is counted; see db/functions/count_request.sql. For all others, and where
-- @counts is false, counted is null.
SELECT sessions.expires_at, sessions.revoked_at, users.email, users.role, users.name,
       (CASE WHEN @counts::boolean AND sessions.revoked_at IS NULL AND sessions.expires_at > @now::timestamptz
             THEN count_request(sessions.tenant_id, 'people', NULL, NULL, @defaults::integer[], @ceilings::integer[], 1) END)::bigint[] AS counted
FROM sessions JOIN users ON users.id = sessions.user_id AND users.removed_at IS NULL
WHERE sessions.id = @id AND sessions.tenant_id = @tenant_id AND sessions.user_id = @user_id;

-- name: LockSession :one
SELECT sessions.user_id, sessions.expires_at, sessions.revoked_at, users.email, users.email_verified_at
FROM sessions JOIN users ON users.id = sessions.user_id AND users.removed_at IS NULL
WHERE sessions.id = @id AND sessions.tenant_id = @tenant_id
FOR UPDATE OF sessions;

-- name: RevokeSession :many
UPDATE sessions SET revoked_at = @now::timestamptz WHERE id = @id AND tenant_id = @tenant_id AND revoked_at IS NULL
RETURNING user_id;

-- name: RevokeSessionsOf :exec
UPDATE sessions SET revoked_at = @now::timestamptz WHERE tenant_id = @tenant_id AND user_id = @user_id AND revoked_at IS NULL;

-- name: ListSessions :many
-- The user's sessions that have not ended. Used refresh tokens are kept, so the newest use is
-- the last refresh.
SELECT s.id, s.created_at, s.expires_at,
       coalesce((SELECT max(t.used_at) FROM refresh_tokens AS t WHERE t.tenant_id = @tenant_id AND t.session_id = s.id), s.created_at)::timestamptz AS refreshed_at
FROM sessions AS s
WHERE s.tenant_id = @tenant_id AND s.user_id = @user_id AND s.revoked_at IS NULL AND s.expires_at > @now
ORDER BY s.id DESC;

-- name: EndSessions :execrows
-- Ends one of the user's sessions, or all but one.
UPDATE sessions SET revoked_at = @now::timestamptz
WHERE tenant_id = @tenant_id AND user_id = @user_id AND revoked_at IS NULL AND expires_at > @now
  AND (sqlc.narg('session')::uuid IS NULL OR id = sqlc.narg('session'))
  AND (sqlc.narg('keep')::uuid IS NULL OR id <> sqlc.narg('keep'));

-- name: ChangePassword :execrows
-- No row means that the password was changed meanwhile, or the user removed.
UPDATE users SET password_hash = @password_hash::text
WHERE tenant_id = @tenant_id AND id = @id AND removed_at IS NULL AND password_hash = @was::text;

-- name: InsertRefreshToken :exec
INSERT INTO refresh_tokens (token_hash, tenant_id, session_id, expires_at) VALUES ($1, $2, $3, $4);

-- name: FindRefreshToken :one
SELECT tenant_id, session_id, expires_at FROM refresh_tokens WHERE token_hash = $1;

-- name: UseRefreshToken :execrows
-- No row means that the token was used before.
UPDATE refresh_tokens SET used_at = @now::timestamptz
WHERE token_hash = @token_hash AND tenant_id = @tenant_id AND used_at IS NULL;

-- name: ForgetSessions :execrows
-- Of all tenants, with their refresh tokens.
DELETE FROM sessions WHERE id IN (
    SELECT old.id FROM sessions AS old WHERE old.expires_at <= @before::timestamptz
     ORDER BY old.expires_at LIMIT @most FOR UPDATE SKIP LOCKED);

-- name: ForgetOldLoginAddresses :execrows
-- Of the users of all tenants.
DELETE FROM login_addresses WHERE (user_id, subject) IN (
    SELECT old.user_id, old.subject FROM login_addresses AS old WHERE old.last_login_at <= @before::timestamptz
     ORDER BY old.last_login_at LIMIT @most FOR UPDATE SKIP LOCKED);

-- name: ForgetLoginAttempts :execrows
DELETE FROM login_attempts WHERE subject IN (
    SELECT old.subject FROM login_attempts AS old WHERE old.window_ends_at <= @before::timestamptz
     ORDER BY old.window_ends_at LIMIT @most FOR UPDATE SKIP LOCKED);
