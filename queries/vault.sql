-- name: InsertCredential :exec
INSERT INTO credentials (id, tenant_id, provider, type, label, customer_id, origin, allowed_hosts, status, version,
                         kek_id, wrapped_key, ciphertext, schemes, created_by, created_at, updated_at, expires_at, notice_at)
VALUES (@id, @tenant_id, @provider, @type, @label, @customer_id, @origin, @allowed_hosts, 'active', @version,
        @kek_id, @wrapped_key, @ciphertext, sqlc.narg('schemes'), @created_by, @created_at, @created_at, sqlc.narg('expires_at'), sqlc.narg('notice_at'));

-- The base URL of the provider that a call of the tenant would go to: its own, otherwise the
-- platform's, which the tenant may have yet to enable. No row where there is neither.
-- name: ProviderBaseURL :many
SELECT p.base_url FROM providers p WHERE p.tenant_id = @tenant_id AND p.slug = @provider
UNION ALL
SELECT o.base_url FROM platform_providers o
 WHERE o.slug = @provider AND NOT EXISTS (SELECT FROM providers p WHERE p.tenant_id = @tenant_id AND p.slug = @provider);

-- A credential that was stored before its provider takes the origin of the provider's first
-- import by a user.
-- name: BindCredentials :many
UPDATE credentials SET origin = @origin, updated_at = @now
 WHERE tenant_id = @tenant_id AND provider = @provider AND origin IS NULL
RETURNING id;

-- name: GetCredential :one
SELECT * FROM credentials WHERE tenant_id = @tenant_id AND id = @id;

-- name: LockCredential :one
SELECT * FROM credentials WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- The caller asks for one row more than the page, to know whether there are more.
-- name: ListCredentials :many
SELECT id, provider, type, schemes, label, customer_id, origin, allowed_hosts, status, version,
       created_by, created_at, updated_at, last_used_at, rotated_at, expires_at
  FROM credentials
 WHERE tenant_id = @tenant_id
   AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
   AND (sqlc.narg('provider')::text IS NULL OR provider = sqlc.narg('provider'))
   AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
   AND (sqlc.narg('customer_id')::text IS NULL OR customer_id = ANY ((SELECT customer_names(@tenant_id, sqlc.narg('customer_id')))::text[]))
 ORDER BY id DESC
 LIMIT @n;

-- Fields that are null stay as they are. @ends says that there is a new end, or none any more.
-- name: PatchCredential :one
UPDATE credentials
   SET label = coalesce(sqlc.narg('label'), label),
       origin = coalesce(sqlc.narg('origin'), origin),
       allowed_hosts = coalesce(sqlc.narg('allowed_hosts')::text[], allowed_hosts),
       status = coalesce(sqlc.narg('status'), CASE WHEN @ends::boolean AND status = 'expired' THEN 'active' ELSE status END),
       expires_at = CASE WHEN @ends THEN sqlc.narg('expires_at') ELSE expires_at END,
       notice_at = CASE WHEN @ends THEN sqlc.narg('notice_at') ELSE notice_at END,
       updated_at = @now
 WHERE tenant_id = @tenant_id AND id = @id
RETURNING *;

-- Writes only over the version that was read: of two rotations at once, one wins.
-- name: RotateCredential :one
UPDATE credentials
   SET version = version + 1, kek_id = @kek_id, wrapped_key = @wrapped_key, ciphertext = @ciphertext, schemes = sqlc.narg('schemes'),
       status = CASE status WHEN 'expired' THEN 'active' ELSE status END,
       expires_at = sqlc.narg('expires_at'), notice_at = sqlc.narg('notice_at'),
       rotated_at = @now, updated_at = @now
 WHERE tenant_id = @tenant_id AND id = @id AND version = @version
RETURNING *;

-- name: DeleteCredential :execrows
DELETE FROM credentials WHERE tenant_id = @tenant_id AND id = @id;

-- The credential of a call: a customer's own before the tenant's, active before expired, and
-- of these the newest. A customer's expired credential comes before the tenant's active one,
-- so that a customer's call is never sent in the tenant's name unnoticed.
-- name: NewestCredential :one
SELECT id, provider, type, label, customer_id, origin, allowed_hosts, status, version, kek_id, wrapped_key, ciphertext, updated_at, schemes
  FROM credentials
 WHERE tenant_id = @tenant_id AND provider = @provider AND status IN ('active', 'expired')
   AND (customer_id IS NULL OR customer_id = ANY ((SELECT customer_names(@tenant_id, sqlc.narg('customer_id')::text))::text[]))
   AND (sqlc.narg('only')::uuid IS NULL OR id = sqlc.narg('only'))
 ORDER BY (customer_id IS NOT NULL) DESC, (status = 'active') DESC, created_at DESC, id DESC
 LIMIT 1;

-- name: MarkCredentialUsed :exec
UPDATE credentials SET last_used_at = @now::timestamptz
 WHERE tenant_id = @tenant_id AND id = @id AND (last_used_at IS NULL OR last_used_at < @unless_since::timestamptz);

-- name: InsertDigests :exec
INSERT INTO credential_digests (tenant_id, digest, credential_id)
SELECT @tenant_id, d, @credential_id FROM unnest(@digests::bytea[]) AS d
ON CONFLICT ON CONSTRAINT credential_digests_pkey DO NOTHING;

-- name: DeleteDigests :exec
DELETE FROM credential_digests WHERE tenant_id = @tenant_id AND credential_id = @credential_id;

-- Which of the digests are those of a secret of the tenant.
-- name: OwnDigests :many
-- One look-up each: as digest = ANY it is planned, while the table is small, as a scan of all
-- the tenant's digests, and that plan is kept.
SELECT DISTINCT found.digest FROM unnest(@digests::bytea[]) AS wanted (digest) CROSS JOIN LATERAL (
    SELECT d.digest FROM credential_digests d WHERE d.tenant_id = @tenant_id AND d.digest = wanted.digest LIMIT 1) found;

-- Across tenants, under the rewrap setting: what is wrapped under another key-encryption key.
-- name: CredentialsToRewrap :many
SELECT id, tenant_id FROM credentials WHERE kek_id <> @current AND id > @after ORDER BY id LIMIT @most;

-- name: RewrapCredential :execrows
UPDATE credentials SET kek_id = @kek_id, wrapped_key = @wrapped_key
 WHERE tenant_id = @tenant_id AND id = @id AND version = @version AND kek_id = @old_kek_id;

-- name: CredentialsOfCustomer :many
SELECT id FROM credentials
 WHERE tenant_id = @tenant_id AND customer_id = ANY (@names::text[]) AND created_at < @before::timestamptz
 ORDER BY id
 LIMIT @most;

-- Across tenants, under the sweep setting.
-- name: CredentialsToTell :many
SELECT id, tenant_id FROM credentials WHERE notice_at <= @now::timestamptz ORDER BY notice_at LIMIT @most;

-- A credential that is revoked stays so.
-- name: NoteExpiry :exec
UPDATE credentials SET notice_at = sqlc.narg('notice_at'),
       status = CASE WHEN @expired::boolean AND status = 'active' THEN 'expired' ELSE status END,
       updated_at = CASE WHEN @expired AND status = 'active' THEN @now::timestamptz ELSE updated_at END
 WHERE tenant_id = @tenant_id AND id = @id;
