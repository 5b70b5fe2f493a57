-- +goose Up

-- What a provider said with an answer that is no result: status, code, message and the beginning of the
-- body. Masked and sealed; at most 4 KiB before it was sealed.
ALTER TABLE runs ADD COLUMN provider_error text;

-- +goose Down
ALTER TABLE runs DROP COLUMN provider_error;
