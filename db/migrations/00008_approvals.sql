-- +goose Up

-- A run that a human has to release waits in pending_approval; rejected and expired
-- end it before anything was sent and free its id.
ALTER TABLE runs
    DROP CONSTRAINT runs_state_check,
    ADD CONSTRAINT runs_state_check CHECK (state IN
        ('claimed', 'pending_approval', 'sending', 'executed', 'failed', 'outcome_unknown', 'blocked', 'refused', 'intercepted',
         'cancelled', 'rejected', 'expired')),
    -- A run that was held once is sent with a human's approval only, whatever the policies say later.
    ADD COLUMN held        boolean NOT NULL DEFAULT false,
    ADD COLUMN grant_id    uuid, -- the standing approval that let it through
    ADD COLUMN edited_args text; -- what an approver made of args; sent in their place

-- What a human is asked, or was spared. One record per asking: a change of what it is
-- bound to supersedes it by another.
ALTER TABLE approvals
    DROP CONSTRAINT approvals_status_check,
    ADD CONSTRAINT approvals_status_check CHECK (status IN
        ('blocked', 'pending', 'approved', 'rejected', 'expired', 'cancelled', 'superseded')),
    ADD COLUMN kind            text NOT NULL DEFAULT 'block' CHECK (kind IN ('block', 'hold', 'dry_run')),
    ADD COLUMN attempt         integer NOT NULL DEFAULT 1, -- of the run
    ADD COLUMN explanation     json NOT NULL DEFAULT '[]', -- the policies that matched and why
    ADD COLUMN request         json, -- the request that would be sent, masked
    ADD COLUMN requirements    json NOT NULL DEFAULT '[]', -- what approvals it needs, of which policy versions
    ADD COLUMN policy_ids      uuid[] NOT NULL DEFAULT '{}', -- of requirements
    ADD COLUMN call_hash       bytea NOT NULL DEFAULT '', -- SHA-256 of canonical {verb, args, dryRun} as they would be sent
    ADD COLUMN schema_hash     bytea NOT NULL DEFAULT '',
    ADD COLUMN credential_id   uuid,
    ADD COLUMN edited_from     text, -- the approval whose arguments an approver edited
    ADD COLUMN edited_by       uuid,
    ADD COLUMN closed_reason   text NOT NULL DEFAULT '', -- why it was rejected, cancelled or superseded
    ADD COLUMN decided_by      uuid, -- NULL where no user did
    ADD COLUMN decided_at      timestamptz,
    ADD COLUMN escalated_at    timestamptz,
    -- Something it hangs on has changed: its workflow has to look again.
    ADD COLUMN recheck         boolean NOT NULL DEFAULT false,
    -- When its workflow was last seen waiting.
    ADD COLUMN watched_at      timestamptz NOT NULL DEFAULT now();
-- The owner of the table is bound by row-level security too, and would see no row here.
-- Dry runs that were left pending before anybody could decide have no workflow that waits.
ALTER TABLE approvals NO FORCE ROW LEVEL SECURITY;
UPDATE approvals SET kind = 'dry_run', status = 'cancelled', closed_reason = 'It was asked before approvals could be decided.' WHERE status = 'pending';
ALTER TABLE approvals FORCE ROW LEVEL SECURITY;
CREATE INDEX approvals_pending ON approvals (tenant_id, id DESC) WHERE status = 'pending';
CREATE INDEX approvals_due ON approvals (expires_at) WHERE status = 'pending';
CREATE INDEX approvals_watched ON approvals (watched_at) WHERE status = 'pending';
CREATE INDEX approvals_recheck ON approvals (tenant_id, id) WHERE recheck;
CREATE INDEX approvals_by_run ON approvals (tenant_id, run_id);
GRANT UPDATE (status, closed_reason, decided_by, decided_at, escalated_at, expires_at, requirements, recheck, watched_at) ON approvals TO agentruntime_app;
-- The sweeper looks after the pending ones of all tenants.
CREATE POLICY approvals_sweep ON approvals FOR SELECT
    USING (app_setting('app.sweep') = 'on' AND (status = 'pending' OR recheck));

-- What people said of an approval. A row is a proposal until the run's workflow has
-- counted it; one that was not counted decides nothing and is removed.
CREATE TABLE approval_decisions (
    id          uuid NOT NULL,
    tenant_id   uuid NOT NULL,
    approval_id text NOT NULL,
    user_id     uuid, -- NULL: somebody at Temporal, who can only reject
    decision    text NOT NULL CHECK (decision IN ('approve', 'reject')),
    reason      text NOT NULL,
    edited_args text,
    request_id  text NOT NULL,
    source_addr text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    counted_at  timestamptz,
    PRIMARY KEY (tenant_id, id),
    CHECK (user_id IS NOT NULL OR decision = 'reject')
);
-- Nobody's decision counts twice. Who has approved may still reject.
CREATE UNIQUE INDEX approval_decisions_once ON approval_decisions (tenant_id, approval_id, user_id, decision) WHERE counted_at IS NOT NULL;
ALTER TABLE approval_decisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE approval_decisions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON approval_decisions USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE, UPDATE (counted_at) ON approval_decisions TO agentruntime_app;

