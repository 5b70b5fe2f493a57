-- +goose Up

-- The jq program that makes the normalized form of the run's result, as the verb had it when the call was
-- sent; null where it had none. At most 4 KiB.
ALTER TABLE runs ADD COLUMN normalizer text;

-- +goose Down
ALTER TABLE runs DROP COLUMN normalizer;
