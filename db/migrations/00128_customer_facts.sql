-- +goose Up

-- What is remembered of customers from one session to the next. A fact that another one supersedes is
-- kept for a while and no longer used.
CREATE TABLE customer_facts (
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    id            uuid NOT NULL, -- in the order of time
    customer      uuid NOT NULL, -- erased and merged with the record, so it is no reference
    body          text NOT NULL, -- sealed
    digest        bytea NOT NULL, -- of the text under the tenant's key: no fact is there twice
    profile       boolean NOT NULL, -- it says who the customer is, and every message reads it
    tainted       boolean NOT NULL, -- the agent had read what others than the tenant wrote
    source        text NOT NULL CHECK (source IN ('tool', 'auto', 'api')),
    author        text NOT NULL, -- agent:<id>, key:<id> or user:<id>
    agent_id      uuid,
    session_id    text, -- the caller's name of it
    execution_id  text, -- of the message
    supersedes    uuid,
    superseded_by uuid,
    superseded_at timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    used_at       timestamptz, -- when a model read it last, within an hour
    PRIMARY KEY (tenant_id, customer, id)
);
CREATE UNIQUE INDEX customer_facts_digest ON customer_facts (tenant_id, customer, digest) WHERE superseded_at IS NULL;
CREATE INDEX customer_facts_superseded ON customer_facts (superseded_at) WHERE superseded_at IS NOT NULL;
ALTER TABLE customer_facts ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_facts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customer_facts USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON customer_facts FOR SELECT USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON customer_facts TO agentruntime_app;

-- Whether a message reads and writes what is remembered of its customer, and what it has read and
-- written: sealed, because it says why.
ALTER TABLE turns
    ADD COLUMN remembers boolean NOT NULL DEFAULT false,
    ADD COLUMN memory    text;

-- +goose Down
ALTER TABLE turns DROP COLUMN memory, DROP COLUMN remembers;
DROP FUNCTION IF EXISTS write_fact(uuid, text, jsonb, integer, timestamptz);
DROP TABLE customer_facts;
