-- +goose Up

-- Agents, their sessions and messages.

-- Where the language models of a tenant are. Their credentials are rows of credentials, with
-- 'model:' and the slug as the provider.
CREATE TABLE model_providers (
    id               uuid NOT NULL,
    tenant_id        uuid NOT NULL REFERENCES tenants (id),
    slug             text NOT NULL COLLATE pg_catalog."C",
    api              text NOT NULL CHECK ((api IN ('openai', 'anthropic'))),
    base_url         text, -- a public address
    private          text, -- the name of one that the operator has listed
    default_model    text, -- what the model steps of Maps ask
    created_by       text NOT NULL,
    created_at       timestamptz NOT NULL,
    -- How a server differs from the API whose form it has.
    max_tokens_field text DEFAULT 'max_completion_tokens' NOT NULL CHECK ((max_tokens_field IN ('max_completion_tokens', 'max_tokens'))),
    stream_usage     boolean DEFAULT true NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT model_providers_check CHECK (((base_url IS NULL) <> (private IS NULL)))
);
CREATE UNIQUE INDEX model_providers_slug ON model_providers (tenant_id, slug);
ALTER TABLE model_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE model_providers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON model_providers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON model_providers TO agentruntime_app;

-- A tenant's agents. What an agent is told and may do is in its versions. A deleted agent keeps its
-- row and its versions for a while, because messages that came before go on with the version that
-- they pinned.
CREATE TABLE agents (
    id                uuid NOT NULL,
    tenant_id         uuid NOT NULL REFERENCES tenants (id),
    name              text NOT NULL, -- of the newest version
    status            text NOT NULL CHECK ((status IN ('active', 'paused'))),
    latest_version    integer NOT NULL, -- versions count from 1, without gaps
    published_version integer NOT NULL, -- what answers messages
    published_by      text NOT NULL, -- "user:<id>" or "key:<id>"
    published_at      timestamptz NOT NULL,
    revision          integer NOT NULL, -- counts all changes: the ETag
    bytes             bigint NOT NULL, -- of the definitions of all versions, for the quota
    created_by        text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_by        text NOT NULL,
    updated_at        timestamptz NOT NULL,
    deleted_at        timestamptz,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX agents_deleted ON agents (deleted_at) WHERE (deleted_at IS NOT NULL);
CREATE INDEX agents_live ON agents (tenant_id, id) WHERE (deleted_at IS NULL);
ALTER TABLE agents ENABLE ROW LEVEL SECURITY;
ALTER TABLE agents FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON agents FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON agents USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON agents TO agentruntime_app;

-- The versions. A version never changes; only its last publication is noted in it.
CREATE TABLE agent_versions (
    tenant_id    uuid NOT NULL,
    agent_id     uuid NOT NULL,
    version      integer NOT NULL,
    name         text NOT NULL,
    definition   json NOT NULL, -- with its defaults
    size         integer NOT NULL, -- bytes of that text
    digest       bytea NOT NULL, -- SHA-256 of that text
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL,
    published_by text, -- the last time that it was published
    published_at timestamptz,
    PRIMARY KEY (tenant_id, agent_id, version),
    CONSTRAINT agent_versions_check CHECK (((published_by IS NULL) = (published_at IS NULL))),
    CONSTRAINT agent_versions_tenant_id_agent_id_fkey FOREIGN KEY (tenant_id, agent_id) REFERENCES agents(tenant_id, id)
);
ALTER TABLE agent_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE agent_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON agent_versions USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON agent_versions TO agentruntime_app;
GRANT UPDATE (published_by, published_at) ON agent_versions TO agentruntime_app;

-- The sessions of agents. One without a session_id has one message, and what follows from it.
CREATE TABLE conversations (
    tenant_id       uuid NOT NULL REFERENCES tenants (id),
    id              uuid NOT NULL,
    agent_id        uuid NOT NULL,
    session_id      text COLLATE pg_catalog."C", -- the caller's name
    customer        uuid, -- the first one that wrote
    tainted         boolean DEFAULT false NOT NULL, -- the agent has read what others than the tenant wrote
    held_by         uuid, -- the user who has taken over; no model is asked then
    held_at         timestamptz,
    entries         integer DEFAULT 0 NOT NULL, -- how many were written
    bytes           bigint DEFAULT 0 NOT NULL, -- of the entries, sealed
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    turns           integer DEFAULT 0 NOT NULL, -- messages, those included to which nobody replied
    version         integer DEFAULT 0 NOT NULL, -- of the agent, at the last message
    escalated_at    timestamptz, -- since when a person is asked for whom nobody has taken over
    -- The language of the last message of a session that was sure, and the one in which its customer has
    -- asked to be answered, as codes of ISO 639-1.
    spoken_language text,
    -- What has tainted the session or the execution.
    taint_sources   text[] DEFAULT '{}'::text[] NOT NULL,
    writers         uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX conversations_customer ON conversations (tenant_id, customer) WHERE (customer IS NOT NULL);
CREATE INDEX conversations_escalated ON conversations (tenant_id, agent_id, updated_at DESC, id DESC) WHERE (escalated_at IS NOT NULL);
CREATE INDEX conversations_held ON conversations (tenant_id, agent_id, updated_at DESC, id DESC) WHERE (held_by IS NOT NULL);
CREATE INDEX conversations_listed ON conversations (tenant_id, agent_id, updated_at DESC, id DESC) WHERE (session_id IS NOT NULL);
CREATE INDEX conversations_old ON conversations (updated_at);
CREATE UNIQUE INDEX conversations_session ON conversations (tenant_id, agent_id, session_id);
ALTER TABLE conversations ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversations FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON conversations FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON conversations USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON conversations TO agentruntime_app;

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
    author       uuid, -- the user who wrote it, where a person did
    PRIMARY KEY (tenant_id, conversation, seq),
    CONSTRAINT conversation_entries_tenant_id_conversation_fkey FOREIGN KEY (tenant_id, conversation) REFERENCES conversations(tenant_id,
        id) ON DELETE CASCADE
);
ALTER TABLE conversation_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversation_entries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON conversation_entries USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON conversation_entries TO agentruntime_app;

-- What a model reads of the beginning of a session, in place of the entries.
CREATE TABLE conversation_summaries (
    tenant_id    uuid NOT NULL,
    conversation uuid NOT NULL,
    upto         integer NOT NULL, -- the last entry that it covers; it covers all before
    body         text NOT NULL, -- sealed
    tainted      boolean NOT NULL, -- the agent had read what others than the tenant wrote
    model        text NOT NULL, -- that wrote it; '' for none
    at           timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, conversation),
    CONSTRAINT conversation_summaries_tenant_id_conversation_fkey FOREIGN KEY (tenant_id,
        conversation) REFERENCES conversations(tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE conversation_summaries ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversation_summaries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON conversation_summaries USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON conversation_summaries TO agentruntime_app;

-- A message to an agent, and what became of it.
CREATE TABLE turns (
    tenant_id        uuid NOT NULL REFERENCES tenants (id),
    id               uuid NOT NULL,
    execution_id     text NOT NULL COLLATE pg_catalog."C",
    agent_id         uuid NOT NULL,
    version          integer NOT NULL,
    conversation     uuid NOT NULL,
    state            text NOT NULL, -- queued, working, waiting or ended
    status           text NOT NULL, -- as callers see it
    fingerprint      bytea NOT NULL,
    message          text NOT NULL, -- sealed
    metadata         json NOT NULL,
    identity         json, -- what of the identity was not used, and why
    customer         uuid,
    customer_name    text, -- as the caller wrote it
    key_id           uuid,
    request_id       text NOT NULL,
    source_addr      text NOT NULL,
    workflow_id      text NOT NULL,
    streamed         boolean DEFAULT false NOT NULL, -- a caller reads the reply while it is written
    reply            text, -- sealed
    replies          integer DEFAULT 0 NOT NULL,
    error            text, -- sealed
    stop_reason      text DEFAULT '' NOT NULL,
    model            text DEFAULT '' NOT NULL,
    sop              text DEFAULT '' NOT NULL,
    tokens_used      bigint DEFAULT 0 NOT NULL,
    money_micros     bigint DEFAULT 0 NOT NULL,
    actions          integer DEFAULT 0 NOT NULL,
    governance       text DEFAULT 'approved' NOT NULL,
    approval_id      text,
    wants_cancel     boolean DEFAULT false NOT NULL,
    news_at          timestamptz,
    worked_ms        bigint DEFAULT 0 NOT NULL,
    begun_at         timestamptz, -- when it began to be worked on, the last time
    updated_at       timestamptz NOT NULL,
    finished_at      timestamptz,
    streamed_to      integer DEFAULT 0 NOT NULL, -- the number of the newest row of turn_stream
    stream_bytes     integer DEFAULT 0 NOT NULL, -- of the texts in it, sealed
    stream_resets    integer DEFAULT 0 NOT NULL, -- how often what was streamed became void
    stream_open      boolean DEFAULT false NOT NULL, -- text was streamed since
    stream_writer    integer DEFAULT 0 NOT NULL, -- the newest that has streamed text
    hits             text,
    map_execution_id text, -- of the last Map that it has started
    parent_id        text, -- the execution that asks
    step             text, -- its call
    caller_workflow  text, -- of that execution
    chain            json, -- the messages and Maps above it
    kind             text DEFAULT 'message' NOT NULL, -- message or goal
    goal             text, -- sealed: criteria and limits; NULL for a message
    outcome          text, -- sealed: how the criteria stand; NULL where nobody has looked yet
    -- Whether a message reads and writes what is remembered of its customer, and what it has read and
    -- written: sealed, because it says why.
    remembers        boolean DEFAULT false NOT NULL,
    memory           text,
    -- Whether tokens are estimates, because a server has not reported them.
    usage_estimated  boolean DEFAULT false NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT turns_tenant_id_conversation_fkey FOREIGN KEY (tenant_id, conversation) REFERENCES conversations(tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX turns_conversation ON turns (tenant_id, conversation);
CREATE UNIQUE INDEX turns_execution ON turns (tenant_id, execution_id);
CREATE INDEX turns_goals ON turns (tenant_id, id DESC) WHERE (kind = 'goal');
CREATE INDEX turns_listed ON turns (tenant_id, id DESC);
CREATE INDEX turns_open ON turns (tenant_id, conversation, id) WHERE (finished_at IS NULL);
CREATE INDEX turns_unfinished ON turns (updated_at, id) WHERE (finished_at IS NULL);
CREATE UNIQUE INDEX turns_working ON turns (tenant_id, conversation) WHERE (state = 'working');
ALTER TABLE turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE turns FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON turns FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON turns USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON turns TO agentruntime_app;

-- The Idempotency-Keys of messages, for each agent.
CREATE TABLE turn_keys (
    tenant_id uuid NOT NULL,
    agent_id  uuid NOT NULL,
    key       text NOT NULL COLLATE pg_catalog."C",
    turn      uuid NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, key),
    CONSTRAINT turn_keys_tenant_id_turn_fkey FOREIGN KEY (tenant_id, turn) REFERENCES turns(tenant_id,
        id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX turn_keys_turn ON turn_keys (tenant_id, turn);
ALTER TABLE turn_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE turn_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON turn_keys USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON turn_keys TO agentruntime_app;

-- The answers of models for a message, however often one is asked for again after a crash.
CREATE TABLE turn_answers (
    tenant_id     uuid NOT NULL,
    turn          uuid NOT NULL,
    number        integer NOT NULL, -- from 0
    purpose       text NOT NULL,
    asked         text NOT NULL, -- sealed: what the model reads beside what it has read before
    answer        text, -- sealed
    error         text, -- sealed: why there is no answer
    model         text DEFAULT '' NOT NULL,
    tokens_in     bigint DEFAULT 0 NOT NULL,
    tokens_cached bigint DEFAULT 0 NOT NULL,
    tokens_out    bigint DEFAULT 0 NOT NULL,
    money_micros  bigint DEFAULT 0 NOT NULL,
    finish        text DEFAULT '' NOT NULL,
    runs          jsonb DEFAULT '{}'::jsonb NOT NULL, -- of the calls that it asks for, by their number
    began_at      timestamptz NOT NULL,
    ended_at      timestamptz NOT NULL,
    estimated     boolean DEFAULT false NOT NULL,
    PRIMARY KEY (tenant_id, turn, number, purpose),
    CONSTRAINT turn_answers_tenant_id_turn_fkey FOREIGN KEY (tenant_id, turn) REFERENCES turns(tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE turn_answers ENABLE ROW LEVEL SECURITY;
ALTER TABLE turn_answers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON turn_answers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON turn_answers TO agentruntime_app;

-- What callers and people think of the replies of agents: one of each for each reply.
CREATE TABLE turn_feedback (
    tenant_id  uuid NOT NULL,
    turn       uuid NOT NULL,
    actor      text NOT NULL COLLATE pg_catalog."C", -- key:<id> or user:<id>
    rating     text NOT NULL CHECK ((rating IN ('up', 'down'))),
    comment    text, -- sealed
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, turn, actor),
    CONSTRAINT turn_feedback_tenant_id_turn_fkey FOREIGN KEY (tenant_id, turn) REFERENCES turns(tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE turn_feedback ENABLE ROW LEVEL SECURITY;
ALTER TABLE turn_feedback FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON turn_feedback USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON turn_feedback TO agentruntime_app;

-- What those read who follow a reply while it is written.
CREATE TABLE turn_stream (
    tenant_id uuid NOT NULL,
    turn      uuid NOT NULL,
    seq       integer NOT NULL, -- from 1
    event     text NOT NULL,
    body      text NOT NULL, -- sealed
    -- Which call or approval a row tells of, once: a step is made again after a crash.
    about     text,
    PRIMARY KEY (tenant_id, turn, seq),
    CONSTRAINT turn_stream_tenant_id_turn_fkey FOREIGN KEY (tenant_id, turn) REFERENCES turns(tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE turn_stream ENABLE ROW LEVEL SECURITY;
ALTER TABLE turn_stream FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON turn_stream USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON turn_stream TO agentruntime_app;

-- +goose Down
DROP TABLE turn_stream, turn_feedback, turn_answers, turn_keys, turns, conversation_summaries, conversation_entries, conversations,
    agent_versions, agents, model_providers CASCADE;
