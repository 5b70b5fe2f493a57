-- +goose Up

-- A goal of an agent is worked on as a message is. What it was given, and how far it is, is about the
-- caller's business, so it is sealed as the message is.
ALTER TABLE turns
    ADD COLUMN kind    text NOT NULL DEFAULT 'message', -- message or goal
    ADD COLUMN goal    text, -- sealed: criteria and limits; NULL for a message
    ADD COLUMN outcome text; -- sealed: how the criteria stand; NULL where nobody has looked yet
CREATE INDEX turns_goals ON turns (tenant_id, id DESC) WHERE kind = 'goal';

-- +goose Down
DROP INDEX turns_goals;
ALTER TABLE turns DROP COLUMN outcome, DROP COLUMN goal, DROP COLUMN kind;
