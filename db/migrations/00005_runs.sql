-- +goose Up

-- One row per claimed run: the fence of record. A provider is called only by
-- whoever moved the row from claimed to sending, and that move commits before the
-- first byte leaves.
--
-- The tables of this file have no foreign key to tenants. Each row would lock the
-- tenant's row while its transaction lasts, and a tenant's runs, many at once, would
-- meet there; row-level security lets no row of another tenant in anyway.
CREATE TABLE runs (
    id                uuid NOT NULL,
    tenant_id         uuid NOT NULL,
    execution_id      text NOT NULL,
    claim_key         text NOT NULL, -- the key claimed first; the workflow ID hashes it
    attempt           integer NOT NULL DEFAULT 1, -- how often the id was claimed; refusals before sending free it
    state             text NOT NULL DEFAULT 'claimed' CHECK (state IN
        ('claimed', 'sending', 'executed', 'failed', 'outcome_unknown', 'blocked', 'refused', 'intercepted', 'cancelled')),
    provider          text NOT NULL,
    verb              text NOT NULL,
    args              text NOT NULL, -- the very bytes that the caller sent
    fingerprint       bytea NOT NULL, -- SHA-256 of canonical {verb, args, dryRun}
    dry_run           boolean NOT NULL,
    session_id        text,
    metadata          json NOT NULL,
    key_id            uuid,
    request_id        text NOT NULL,
    source_addr       text NOT NULL,
    give_up_at        timestamptz NOT NULL, -- until then a refusal by the provider's rate limit is retried
    risk_level        text NOT NULL DEFAULT '',
    operation_type    text NOT NULL DEFAULT '',
    decision          text NOT NULL DEFAULT '',
    policy_name       text NOT NULL DEFAULT '',
    reason            text NOT NULL DEFAULT '',
    approval_id       text,
    credential_id     uuid,
    sends             integer NOT NULL DEFAULT 0, -- how often the row moved to sending
    maybe_sent        boolean NOT NULL DEFAULT false, -- a write of which an attempt may have had its effect
    result            text, -- the provider's JSON object, secrets scrubbed
    provider_status   integer NOT NULL DEFAULT 0,
    error_code        text NOT NULL DEFAULT '',
    error_message     text NOT NULL DEFAULT '',
    error_details     json,
    retryable         boolean NOT NULL DEFAULT false,
    retry_after_ms    bigint NOT NULL DEFAULT 0,
    resolved_by       uuid,
    cancel_requested  boolean NOT NULL DEFAULT false,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    sent_at           timestamptz,
    finished_at       timestamptz,
    PRIMARY KEY (tenant_id, id) -- ids are in the order of time (UUIDv7), so it serves lists too
);
CREATE INDEX runs_by_session ON runs (tenant_id, session_id, id DESC) WHERE session_id IS NOT NULL;
CREATE INDEX runs_unfinished ON runs (updated_at) WHERE state IN ('claimed', 'sending');
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON runs USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
-- The sweeper repairs runs of all tenants that a crash left behind. It sees
-- unfinished ones only, and only to read.
CREATE POLICY runs_sweep ON runs FOR SELECT
    USING (app_setting('app.sweep') = 'on' AND state IN ('claimed', 'sending'));
GRANT SELECT, INSERT, UPDATE ON runs TO agentruntime_app;

-- execution_id, idempotency_key and generated ids share this namespace. There is
-- no foreign key to runs: a claim that lost a race points its keys to the winner
-- within the transaction, before any row of its own exists.
CREATE TABLE run_keys (
    tenant_id uuid NOT NULL,
    key       text NOT NULL,
    run_id    uuid NOT NULL,
    PRIMARY KEY (tenant_id, key)
);
ALTER TABLE run_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON run_keys USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE ON run_keys TO agentruntime_app;

