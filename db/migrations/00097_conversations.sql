-- +goose Up

-- The sessions of agents. One without a session_id has one message, and what follows from it.
CREATE TABLE conversations (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    id          uuid NOT NULL,
    agent_id    uuid NOT NULL,
    session_id  text COLLATE "C", -- the caller's name
    customer    uuid, -- the first one that wrote
    tainted     boolean NOT NULL DEFAULT false, -- the agent has read what others than the tenant wrote
    held_by     uuid, -- the user who has taken over; no model is asked then
    held_at     timestamptz,
    entries     integer NOT NULL DEFAULT 0, -- how many were written
    bytes       bigint NOT NULL DEFAULT 0, -- of the entries, sealed
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX conversations_session ON conversations (tenant_id, agent_id, session_id);
CREATE INDEX conversations_customer ON conversations (tenant_id, customer) WHERE customer IS NOT NULL;
CREATE INDEX conversations_listed ON conversations (tenant_id, agent_id, updated_at DESC, id) WHERE session_id IS NOT NULL;
CREATE INDEX conversations_old ON conversations (updated_at);
ALTER TABLE conversations ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversations FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON conversations USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON conversations FOR SELECT USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON conversations TO agentruntime_app;

-- What was said, in the order of seq. Each is a message as models read it.
CREATE TABLE conversation_entries (
    tenant_id    uuid NOT NULL,
    conversation uuid NOT NULL,
    seq          integer NOT NULL, -- from 1
    id           uuid NOT NULL,
    turn         uuid, -- the message that led to it
    kind         text NOT NULL, -- customer, calls, result, note, agent or person
    body         text NOT NULL, -- sealed
    at           timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, conversation, seq),
    FOREIGN KEY (tenant_id, conversation) REFERENCES conversations (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE conversation_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversation_entries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON conversation_entries USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON conversation_entries TO agentruntime_app;

-- A message to an agent, and what became of it.
CREATE TABLE turns (
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    id            uuid NOT NULL,
    execution_id  text COLLATE "C" NOT NULL,
    agent_id      uuid NOT NULL,
    version       integer NOT NULL,
    conversation  uuid NOT NULL,
    state         text NOT NULL, -- queued, working, waiting or ended
    status        text NOT NULL, -- as callers see it
    fingerprint   bytea NOT NULL,
    message       text NOT NULL, -- sealed
    metadata      json NOT NULL,
    identity      json, -- what of the identity was not used, and why
    customer      uuid,
    customer_name text, -- as the caller wrote it
    key_id        uuid,
    request_id    text NOT NULL,
    source_addr   text NOT NULL,
    workflow_id   text NOT NULL,
    streamed      boolean NOT NULL DEFAULT false, -- a caller reads the reply while it is written
    reply         text, -- sealed
    replies       integer NOT NULL DEFAULT 0,
    error         text, -- sealed
    stop_reason   text NOT NULL DEFAULT '',
    model         text NOT NULL DEFAULT '',
    sop           text NOT NULL DEFAULT '',
    sops          jsonb NOT NULL DEFAULT '[]',
    tokens_used   bigint NOT NULL DEFAULT 0,
    money_micros  bigint NOT NULL DEFAULT 0,
    actions       integer NOT NULL DEFAULT 0,
    governance    text NOT NULL DEFAULT 'approved',
    approval_id   text,
    wants_cancel  boolean NOT NULL DEFAULT false,
    news_at       timestamptz,
    worked_ms     bigint NOT NULL DEFAULT 0,
    begun_at      timestamptz, -- when it began to be worked on, the last time
    updated_at    timestamptz NOT NULL,
    finished_at   timestamptz,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, conversation) REFERENCES conversations (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX turns_execution ON turns (tenant_id, execution_id);
CREATE UNIQUE INDEX turns_working ON turns (tenant_id, conversation) WHERE state = 'working';
CREATE INDEX turns_open ON turns (tenant_id, conversation, id) WHERE finished_at IS NULL;
CREATE INDEX turns_unfinished ON turns (updated_at, id) WHERE finished_at IS NULL;
CREATE INDEX turns_conversation ON turns (tenant_id, conversation); -- for the end of a session
CREATE INDEX turns_listed ON turns (tenant_id, id DESC);
ALTER TABLE turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE turns FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON turns USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON turns FOR SELECT USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON turns TO agentruntime_app;

-- The Idempotency-Keys of messages, for each agent.
CREATE TABLE turn_keys (
    tenant_id uuid NOT NULL,
    agent_id  uuid NOT NULL,
    key       text COLLATE "C" NOT NULL,
    turn      uuid NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, key),
    FOREIGN KEY (tenant_id, turn) REFERENCES turns (tenant_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX turn_keys_turn ON turn_keys (tenant_id, turn);
ALTER TABLE turn_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE turn_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON turn_keys USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON turn_keys TO agentruntime_app;

-- The answers of models for a message, however often one is asked for again after a crash.
CREATE TABLE turn_answers (
    tenant_id     uuid NOT NULL,
    turn          uuid NOT NULL,
    number        integer NOT NULL, -- from 0
    purpose       text NOT NULL,
    asked         text NOT NULL, -- sealed: what the model reads beside what it has read before
    answer        text, -- sealed
    error         text, -- sealed: why there is no answer
    model         text NOT NULL DEFAULT '',
    tokens_in     bigint NOT NULL DEFAULT 0,
    tokens_cached bigint NOT NULL DEFAULT 0,
    tokens_out    bigint NOT NULL DEFAULT 0,
    money_micros  bigint NOT NULL DEFAULT 0,
    finish        text NOT NULL DEFAULT '',
    runs          jsonb NOT NULL DEFAULT '{}', -- of the calls that it asks for, by their number
    began_at      timestamptz NOT NULL,
    ended_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, turn, number),
    FOREIGN KEY (tenant_id, turn) REFERENCES turns (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE turn_answers ENABLE ROW LEVEL SECURITY;
ALTER TABLE turn_answers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON turn_answers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON turn_answers TO agentruntime_app;

-- What those read who follow a reply while it is written.
CREATE TABLE turn_stream (
    tenant_id uuid NOT NULL,
    turn      uuid NOT NULL,
    seq       integer NOT NULL, -- from 1
    event     text NOT NULL,
    body      text NOT NULL, -- sealed
    PRIMARY KEY (tenant_id, turn, seq),
    FOREIGN KEY (tenant_id, turn) REFERENCES turns (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE turn_stream ENABLE ROW LEVEL SECURITY;
ALTER TABLE turn_stream FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON turn_stream USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON turn_stream TO agentruntime_app;

-- +goose Down
DROP FUNCTION IF EXISTS promote_turn(uuid, uuid, timestamptz);
DROP FUNCTION IF EXISTS claim_turn(uuid, text, jsonb, text, bytea, json, text, integer, boolean, timestamptz);
DROP TABLE turn_stream;
DROP TABLE turn_answers;
DROP TABLE turn_keys;
DROP TABLE turns;
DROP TABLE conversation_entries;
DROP TABLE conversations;
