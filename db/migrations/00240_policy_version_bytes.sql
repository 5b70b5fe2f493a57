-- +goose Up

-- The bytes of all versions of a policy, for the quota.
ALTER TABLE policies ADD COLUMN bytes bigint NOT NULL DEFAULT 0;
UPDATE policies p SET bytes = coalesce((SELECT sum(octet_length(v.policy::text)) FROM policy_versions v WHERE v.tenant_id = p.tenant_id AND v.policy_id = p.id), 0);

-- +goose Down
ALTER TABLE policies DROP COLUMN bytes;
