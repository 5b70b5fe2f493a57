-- +goose Up

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
    FOREIGN KEY (tenant_id, conversation) REFERENCES conversations (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE conversation_summaries ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversation_summaries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON conversation_summaries USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON conversation_summaries TO agentruntime_app;

-- Models are asked for other things too before an answer: a summary, which procedures fit. Those rows
-- have the number of that answer, and a purpose of their own.
ALTER TABLE turn_answers DROP CONSTRAINT turn_answers_pkey;
ALTER TABLE turn_answers ADD PRIMARY KEY (tenant_id, turn, number, purpose);

-- Why procedures fit is said in words of the message, so it is sealed as the message is.
ALTER TABLE turns DROP COLUMN sops;
ALTER TABLE turns ADD COLUMN hits text;

-- +goose Down
ALTER TABLE turns DROP COLUMN hits;
ALTER TABLE turns ADD COLUMN sops jsonb NOT NULL DEFAULT '[]';
DELETE FROM turn_answers a WHERE a.purpose IN ('sop', 'summary');
ALTER TABLE turn_answers DROP CONSTRAINT turn_answers_pkey;
ALTER TABLE turn_answers ADD PRIMARY KEY (tenant_id, turn, number);
DROP TABLE conversation_summaries;
