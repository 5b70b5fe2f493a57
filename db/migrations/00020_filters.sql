-- Lists with a filter read what they show and little more.
-- +goose Up
CREATE INDEX api_keys_active ON api_keys (tenant_id, id DESC) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_revoked ON api_keys (tenant_id, id DESC) WHERE revoked_at IS NOT NULL;

-- +goose Down
DROP INDEX api_keys_active, api_keys_revoked;
