-- +goose Up

-- What kind of workflow drives the run: its own (run), that of a Map, of a message to an agent, or of
-- the changes of a dry run. workflow_id names the workflow, and nothing reads the form of that name.
ALTER TABLE runs ADD COLUMN driver text NOT NULL DEFAULT 'run' CHECK (driver IN ('run', 'map', 'message', 'changes'));
-- The names that workflows had until now tell it once.
UPDATE runs SET driver = CASE split_part(workflow_id, ':', 1) WHEN 'turn' THEN 'message' WHEN 'map-changes' THEN 'changes' ELSE 'map' END
 WHERE split_part(workflow_id, ':', 1) IN ('map', 'turn', 'map-changes');
-- The same of the workflow that waits for the decision; '' where none does.
ALTER TABLE approvals ADD COLUMN driver text NOT NULL DEFAULT '' CHECK (driver IN ('', 'run', 'map', 'message', 'changes'));
UPDATE approvals SET driver = CASE split_part(workflow_id, ':', 1) WHEN 'run' THEN 'run' WHEN 'turn' THEN 'message' WHEN 'map-changes' THEN 'changes' ELSE 'map' END
 WHERE workflow_id <> '';
GRANT UPDATE (driver) ON approvals TO agentruntime_app;

-- +goose Down
ALTER TABLE approvals DROP COLUMN driver;
ALTER TABLE runs DROP COLUMN driver;
