-- +goose Up

-- A key may end by itself, and be used from some networks only. A rotation gives it another
-- secret: the one before is valid until previous_until, and known after that, so that its
-- user learns what happened.
ALTER TABLE api_keys
    ADD COLUMN expires_at     timestamptz,
    ADD COLUMN allowed_ips    text[] NOT NULL DEFAULT '{}', -- networks as 192.0.2.0/24; empty means everywhere
    ADD COLUMN rotated_at     timestamptz,
    ADD COLUMN previous_hash  bytea CHECK (length(previous_hash) = 32),
    ADD COLUMN previous_until timestamptz,
    ADD CONSTRAINT api_keys_previous CHECK ((previous_hash IS NULL) = (previous_until IS NULL));
CREATE UNIQUE INDEX api_keys_previous_hash ON api_keys (previous_hash) WHERE previous_hash IS NOT NULL;
ALTER POLICY presented ON api_keys
    USING (key_hash = decode(app_setting('app.key_hash'), 'hex') OR previous_hash = decode(app_setting('app.key_hash'), 'hex'));

-- +goose Down
ALTER POLICY presented ON api_keys USING (key_hash = decode(app_setting('app.key_hash'), 'hex'));
DROP INDEX api_keys_previous_hash;
ALTER TABLE api_keys
    DROP CONSTRAINT api_keys_previous,
    DROP COLUMN expires_at, DROP COLUMN allowed_ips, DROP COLUMN rotated_at, DROP COLUMN previous_hash, DROP COLUMN previous_until;
