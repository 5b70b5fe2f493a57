-- +goose Up

-- A step of a Map can ask people, and so can the change set of a dry run of one.
ALTER TABLE approvals
    DROP CONSTRAINT approvals_kind_check,
    ADD CONSTRAINT approvals_kind_check CHECK (kind IN ('block', 'hold', 'dry_run', 'step', 'changes')),
    ADD COLUMN form json; -- the JSON Schema of the response that is asked for
ALTER TABLE approval_decisions ADD COLUMN response text; -- sealed: what the approver answered to the form

-- A step asks once, however often its workflow repeats the question. An edit replaces the question.
CREATE UNIQUE INDEX approvals_of_step ON approvals (tenant_id, subject_type, subject_id)
    WHERE subject_type IN ('map_step', 'map_changes') AND edited_from IS NULL;

-- An erasure empties what a Map's author made of a customer's data.
GRANT UPDATE (reason) ON approvals TO agentruntime_app;
GRANT UPDATE (response) ON approval_decisions TO agentruntime_app;

-- +goose Down
REVOKE UPDATE (response) ON approval_decisions FROM agentruntime_app;
REVOKE UPDATE (reason) ON approvals FROM agentruntime_app;
DROP INDEX approvals_of_step;
ALTER TABLE approval_decisions DROP COLUMN response;
-- Refuses where there are approvals of these kinds: the old schema has no place for them.
ALTER TABLE approvals
    DROP COLUMN form,
    DROP CONSTRAINT approvals_kind_check,
    ADD CONSTRAINT approvals_kind_check CHECK (kind IN ('block', 'hold', 'dry_run'));
