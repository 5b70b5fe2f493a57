-- +goose Up

-- Where a run comes from. A call over HTTP has a key or a user; a step of an agent or a
-- Map also has the execution it belongs to. The owner of the tables is bound by row-level
-- security too, and would see no row in the updates below.
ALTER TABLE runs
    ADD COLUMN origin      text NOT NULL DEFAULT 'key' CHECK (origin IN ('key', 'user', 'agent', 'map')),
    ADD COLUMN user_id     uuid, -- the user for whom it acts, where no key does
    ADD COLUMN agent_id    uuid, -- set for our own agents only; a caller names theirs in metadata
    ADD COLUMN customer_id uuid, -- likewise
    ADD COLUMN parent_id   text, -- the execution that the run is a step of
    ADD COLUMN step        text, -- the step's path in its parent
    ADD COLUMN workflow_id text; -- the workflow that drives the run
ALTER TABLE runs NO FORCE ROW LEVEL SECURITY;
UPDATE runs SET workflow_id = 'run:' || tenant_id || ':' || encode(sha256(convert_to(claim_key, 'UTF8')), 'hex');
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
ALTER TABLE runs
    ALTER COLUMN workflow_id SET NOT NULL,
    ADD CONSTRAINT runs_parent CHECK ((parent_id IS NULL) = (step IS NULL));

-- An approval can be about anything that waits for people: its subject. A run is one; it
-- keeps its own column, because lists show what became of it.
ALTER TABLE approvals
    ALTER COLUMN run_id DROP NOT NULL,
    ADD COLUMN subject_type text NOT NULL DEFAULT 'run',
    ADD COLUMN subject_id   text,
    ADD COLUMN workflow_id  text NOT NULL DEFAULT ''; -- the workflow that waits for it; '' where none does
ALTER TABLE approvals NO FORCE ROW LEVEL SECURITY;
ALTER TABLE runs NO FORCE ROW LEVEL SECURITY;
UPDATE approvals a SET subject_id = a.run_id::text,
       workflow_id = coalesce((SELECT r.workflow_id FROM runs r WHERE r.tenant_id = a.tenant_id AND r.id = a.run_id), '');
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
ALTER TABLE approvals FORCE ROW LEVEL SECURITY;
ALTER TABLE approvals
    ALTER COLUMN subject_id SET NOT NULL,
    ADD CONSTRAINT approvals_subject CHECK ((subject_type = 'run') = (run_id IS NOT NULL));
CREATE INDEX approvals_by_subject ON approvals (tenant_id, subject_type, subject_id);
DROP INDEX approvals_by_run;
-- A run that is handed over to another workflow takes its approval with it.
GRANT UPDATE (workflow_id) ON approvals TO agentruntime_app;

-- Functions live in db/functions from here on; see its README.
DROP FUNCTION IF EXISTS claim_run(uuid, uuid, text, text[], text, text, text, bytea, boolean, text, json, uuid, text, text, timestamptz);

-- +goose Down
-- Refuses where there are approvals of other subjects: the old schema has no place for
-- them. The claim_run of 00008 does not come back; go down to 7 and up again for it.
DROP FUNCTION IF EXISTS claim_run(uuid, text[], text, bytea, json, text);
CREATE INDEX approvals_by_run ON approvals (tenant_id, run_id);
DROP INDEX approvals_by_subject;
REVOKE UPDATE (workflow_id) ON approvals FROM agentruntime_app;
ALTER TABLE approvals
    DROP CONSTRAINT approvals_subject,
    DROP COLUMN subject_type, DROP COLUMN subject_id, DROP COLUMN workflow_id,
    ALTER COLUMN run_id SET NOT NULL;
ALTER TABLE runs
    DROP CONSTRAINT runs_parent,
    DROP COLUMN origin, DROP COLUMN user_id, DROP COLUMN agent_id, DROP COLUMN customer_id, DROP COLUMN parent_id,
    DROP COLUMN step, DROP COLUMN workflow_id;
