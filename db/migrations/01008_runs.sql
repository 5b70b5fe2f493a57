-- +goose Up

-- Action runs.

-- One row per claimed run: the fence of record. Only the process that moved the row
-- from claimed to sending calls the provider, and that move commits before the first
-- byte leaves.
--
-- The tables of this file have no foreign key to tenants. Each row would lock the
-- tenant's row while its transaction lasts, and a tenant's runs, many at once, would
-- meet there; row-level security lets no row of another tenant in anyway.
CREATE TABLE runs (
    id               uuid NOT NULL,
    tenant_id        uuid NOT NULL,
    execution_id     text NOT NULL,
    claim_key        text NOT NULL, -- the key claimed first; the workflow ID hashes it
    attempt          integer DEFAULT 1 NOT NULL, -- how often the id was claimed; refusals before sending free it
    state            text DEFAULT 'claimed' NOT NULL CHECK ((state IN ('claimed', 'pending_approval', 'sending', 'executed', 'failed',
        'outcome_unknown', 'blocked', 'refused', 'intercepted', 'cancelled', 'rejected', 'expired'))),
    provider         text NOT NULL,
    verb             text NOT NULL,
    args             text NOT NULL, -- the very bytes that the caller sent
    fingerprint      bytea NOT NULL, -- SHA-256 of canonical {verb, args, dryRun}
    dry_run          boolean NOT NULL,
    session_id       text,
    metadata         json NOT NULL,
    key_id           uuid,
    request_id       text NOT NULL,
    source_addr      text NOT NULL,
    give_up_at       timestamptz NOT NULL, -- until then a refusal by the provider's rate limit is retried
    risk_level       text DEFAULT '' NOT NULL,
    operation_type   text DEFAULT '' NOT NULL,
    decision         text DEFAULT '' NOT NULL,
    policy_name      text DEFAULT '' NOT NULL,
    reason           text DEFAULT '' NOT NULL,
    approval_id      text,
    credential_id    uuid,
    sends            integer DEFAULT 0 NOT NULL, -- how often the row moved to sending
    maybe_sent       boolean DEFAULT false NOT NULL, -- a write of which an attempt may have had its effect
    result           text, -- the provider's JSON object, secrets scrubbed
    provider_status  integer DEFAULT 0 NOT NULL,
    error_code       text DEFAULT '' NOT NULL,
    error_message    text DEFAULT '' NOT NULL,
    error_details    json,
    retryable        boolean DEFAULT false NOT NULL,
    retry_after_ms   bigint DEFAULT 0 NOT NULL,
    resolved_by      uuid,
    cancel_requested boolean DEFAULT false NOT NULL,
    created_at       timestamptz DEFAULT now() NOT NULL,
    updated_at       timestamptz DEFAULT now() NOT NULL,
    sent_at          timestamptz,
    finished_at      timestamptz,
    -- A run that a human has to release waits in pending_approval; rejected and expired
    -- end it before anything was sent and free its id.
    held             boolean DEFAULT false NOT NULL,
    grant_id         uuid, -- the standing approval that let it through
    edited_args      text, -- what an approver made of args; sent in their place
    -- Where a run comes from. A call over HTTP has a key or a user; a step of an agent or a
    -- Map also has the execution it belongs to.
    origin           text DEFAULT 'key' NOT NULL CHECK ((origin IN ('key', 'user', 'agent', 'map'))),
    user_id          uuid, -- the user for whom it acts, where no key does
    agent_id         uuid, -- set for our own agents only; a caller names theirs in metadata
    customer_id      uuid, -- likewise
    parent_id        text, -- the execution that the run is a step of
    step             text, -- the step's path in its parent
    workflow_id      text NOT NULL, -- the workflow that drives the run
    -- What a run says about itself: the credential as it was when the call was sent, and who
    -- settled an unknown outcome.
    credential_type  text DEFAULT '' NOT NULL,
    credential_label text DEFAULT '' NOT NULL,
    resolved_at      timestamptz,
    resolve_reason   text DEFAULT '' NOT NULL,
    -- in_doubt: the run is a write, and the answer of an attempt was lost, or was a gateway's.
    -- maybe_sent is also true after the provider's own word that it failed.
    in_doubt         boolean DEFAULT false NOT NULL,
    -- A run begins no attempt after expires_at; NULL for runs that have ended or are held. expires_in is the time
    -- in seconds that the caller asked for. request_hash is the SHA-256 of what an attempt was
    -- made of: request, risk and credential. A repeat of the attempt must be made of the same.
    expires_at       timestamptz,
    expires_in       integer,
    request_hash     bytea,
    -- Filters of lists by what a claim fixes, in the order of the list. Most runs are in neither
    -- index. A filter by an expression over metadata would use no index under row-level security:
    -- the operator is not leakproof.
    named_customer   text GENERATED ALWAYS AS ( CASE WHEN (json_typeof((metadata -> 'customer_id')) = 'string') THEN (metadata ->> 'customer_id') ELSE NULL::text END) STORED,
    listed_state     text GENERATED ALWAYS AS ( CASE WHEN (state = ANY (ARRAY['claimed', 'sending'])) THEN NULL::text ELSE state END) STORED,
    -- The budgets in which the write of a run is counted, and in which month. Null where it is not
    -- counted: there is no budget, or what was counted is given back.
    charged          uuid[],
    charged_month    integer,
    -- When the arguments and the result of a run were erased: some time after its end, or with its
    -- customer. What remains of the row is the fence. NULL while they are kept.
    erased_at        timestamptz,
    -- What a provider said with an answer that is no result: status, code, message and the beginning of the
    -- body. Masked and sealed; at most 4 KiB before it was sealed.
    provider_error   text,
    -- windowed: window_entries may have rows of the run. The trigger keeps them up to date, whichever
    -- statement changes the state. settle_windows is in db/functions.
    windowed         boolean DEFAULT false NOT NULL,
    -- When a run was sent that has ended and counts, so that a window is filled from the runs of its
    -- period only: an old id may be claimed again, so ids do not tell. It changes only where
    -- listed_state does. An index by sent_at would make each move to sending write into all indexes.
    counted_at       timestamptz GENERATED ALWAYS AS ( CASE WHEN (state = ANY (ARRAY['executed',
        'outcome_unknown'])) THEN sent_at ELSE NULL::timestamptz END) STORED,
    -- What conditions ask of the answers of a run's look-ups, and why one has no answer. Sealed; of at most
    -- ten look-ups with 64 KiB each, and only until the run is released or ends.
    lookups          text,
    -- The jq program that makes the normalized form of the run's result, as the verb had it when the call was
    -- sent; null where it had none. At most 4 KiB.
    normalizer       text,
    -- What came back has no words of others than the tenant.
    trusted          boolean DEFAULT false NOT NULL,
    -- What is kept beside the result of a run: headers of the provider's answer, and why an answer became no
    -- result. Sealed; at most 10 KiB before it was sealed.
    result_note      text,
    -- What kind of workflow drives the run: its own (run), that of a Map, of a message to an agent, or of
    -- the changes of a dry run. workflow_id names the workflow, and nothing reads the form of that name.
    driver           text DEFAULT 'run' NOT NULL CHECK ((driver IN ('run', 'map', 'message', 'changes'))),
    -- Lists of what an agent, a Map or an execution did, in the order of the list. All three are said with the
    -- claim, by the service only: a call over HTTP has no parent. Calls over HTTP are in none of the indexes.
    of_map           text GENERATED ALWAYS AS ( CASE WHEN (parent_id IS NOT NULL) THEN (metadata ->> 'map_id') ELSE NULL::text END) STORED,
    -- The fingerprint of the arguments that people have edited; NULL where they have not. A call is compared
    -- with what was sent; see unsettled_call.
    sent_fingerprint bytea,
    -- With which writes of unknown outcome the call is compared when it is sent, 'chain' or 'others'; NULL where
    -- it is not. See unsettled_call.
    unsettled        text,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT runs_parent CHECK (((parent_id IS NULL) = (step IS NULL)))
) WITH (fillfactor=80);
CREATE INDEX runs_by_agent ON runs (tenant_id, agent_id, id DESC) WHERE (agent_id IS NOT NULL);
CREATE INDEX runs_by_customer ON runs (tenant_id, named_customer, id DESC) WHERE (named_customer IS NOT NULL);
CREATE INDEX runs_by_key ON runs (tenant_id, key_id, id DESC) WHERE (key_id IS NOT NULL);
CREATE INDEX runs_by_map ON runs (tenant_id, of_map, id DESC) WHERE (of_map IS NOT NULL);
CREATE INDEX runs_by_parent ON runs (tenant_id, parent_id, id DESC) WHERE (parent_id IS NOT NULL);
CREATE INDEX runs_by_provider ON runs (tenant_id, provider, id DESC) WHERE (provider IS NOT NULL);
CREATE INDEX runs_by_session ON runs (tenant_id, session_id, id DESC) WHERE (session_id IS NOT NULL);
CREATE INDEX runs_by_state ON runs (tenant_id, listed_state, id DESC) WHERE (listed_state IS NOT NULL);
CREATE INDEX runs_by_verb ON runs (tenant_id, provider, verb, id DESC) WHERE (verb IS NOT NULL);
CREATE INDEX runs_counted ON runs (tenant_id, counted_at, id) WHERE (counted_at IS NOT NULL);
CREATE INDEX runs_dry ON runs (tenant_id, id DESC) WHERE dry_run;
-- For the list of one tenant's unfinished runs, and for the sweeper's of all tenants.
CREATE INDEX runs_under_way ON runs (tenant_id, id) WHERE (listed_state IS NULL);
-- A call that a model asks for is compared with the writes whose outcome is unknown; see unsettled_call.
-- The predicate is on a column that only changes where a run is held or ends, so that the move to sending
-- writes into no index (HOT).
CREATE INDEX runs_unknown ON runs (tenant_id, COALESCE(sent_fingerprint, fingerprint)) WHERE (listed_state = 'outcome_unknown');
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
-- The sweeper repairs runs of all tenants that a crash left behind. It sees
-- unfinished ones only, and only to read.
CREATE POLICY runs_sweep ON runs FOR SELECT USING (((app_setting('app.sweep') = 'on') AND (state = ANY (ARRAY['claimed', 'sending']))));
CREATE POLICY tenant ON runs USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE TRIGGER settle_windows AFTER UPDATE OF state ON runs FOR EACH ROW WHEN ((new.windowed AND (new.state <> old.state)
    AND (new.state <> 'sending'))) EXECUTE FUNCTION settle_windows();
