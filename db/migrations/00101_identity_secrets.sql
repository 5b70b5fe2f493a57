-- +goose Up
-- The secrets under which a tenant's server vouches for its customers, sealed. A key without one
-- takes customers on the caller's word.
ALTER TABLE api_keys ADD COLUMN identity_secret text;
ALTER TABLE api_keys ADD COLUMN identity_previous text; -- the one before the last rotation
ALTER TABLE api_keys ADD COLUMN identity_previous_until timestamptz;

-- +goose Down
ALTER TABLE api_keys DROP COLUMN identity_previous_until;
ALTER TABLE api_keys DROP COLUMN identity_previous;
ALTER TABLE api_keys DROP COLUMN identity_secret;