-- Approvals given in advance: this verb, under these conditions, until then, so many times.
CREATE TABLE grants (
    id          uuid NOT NULL,
    tenant_id   uuid NOT NULL,
    provider    text NOT NULL,
    verb        text NOT NULL,
    conditions  json NOT NULL, -- as in policies
    key_id      uuid, -- the calls of this key only
    agent_id    text,
    customer_id text,
    reason      text NOT NULL,
    created_by  uuid NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    max_uses    integer NOT NULL CHECK (max_uses > 0),
    uses        integer NOT NULL DEFAULT 0 CHECK (uses <= max_uses),
    revoked_at  timestamptz,
    revoked_by  uuid,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX grants_by_verb ON grants (tenant_id, provider, verb) WHERE revoked_at IS NULL;
ALTER TABLE grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE grants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON grants USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE (uses, revoked_at, revoked_by) ON grants TO agentruntime_app;

-- What an approval hangs on marks it in the transaction of its own change, so that no
-- held run waits for what can no longer be.
-- +goose StatementBegin
CREATE FUNCTION recheck_approvals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'policies' THEN
        UPDATE approvals a SET recheck = true
         WHERE a.tenant_id = NEW.tenant_id AND a.status = 'pending' AND a.policy_ids @> ARRAY[NEW.id];
    ELSIF TG_TABLE_NAME = 'api_keys' THEN
        UPDATE approvals a SET recheck = true
         WHERE a.tenant_id = NEW.tenant_id AND a.status = 'pending' AND a.requester = NEW.id;
    ELSIF TG_TABLE_NAME = 'credentials' THEN
        UPDATE approvals a SET recheck = true
         WHERE a.tenant_id = coalesce(NEW.tenant_id, OLD.tenant_id) AND a.status = 'pending'
           AND a.provider = coalesce(NEW.provider, OLD.provider);
    ELSE
        UPDATE approvals a SET recheck = true
         WHERE a.tenant_id = coalesce(NEW.tenant_id, OLD.tenant_id) AND a.status = 'pending'
           AND a.provider = coalesce(NEW.slug, OLD.slug);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER recheck_approvals AFTER UPDATE ON policies
    FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
CREATE TRIGGER recheck_approvals AFTER UPDATE OF revoked_at ON api_keys
    FOR EACH ROW WHEN (NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION recheck_approvals();
CREATE TRIGGER recheck_approvals AFTER INSERT OR DELETE OR UPDATE OF status ON credentials
    FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
CREATE TRIGGER recheck_approvals AFTER DELETE OR UPDATE ON providers
    FOR EACH ROW EXECUTE FUNCTION recheck_approvals();

-- claim_run as before, with rejected and expired among the states that free an id.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION claim_run(
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
    IF old.state IN ('blocked', 'refused', 'rejected', 'expired') THEN
        IF known IS NULL THEN
            RETURN 'unknown_verb';
        END IF;
        UPDATE runs r SET state = 'claimed', attempt = r.attempt + 1, args = p_args, fingerprint = p_fingerprint,
               session_id = p_session, metadata = p_metadata, key_id = p_key_id, request_id = p_request_id,
               source_addr = p_source_addr, give_up_at = p_give_up_at, risk_level = known.risk_level,
               operation_type = known.operation_type, decision = '',
               policy_name = '', reason = '', approval_id = NULL, credential_id = NULL, error_code = '', error_message = '',
               error_details = NULL, cancel_requested = false, sends = 0, maybe_sent = false, sent_at = NULL, provider_status = 0,
               retryable = false, retry_after_ms = 0, result = NULL, held = false, grant_id = NULL, edited_args = NULL, updated_at = now(), finished_at = NULL
         WHERE r.tenant_id = p_tenant AND r.id = old.id AND r.state IN ('blocked', 'refused', 'rejected', 'expired');
        IF FOUND THEN
            RETURN 'reclaimed';
        END IF;
    END IF;
    RETURN 'existing';
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER recheck_approvals ON policies;
DROP TRIGGER recheck_approvals ON api_keys;
DROP TRIGGER recheck_approvals ON credentials;
DROP TRIGGER recheck_approvals ON providers;
DROP FUNCTION recheck_approvals();
DROP TABLE grants;
DROP TABLE approval_decisions;
DROP POLICY approvals_sweep ON approvals;
REVOKE UPDATE (status, closed_reason, decided_by, decided_at, escalated_at, expires_at, requirements, recheck, watched_at) ON approvals FROM agentruntime_app;
DROP INDEX approvals_pending, approvals_due, approvals_watched, approvals_recheck, approvals_by_run;
ALTER TABLE approvals
    DROP COLUMN kind, DROP COLUMN attempt, DROP COLUMN explanation, DROP COLUMN request, DROP COLUMN requirements,
    DROP COLUMN policy_ids, DROP COLUMN call_hash, DROP COLUMN schema_hash, DROP COLUMN credential_id, DROP COLUMN edited_from,
    DROP COLUMN edited_by, DROP COLUMN closed_reason, DROP COLUMN decided_by, DROP COLUMN decided_at, DROP COLUMN escalated_at,
    DROP COLUMN recheck, DROP COLUMN watched_at,
    DROP CONSTRAINT approvals_status_check,
    ADD CONSTRAINT approvals_status_check CHECK (status IN ('blocked', 'pending'));
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION claim_run(
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
ALTER TABLE runs
    DROP COLUMN held, DROP COLUMN grant_id, DROP COLUMN edited_args,
    DROP CONSTRAINT runs_state_check,
    ADD CONSTRAINT runs_state_check CHECK (state IN
        ('claimed', 'sending', 'executed', 'failed', 'outcome_unknown', 'blocked', 'refused', 'intercepted', 'cancelled'));