GRANT SELECT,INSERT,UPDATE ON runs TO agentruntime_app;

-- execution_id, idempotency_key and generated ids share this namespace. There is
-- no foreign key to runs: a claim that lost a race points its keys to the winner
-- within the transaction, before any row of its own exists.
CREATE TABLE run_keys (
    tenant_id uuid NOT NULL,
    key       text NOT NULL COLLATE pg_catalog."C",
    run_id    uuid NOT NULL,
    PRIMARY KEY (tenant_id, key)
);
ALTER TABLE run_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON run_keys USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,UPDATE ON run_keys TO agentruntime_app;

-- The few runs before that place that were not to be erased yet: they had not ended, or not long
-- enough ago, or were claimed again since.
CREATE TABLE runs_left (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    run_id    uuid NOT NULL,
    look_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id)
);
CREATE INDEX runs_left_due ON runs_left (tenant_id, look_at);
ALTER TABLE runs_left ENABLE ROW LEVEL SECURITY;
ALTER TABLE runs_left FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON runs_left USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON runs_left TO agentruntime_app;

-- Up to which run a tenant's results were looked at, in the order of their ids: so each run is
-- looked at once, by the index of its primary key, and no run pays for an index of its own.
CREATE TABLE run_erasures (
    tenant_id uuid PRIMARY KEY REFERENCES tenants (id),
    erased_to uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL,
    look_at   timestamptz NOT NULL -- when there may be more to erase
);
ALTER TABLE run_erasures ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_erasures FORCE ROW LEVEL SECURITY;
CREATE POLICY seal_select ON run_erasures FOR SELECT USING ((app_setting('app.seal') = 'on'));
CREATE POLICY tenant ON run_erasures USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,UPDATE ON run_erasures TO agentruntime_app;

