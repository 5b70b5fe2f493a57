-- +goose Up

-- The Map whose calls a grant is for: a grant without one is for no calls of Maps.
ALTER TABLE grants ADD COLUMN map_id uuid;

-- +goose Down
ALTER TABLE grants DROP COLUMN map_id;
