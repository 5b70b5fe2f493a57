-- name: QueueMail :exec
-- Counts the mail in the windows of its subjects. It is queued where none of them then has more
-- than it may. Subjects are locked in one order, so that two callers cannot deadlock. The notice
-- is sent with the commit, and wakes the senders.
WITH counted AS (
    INSERT INTO mail_windows AS w (subject, mails, ends_at)
    SELECT s, 1, @window_ends_at::timestamptz FROM unnest(@subjects::bytea[]) AS s ORDER BY s
    ON CONFLICT (subject) DO UPDATE
    SET mails = CASE WHEN w.ends_at <= @now::timestamptz THEN 1 ELSE w.mails + 1 END,
        ends_at = CASE WHEN w.ends_at <= @now::timestamptz THEN excluded.ends_at ELSE w.ends_at END
    RETURNING subject, mails
), queued AS (
    INSERT INTO mails (id, tenant_id, user_id, kind, address, data, created_at, due_at)
    SELECT @id::uuid, sqlc.narg('tenant_id')::uuid, sqlc.narg('user_id')::uuid, @kind::text, @address::text, @data::text, @now::timestamptz, @now::timestamptz
     WHERE NOT EXISTS (
        SELECT FROM counted JOIN (SELECT unnest(@subjects::bytea[]) AS subject, unnest(@most::integer[]) AS most) AS bound USING (subject)
         WHERE counted.mails > bound.most)
)
SELECT pg_notify('mail', '');

-- name: QueueMailToOwners :exec
-- One mail to each active owner of the tenant, at most 10, while the window has room.
WITH counted AS (
    INSERT INTO mail_windows AS w (subject, mails, ends_at)
    VALUES (@subject::bytea, 1, @window_ends_at::timestamptz)
    ON CONFLICT (subject) DO UPDATE
    SET mails = CASE WHEN w.ends_at <= @now::timestamptz THEN 1 ELSE w.mails + 1 END,
        ends_at = CASE WHEN w.ends_at <= @now::timestamptz THEN excluded.ends_at ELSE w.ends_at END
    RETURNING mails
), queued AS (
    INSERT INTO mails (tenant_id, user_id, kind, address, data, created_at, due_at)
    SELECT owner.tenant_id, owner.id, @kind::text, owner.email, @data::text, @now::timestamptz, @now::timestamptz
      FROM users AS owner, counted
     WHERE owner.tenant_id = @tenant_id::uuid AND owner.role = 'owner' AND owner.joined_at IS NOT NULL AND owner.removed_at IS NULL
       AND counted.mails <= @most::integer
     ORDER BY owner.id LIMIT 10
)
SELECT pg_notify('mail', '');

-- name: TakeMails :many
-- The mails that are due, of all tenants, for one attempt each. Until @lease no other process
-- takes them; where this one dies, another takes them then. ARRAY chooses once, a join might choose
-- again for each row.
UPDATE mails AS taken SET attempts = taken.attempts + 1, due_at = @lease::timestamptz
 WHERE taken.id = ANY (ARRAY(
    SELECT due.id FROM mails AS due WHERE due.ended_at IS NULL AND due.due_at <= @now::timestamptz
     ORDER BY due.due_at LIMIT @most FOR UPDATE SKIP LOCKED))
RETURNING taken.id, taken.tenant_id, taken.user_id, taken.kind, taken.address, taken.data, taken.attempts;

-- name: EndMail :exec
-- Only for the attempt that was taken last.
UPDATE mails SET ended_at = @now::timestamptz, outcome = @outcome::text, error = sqlc.narg('error')
 WHERE id = @id AND attempts = @attempts AND ended_at IS NULL;

-- name: RetryMail :exec
UPDATE mails SET due_at = @due_at, error = sqlc.narg('error') WHERE id = @id AND attempts = @attempts AND ended_at IS NULL;

-- name: ForgetMails :execrows
DELETE FROM mails WHERE id IN (
    SELECT old.id FROM mails AS old
     WHERE old.ended_at <= @before::timestamptz
     ORDER BY old.ended_at LIMIT @most FOR UPDATE SKIP LOCKED);

-- name: ForgetMailTokens :execrows
DELETE FROM mail_tokens WHERE token_hash IN (
    SELECT old.token_hash FROM mail_tokens AS old WHERE old.expires_at <= @before::timestamptz
     ORDER BY old.expires_at LIMIT @most);

-- name: ForgetMailWindows :execrows
DELETE FROM mail_windows WHERE subject IN (
    SELECT old.subject FROM mail_windows AS old WHERE old.ends_at <= @now::timestamptz
     ORDER BY old.ends_at LIMIT @most FOR UPDATE SKIP LOCKED);

-- name: UserOfAddress :one
-- The active user of the presented address.
SELECT id, tenant_id, email_verified_at FROM users WHERE email = @email AND joined_at IS NOT NULL AND removed_at IS NULL;

-- name: KeepMailToken :execrows
-- A mail that is sent again has the same token, good from then on. No row means that it was used,
-- so the mail has arrived.
INSERT INTO mail_tokens AS t (token_hash, tenant_id, user_id, purpose, address, expires_at)
VALUES (@token_hash, @tenant_id, @user_id, @purpose, @address, @expires_at)
ON CONFLICT (token_hash) DO UPDATE SET expires_at = excluded.expires_at WHERE t.used_at IS NULL;

-- name: FindMailToken :one
SELECT tenant_id, user_id, purpose, address, expires_at, used_at FROM mail_tokens WHERE token_hash = @token_hash;

-- name: UseMailToken :execrows
UPDATE mail_tokens SET used_at = @now::timestamptz
 WHERE token_hash = @token_hash AND tenant_id = @tenant_id AND used_at IS NULL AND expires_at > @now::timestamptz;

-- name: VoidMailTokens :exec
-- All tokens of the user for one of the purposes.
UPDATE mail_tokens SET used_at = @now::timestamptz
 WHERE tenant_id = @tenant_id AND user_id = @user_id AND purpose = ANY (@purposes::text[]) AND used_at IS NULL;

-- name: VerifyEmail :execrows
UPDATE users SET email_verified_at = coalesce(email_verified_at, @now::timestamptz)
 WHERE tenant_id = @tenant_id AND id = @id AND email = @email AND joined_at IS NOT NULL AND removed_at IS NULL;

-- name: ResetPassword :execrows
-- The mail has reached its user, so the address is theirs.
UPDATE users SET password_hash = @password_hash::text, email_verified_at = coalesce(email_verified_at, @now::timestamptz)
 WHERE tenant_id = @tenant_id AND id = @id AND email = @email AND joined_at IS NOT NULL AND removed_at IS NULL;

-- name: ChangeEmail :execrows
UPDATE users SET email = @email, email_verified_at = @now::timestamptz
 WHERE tenant_id = @tenant_id AND id = @id AND joined_at IS NOT NULL AND removed_at IS NULL;

-- name: InvitedByMail :one
-- The invitation, where the mail's token can still be used.
SELECT u.email, t.name AS tenant_name, u.invitation_expires_at
  FROM users AS u JOIN tenants AS t ON t.id = u.tenant_id
 WHERE u.tenant_id = @tenant_id AND u.id = @id AND u.invitation_mail_hash = @mail_hash AND u.joined_at IS NULL AND u.removed_at IS NULL;
