-- +goose Up

-- A list by the beginning of a name reads a range of the primary key. In the order of bytes such a range
-- has all of them, in the order of a language it has not.
ALTER TABLE run_keys ALTER COLUMN key TYPE text COLLATE "C";

-- +goose Down
ALTER TABLE run_keys ALTER COLUMN key TYPE text COLLATE "default";