-- run_owners returns the run that each key names, NULL for a key that is free. One
-- look-up a key: `key = ANY (keys)` is planned, while the table is small, as a scan of
-- all the tenant's keys, and that plan is kept.
-- +goose StatementBegin
CREATE FUNCTION run_owners(p_tenant uuid, p_keys text[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    owners uuid[] := '{}';
    owner  uuid;
    k      text;
BEGIN
    FOREACH k IN ARRAY p_keys LOOP
        SELECT r.run_id INTO owner FROM run_keys r WHERE r.tenant_id = p_tenant AND r.key = k;
        owners := owners || owner; -- NULL where there is none
    END LOOP;
    RETURN owners;
END
$$;
-- +goose StatementEnd

-- claim_run is the fence. It returns
--   fresh         the keys are new; the run exists now, in state claimed
--   reclaimed     the id was refused before anything was sent; it runs anew
--   existing      the run that the keys name answers this call
--   mismatch      the keys name a run of another verb, or dry run against real
--   conflict      the keys belong to two different runs
--   unknown_verb  the keys are new and the catalog has no such verb; nothing was written
-- A repeat of a finished run writes nothing. There are one or two keys, and keys[1]
-- names the workflow. Callers racing for one key wait on its primary key, so exactly one is fresh.
-- +goose StatementBegin
CREATE FUNCTION claim_run(
    p_tenant uuid, p_run uuid, p_execution_id text, p_keys text[], p_provider text, p_verb text,
    p_args text, p_fingerprint bytea, p_dry_run boolean, p_session text, p_metadata json,
    p_key_id uuid, p_request_id text, p_source_addr text, p_give_up_at timestamptz
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    owners uuid[];
    owner  uuid; -- of the run that answers, once it is known
    old    record;
    known  record;
    ours   integer := 0; -- keys that this call inserted
BEGIN
    SELECT v.risk_level, v.operation_type INTO known
      FROM verbs v WHERE v.tenant_id = p_tenant AND v.provider = p_provider AND v.name = p_verb;
    IF cardinality(p_keys) = 2 OR known IS NULL THEN
        owners := run_owners(p_tenant, p_keys);
    END IF;
    IF coalesce(owners[1], owners[2]) IS NULL THEN
        IF known IS NULL THEN
            RETURN 'unknown_verb';
        END IF;
        IF cardinality(p_keys) = 1 THEN
            INSERT INTO run_keys (tenant_id, key, run_id) VALUES (p_tenant, p_keys[1], p_run)
                ON CONFLICT ON CONSTRAINT run_keys_pkey DO NOTHING;
        ELSE
            -- In one order everywhere, so that two callers with the same two keys cannot deadlock.
            INSERT INTO run_keys (tenant_id, key, run_id)
                SELECT p_tenant, k, p_run FROM unnest(p_keys) AS k ORDER BY k
                ON CONFLICT ON CONSTRAINT run_keys_pkey DO NOTHING;
        END IF;
        GET DIAGNOSTICS ours = ROW_COUNT;
        IF ours = cardinality(p_keys) THEN
            INSERT INTO runs (id, tenant_id, execution_id, claim_key, provider, verb, args, fingerprint, dry_run,
                              session_id, metadata, key_id, request_id, source_addr, give_up_at, risk_level, operation_type)
                VALUES (p_run, p_tenant, p_execution_id, p_keys[1], p_provider, p_verb, p_args, p_fingerprint, p_dry_run,
                        p_session, p_metadata, p_key_id, p_request_id, p_source_addr, p_give_up_at,
                        known.risk_level, known.operation_type);
            -- A generated execution_id is a name of the run too.
            IF p_execution_id <> ALL (p_keys) THEN
                INSERT INTO run_keys (tenant_id, key, run_id) VALUES (p_tenant, p_execution_id, p_run)
                    ON CONFLICT ON CONSTRAINT run_keys_pkey DO NOTHING;
            END IF;
            RETURN 'fresh';
        END IF;
        owners := run_owners(p_tenant, p_keys);
        -- A racing caller took some of the keys: one that was inserted here joins its run.
        owner := (array_remove(owners, p_run))[1];
        UPDATE run_keys k SET run_id = owner WHERE k.tenant_id = p_tenant AND k.key = p_keys[1] AND k.run_id = p_run;
        UPDATE run_keys k SET run_id = owner WHERE k.tenant_id = p_tenant AND k.key = p_keys[2] AND k.run_id = p_run;
        owners := array_replace(owners, p_run, owner);
    END IF;
    owner := coalesce(owners[1], owners[2]);
    IF owners[2] <> owner THEN
        RETURN 'conflict';
    END IF;

    SELECT r.id, r.provider, r.verb, r.dry_run, r.state INTO old FROM runs r WHERE r.tenant_id = p_tenant AND r.id = owner;
    IF old.provider <> p_provider OR old.verb <> p_verb OR old.dry_run <> p_dry_run THEN
        RETURN 'mismatch';
    END IF;
    IF array_position(owners, NULL) IS NOT NULL THEN
        INSERT INTO run_keys (tenant_id, key, run_id)
            SELECT p_tenant, k, owner FROM unnest(p_keys) AS k ORDER BY k
            ON CONFLICT ON CONSTRAINT run_keys_pkey DO NOTHING;
        IF owner <> ANY (run_owners(p_tenant, p_keys)) THEN
            RETURN 'conflict';
        END IF;
    END IF;
    IF old.state IN ('blocked', 'refused') THEN
        IF known IS NULL THEN
            RETURN 'unknown_verb';
        END IF;
        UPDATE runs r SET state = 'claimed', attempt = r.attempt + 1, args = p_args, fingerprint = p_fingerprint,
               session_id = p_session, metadata = p_metadata, key_id = p_key_id, request_id = p_request_id,
               source_addr = p_source_addr, give_up_at = p_give_up_at, risk_level = known.risk_level,
               operation_type = known.operation_type, decision = '',
               policy_name = '', reason = '', approval_id = NULL, credential_id = NULL, error_code = '', error_message = '',
               error_details = NULL, cancel_requested = false, sends = 0, maybe_sent = false, sent_at = NULL, provider_status = 0,
               retryable = false, retry_after_ms = 0, updated_at = now(), finished_at = NULL
         WHERE r.tenant_id = p_tenant AND r.id = old.id AND r.state IN ('blocked', 'refused');
        IF FOUND THEN
            RETURN 'reclaimed';
        END IF;
    END IF;
    RETURN 'existing';
END
$$;
-- +goose StatementEnd

-- run_not_changed undoes the transaction, see the query RequireRunChanged.
-- +goose StatementBegin
CREATE FUNCTION run_not_changed() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the run was not changed' USING ERRCODE = 'AR001';
END
$$;
-- +goose StatementEnd

-- What a human is asked, or was spared: the call, masked, and why it was held or blocked.
CREATE TABLE approvals (
    id           text PRIMARY KEY,
    tenant_id    uuid NOT NULL,
    run_id       uuid NOT NULL,
    execution_id text NOT NULL,
    status       text NOT NULL CHECK (status IN ('blocked', 'pending')),
    provider     text NOT NULL,
    verb         text NOT NULL,
    args         text NOT NULL, -- masked
    risk_level   text NOT NULL,
    policy_name  text NOT NULL,
    reason       text NOT NULL,
    requester    uuid, -- the key that called
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz
);
CREATE INDEX approvals_by_time ON approvals (tenant_id, created_at DESC, id DESC);
ALTER TABLE approvals ENABLE ROW LEVEL SECURITY;
ALTER TABLE approvals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON approvals USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT ON approvals TO agentruntime_app;

-- One record per decision and per state change. Insert-only for every role: the
-- grants allow no more, and the trigger refuses it to owners and superusers too.
CREATE TABLE audit_records (
    id           uuid NOT NULL,
    tenant_id    uuid NOT NULL,
    at           timestamptz NOT NULL DEFAULT now(),
    actor_type   text NOT NULL CHECK (actor_type IN ('key', 'user', 'workflow')),
    actor_id     text NOT NULL,
    action       text NOT NULL,
    provider     text NOT NULL DEFAULT '',
    verb         text NOT NULL DEFAULT '',
    risk_level   text NOT NULL DEFAULT '',
    decision     text NOT NULL DEFAULT '',
    outcome      text NOT NULL DEFAULT '',
    execution_id text NOT NULL DEFAULT '',
    session_id   text,
    request_id   text NOT NULL DEFAULT '',
    source_addr  text NOT NULL DEFAULT '',
    input        text, -- masked arguments
    details      json,
    PRIMARY KEY (tenant_id, id) -- ids are in the order of time (UUIDv7)
);
ALTER TABLE audit_records ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_records FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON audit_records USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT ON audit_records TO agentruntime_app;

-- +goose StatementBegin
CREATE FUNCTION audit_is_insert_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_records is insert-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_records
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_insert_only();

-- +goose Down
DROP TABLE audit_records;
DROP FUNCTION audit_is_insert_only();
DROP TABLE approvals;
DROP FUNCTION run_not_changed();
DROP FUNCTION claim_run(uuid, uuid, text, text[], text, text, text, bytea, boolean, text, json, uuid, text, text, timestamptz);
DROP FUNCTION run_owners(uuid, text[]);
DROP TABLE run_keys;
DROP TABLE runs;
