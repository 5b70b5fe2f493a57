-- +goose Up

ALTER TABLE map_executions
    -- The step that started it waits for its end.
    ADD COLUMN awaited boolean NOT NULL DEFAULT false,
    -- A call of its steps, or of an execution that they started, may have changed something.
    ADD COLUMN wrote boolean NOT NULL DEFAULT false,
    -- The changes of a dry run whose invented results the payload, or the output, was built from.
    ADD COLUMN payload_invented text[] NOT NULL DEFAULT '{}',
    ADD COLUMN output_invented text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE map_executions DROP COLUMN awaited, DROP COLUMN wrote, DROP COLUMN payload_invented, DROP COLUMN output_invented;
