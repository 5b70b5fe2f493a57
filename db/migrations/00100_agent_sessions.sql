-- +goose Up
ALTER TABLE conversations ADD COLUMN turns integer NOT NULL DEFAULT 0; -- messages, those included to which nobody replied
ALTER TABLE conversations ADD COLUMN version integer NOT NULL DEFAULT 0; -- of the agent, at the last message
ALTER TABLE conversations ADD COLUMN escalated_at timestamptz; -- since when a person is asked for whom nobody has taken over
UPDATE conversations c SET turns = t.n, version = t.version
  FROM (SELECT tenant_id, conversation, count(*) AS n, max(version) AS version FROM turns GROUP BY 1, 2) t
 WHERE t.tenant_id = c.tenant_id AND t.conversation = c.id;
DROP INDEX conversations_listed;
CREATE INDEX conversations_listed ON conversations (tenant_id, agent_id, updated_at DESC, id DESC) WHERE session_id IS NOT NULL;
CREATE INDEX conversations_held ON conversations (tenant_id, agent_id, updated_at DESC, id DESC) WHERE held_by IS NOT NULL;
CREATE INDEX conversations_escalated ON conversations (tenant_id, agent_id, updated_at DESC, id DESC) WHERE escalated_at IS NOT NULL;

ALTER TABLE conversation_entries ADD COLUMN author uuid; -- the user who wrote it, where a person did

-- What callers and people think of the replies of agents: one of each for each reply.
CREATE TABLE turn_feedback (
    tenant_id  uuid NOT NULL,
    turn       uuid NOT NULL,
    actor      text COLLATE "C" NOT NULL, -- key:<id> or user:<id>
    rating     text NOT NULL CHECK (rating IN ('up', 'down')),
    comment    text, -- sealed
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, turn, actor),
    FOREIGN KEY (tenant_id, turn) REFERENCES turns (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE turn_feedback ENABLE ROW LEVEL SECURITY;
ALTER TABLE turn_feedback FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON turn_feedback USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON turn_feedback TO agentruntime_app;

-- +goose Down
DROP TABLE turn_feedback;
ALTER TABLE conversation_entries DROP COLUMN author;
DROP INDEX conversations_escalated;
DROP INDEX conversations_held;
DROP INDEX conversations_listed;
CREATE INDEX conversations_listed ON conversations (tenant_id, agent_id, updated_at DESC, id) WHERE session_id IS NOT NULL;
ALTER TABLE conversations DROP COLUMN escalated_at;
ALTER TABLE conversations DROP COLUMN version;
ALTER TABLE conversations DROP COLUMN turns;
