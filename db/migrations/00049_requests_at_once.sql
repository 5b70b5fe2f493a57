-- +goose Up

-- Both have another parameter now: db/functions has them.
DROP FUNCTION IF EXISTS count_request(uuid, text, uuid, integer[], integer[], integer[]);
DROP FUNCTION IF EXISTS take_request(uuid, text, integer, integer[]);

-- +goose Down
DROP FUNCTION IF EXISTS count_request(uuid, text, uuid, integer[], integer[], integer[], integer);
DROP FUNCTION IF EXISTS take_request(uuid, text, integer, integer[], integer);
