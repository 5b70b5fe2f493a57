-- +goose Up

-- The bytes of the schemas and plans of a provider's verbs together. An import writes it, so
-- that the quota adds up one number for each provider.
ALTER TABLE providers ADD COLUMN verb_bytes bigint NOT NULL DEFAULT 0;
-- Counting changes nothing that a held call is judged by, so no trigger is to look.
ALTER TABLE providers NO FORCE ROW LEVEL SECURITY;
ALTER TABLE verbs NO FORCE ROW LEVEL SECURITY;
ALTER TABLE providers DISABLE TRIGGER USER;
UPDATE providers p SET verb_bytes = v.bytes
  FROM (SELECT tenant_id, provider, sum(octet_length(schema) + octet_length(plan)) AS bytes FROM verbs GROUP BY tenant_id, provider) v
 WHERE v.tenant_id = p.tenant_id AND v.provider = p.slug;
ALTER TABLE providers ENABLE TRIGGER USER;
ALTER TABLE verbs FORCE ROW LEVEL SECURITY;
ALTER TABLE providers FORCE ROW LEVEL SECURITY;

-- +goose Down
ALTER TABLE providers DROP COLUMN verb_bytes;
