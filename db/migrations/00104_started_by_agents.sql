-- +goose Up

-- What a message to an agent has started: Maps, and messages to other agents.
ALTER TABLE map_executions
    ADD COLUMN chain           json, -- the messages and Maps above it, where an agent is among them
    ADD COLUMN caller_workflow text, -- of the message that has started it
    ADD COLUMN tainted         boolean NOT NULL DEFAULT false; -- the agent had read what others than the tenant wrote

ALTER TABLE turns
    ADD COLUMN map_execution_id text; -- of the last Map that it has started

-- +goose Down
ALTER TABLE turns DROP COLUMN map_execution_id;
ALTER TABLE map_executions DROP COLUMN chain, DROP COLUMN caller_workflow, DROP COLUMN tainted;
