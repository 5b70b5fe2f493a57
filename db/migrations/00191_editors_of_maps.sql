-- +goose Up

-- Who has edited inputs of an execution at a retry. They have written what its later calls send.
ALTER TABLE map_executions ADD COLUMN editors uuid[] NOT NULL DEFAULT '{}';
-- Those of the execution that the approval was asked for.
ALTER TABLE approvals ADD COLUMN editors uuid[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE approvals DROP COLUMN editors;
ALTER TABLE map_executions DROP COLUMN editors;