-- Answers of providers that are neither JSON nor text. A file is written while it arrives, before its run
-- has ended: until then it has no run. One that gets none is deleted after an hour.
CREATE TABLE run_files (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    id         uuid NOT NULL,
    run_id     uuid,
    bytes      bigint NOT NULL, -- as the quota counts them; 0 while it arrives
    created_at timestamptz DEFAULT now() NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX run_files_bytes ON run_files (tenant_id) INCLUDE (bytes);
CREATE INDEX run_files_of_run ON run_files (run_id, tenant_id) INCLUDE (id) WHERE (run_id IS NOT NULL);
CREATE INDEX run_files_without_run ON run_files (created_at) INCLUDE (tenant_id, id) WHERE (run_id IS NULL);
ALTER TABLE run_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_files FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON run_files FOR DELETE USING (((app_setting('app.sweep') = 'on') AND (run_id IS NULL)));
CREATE POLICY sweep_select ON run_files FOR SELECT USING (((app_setting('app.sweep') = 'on') AND (run_id IS NULL)));
CREATE POLICY tenant ON run_files USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON run_files TO agentruntime_app;

-- The bytes of the files, in parts. Each is sealed under the tenant's data key.
CREATE TABLE run_file_parts (
    tenant_id uuid NOT NULL,
    file_id   uuid NOT NULL,
    part      integer NOT NULL, -- from 0
    content   bytea NOT NULL,
    PRIMARY KEY (tenant_id, file_id, part),
    CONSTRAINT run_file_parts_tenant_id_file_id_fkey FOREIGN KEY (tenant_id, file_id) REFERENCES run_files(tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE run_file_parts ALTER COLUMN content SET STORAGE EXTERNAL;
ALTER TABLE run_file_parts ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_file_parts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON run_file_parts USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON run_file_parts TO agentruntime_app;

-- +goose Down
DROP TABLE run_file_parts, run_files, run_erasures, runs_left, run_keys, runs CASCADE;
