-- +goose Up

-- The origin (scheme, host, port) that a credential is bound to: that of the provider's base
-- URL when it was stored. NULL: there was no provider yet, and the credential is not sent
-- before an origin is set. The owner of the tables is bound by row-level security too, and
-- would see no row in the updates below.
ALTER TABLE credentials ADD COLUMN origin text;
ALTER TABLE credentials NO FORCE ROW LEVEL SECURITY;
ALTER TABLE providers NO FORCE ROW LEVEL SECURITY;
UPDATE credentials c SET origin = regexp_replace(regexp_replace(
           lower(substring(coalesce((SELECT p.base_url FROM providers p WHERE p.tenant_id = c.tenant_id AND p.slug = c.provider),
                                    (SELECT o.base_url FROM platform_providers o WHERE o.slug = c.provider)) FROM '^[A-Za-z]+://[^/]+')),
           '\.(:[0-9]+)?$', '\1'), '^(https://.*):443$|^(http://.*):80$', '\1\2');
ALTER TABLE providers FORCE ROW LEVEL SECURITY;
ALTER TABLE credentials FORCE ROW LEVEL SECURITY;

-- What else an approval is bound to, besides its risk level. NULL: it was asked before these
-- were recorded, and they are not compared.
ALTER TABLE approvals
    ADD COLUMN operation_type text,
    ADD COLUMN idempotency    text;

-- A key that manages what governs calls makes none. Keys that could do both keep what they
-- manage and lose what calls. Each leaves an audit record.
ALTER TABLE api_keys NO FORCE ROW LEVEL SECURITY;
ALTER TABLE audit_records NO FORCE ROW LEVEL SECURITY;
WITH mixed AS (
    SELECT k.tenant_id, k.id, k.permissions,
           ARRAY(SELECT p FROM unnest(k.permissions) WITH ORDINALITY AS u (p, n)
                  WHERE p NOT IN ('actions:run', 'agents:message', 'maps:trigger', 'agents:manage', 'maps:manage') ORDER BY n) AS kept
      FROM api_keys k
     WHERE k.permissions && ARRAY['providers:manage', 'policies:manage', 'credentials:manage']
       AND k.permissions && ARRAY['actions:run', 'agents:message', 'maps:trigger', 'agents:manage', 'maps:manage']
), narrowed AS (
    UPDATE api_keys k SET permissions = m.kept FROM mixed m WHERE k.tenant_id = m.tenant_id AND k.id = m.id
    RETURNING k.tenant_id, k.id, k.revoked_at, m.permissions AS had, m.kept
)
-- The id is a UUIDv7, like those that the service makes.
INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, subject_type, subject_id, details)
SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
           PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid,
       tenant_id, 'system', '', 'api_key.updated', 'api_key', id::text,
       json_build_object('permissions_before', had, 'permissions', kept, 'reason', 'A key that manages what governs calls makes none.')
  FROM narrowed WHERE revoked_at IS NULL;
ALTER TABLE audit_records FORCE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;

-- +goose Down
-- The permissions that keys have lost do not come back.
ALTER TABLE approvals DROP COLUMN operation_type, DROP COLUMN idempotency;
ALTER TABLE credentials DROP COLUMN origin;
