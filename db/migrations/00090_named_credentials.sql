-- +goose Up

-- call_target takes the credential that the step of a Map names; db/functions has it.
DROP FUNCTION IF EXISTS call_target(uuid, text, text, text, bytea[]);

-- +goose Down
DROP FUNCTION IF EXISTS call_target(uuid, text, text, text, uuid, bytea[]);
