-- +goose Up

-- A message to an agent that another message has led to, or a step of a Map.
ALTER TABLE turns
    ADD COLUMN parent_id       text, -- the execution that asks
    ADD COLUMN step            text, -- its call
    ADD COLUMN caller_workflow text, -- of that execution
    ADD COLUMN chain           json; -- the messages and Maps above it

-- +goose Down
ALTER TABLE turns DROP COLUMN chain, DROP COLUMN caller_workflow, DROP COLUMN step, DROP COLUMN parent_id;
