-- +goose Up

-- What conditions ask of the answers of a run's look-ups, and why one has no answer. Sealed; of at most
-- ten look-ups with 64 KiB each, and only until the run is released or ends.
ALTER TABLE runs ADD COLUMN lookups text;

-- +goose Down
ALTER TABLE runs DROP COLUMN lookups;
