-- +goose Up

-- When a credential expires, as its owner said; null: never. notice_at is when the tenant is told
-- next, and in the end when it expires; null once there is nothing left to tell.
ALTER TABLE credentials
    ADD COLUMN expires_at timestamptz,
    ADD COLUMN notice_at timestamptz;
CREATE INDEX credentials_notice ON credentials (notice_at) WHERE notice_at IS NOT NULL;
-- The job that tells reads which are due.
CREATE POLICY credentials_notice ON credentials FOR SELECT USING (app_setting('app.sweep') = 'on' AND notice_at IS NOT NULL);

-- +goose Down
DROP POLICY credentials_notice ON credentials;
DROP INDEX credentials_notice;
ALTER TABLE credentials DROP COLUMN expires_at, DROP COLUMN notice_at;
