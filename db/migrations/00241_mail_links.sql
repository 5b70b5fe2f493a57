-- +goose Up

-- The mails with links that people of a tenant have sent, for the quota of an hour.
CREATE INDEX mails_linked ON mails (tenant_id, created_at) WHERE kind IN ('invitation', 'change');

-- +goose Down
DROP INDEX mails_linked;
