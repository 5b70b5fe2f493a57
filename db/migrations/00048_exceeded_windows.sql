-- +goose Up

-- The last window, by its number since 1970, of which the tenant was told that it is full: once
-- for each window (limit.exceeded). -1: none.
ALTER TABLE request_counters
    ADD COLUMN told_minute integer NOT NULL DEFAULT -1,
    ADD COLUMN told_hour   integer NOT NULL DEFAULT -1,
    ADD COLUMN told_day    integer NOT NULL DEFAULT -1;

-- +goose Down
ALTER TABLE request_counters DROP COLUMN told_minute, DROP COLUMN told_hour, DROP COLUMN told_day;
