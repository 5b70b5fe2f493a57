-- +goose Up

-- A credential may have a secret for each security scheme of its provider. Their names and kinds
-- are no secret: what is connected is judged by them.
ALTER TABLE credentials ADD COLUMN schemes json, -- {name: kind}, NULL for a credential of one secret
    DROP CONSTRAINT credentials_type_check,
    ADD CONSTRAINT credentials_type_check CHECK (type IN ('api_key', 'bearer', 'basic', 'custom_header', 'schemes'));

-- +goose Down
DELETE FROM credentials WHERE type = 'schemes';
ALTER TABLE credentials DROP COLUMN schemes,
    DROP CONSTRAINT credentials_type_check,
    ADD CONSTRAINT credentials_type_check CHECK (type IN ('api_key', 'bearer', 'basic', 'custom_header'));
