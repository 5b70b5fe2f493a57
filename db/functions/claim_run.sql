-- claim_run is the fence. It returns
--   fresh         the keys are new; the run exists now, in state claimed
--   reclaimed     the run of the keys ended before anything was sent; it is claimed again
--   existing      the run of the keys answers this call
--   mismatch      the run of the keys has another verb, or is a dry run and the call is not
--   conflict      the keys belong to two different runs
--   reseal        as reclaimed, but the arguments are sealed for another run than that of
--                 the keys; it was not claimed, and the caller seals them for that run
--   unknown_verb  the keys are new and the catalog has no such verb; nothing was written
-- A repeat of a finished run writes nothing, and a call that is refused here binds no key.
-- There are one or two keys. keys[1] names the workflow of a run that has one of its own.
-- Callers that race for one key wait for each other on its primary key, so exactly one is
-- fresh. A caller that wins one of two keys and loses the other gets the error 40001, which
-- undoes the transaction: the next try finds the run of the winner.
--
-- A new call of a model, which says so in the member "unsettled" of p_call, is not made where its chain has
-- made an equal write whose outcome is unknown: the error AR013 names that run, and undoes the
-- transaction. For a step of a Map, which the author has written, "others" leaves out the calls of its own
-- execution. An equal call that is claimed too is found when one of the two is sent; see MarkSending.
--
-- p_call has the small columns of the run by their names; see claimedCall in
-- internal/action/run/row.go. With those of claimedMark, a new run is sending from its
-- beginning: its step was judged before the claim. The member "exact" of p_call says that a run
-- with other arguments does not answer the call. The three large columns are parameters, because
-- a text within JSON is copied twice. p_call is text, so that a plain repeat, which never gets
-- here, does not pay for its reading.
CREATE OR REPLACE FUNCTION claim_run(
    p_tenant uuid, p_keys text[], p_args text, p_fingerprint bytea, p_metadata json, p_call text
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    call   jsonb := p_call::jsonb;
    c      runs := jsonb_populate_record(NULL::runs, call);
    owners uuid[];
    owner  uuid; -- the run that answers
    old    record;
    known  record;
    ours   integer := 0; -- keys that this call inserted
    free   boolean; -- the run ended before anything was sent, and its id may run again
    equal  record; -- an equal write whose outcome is not known
BEGIN
    -- A tenant's own verb costs one look-up in an index. A verb of the platform counts where
    -- the tenant has enabled its provider and has no provider of its own under that slug.
    SELECT v.risk_level, v.operation_type INTO known
      FROM verbs v WHERE v.tenant_id = p_tenant AND v.provider = c.provider AND v.name = c.verb;
    IF NOT FOUND THEN
        SELECT v.risk_level, v.operation_type INTO known
          FROM enabled_providers e JOIN platform_verbs v ON v.provider = e.slug
         WHERE e.tenant_id = p_tenant AND e.slug = c.provider AND v.name = c.verb
           AND NOT EXISTS (SELECT FROM providers p WHERE p.tenant_id = p_tenant AND p.slug = c.provider);
    END IF;
    IF cardinality(p_keys) = 2 OR known IS NULL THEN
        owners := run_owners(p_tenant, p_keys);
    END IF;
    IF coalesce(owners[1], owners[2]) IS NULL THEN
        IF known IS NULL THEN
            RETURN 'unknown_verb';
        END IF;
        IF cardinality(p_keys) = 1 THEN
            INSERT INTO run_keys (tenant_id, key, run_id) VALUES (p_tenant, p_keys[1], c.id)
                ON CONFLICT ON CONSTRAINT run_keys_pkey DO NOTHING;
        ELSE
            -- In one order everywhere, so that two callers with the same two keys cannot deadlock.
            INSERT INTO run_keys (tenant_id, key, run_id)
                SELECT p_tenant, k, c.id FROM unnest(p_keys) AS k ORDER BY k
                ON CONFLICT ON CONSTRAINT run_keys_pkey DO NOTHING;
        END IF;
        GET DIAGNOSTICS ours = ROW_COUNT;
        IF ours = cardinality(p_keys) THEN
            IF call ? 'unsettled' AND known.operation_type <> 'read' THEN
                SELECT * INTO equal FROM unsettled_call(p_tenant, p_fingerprint, c.parent_id, call ->> 'unsettled' = 'others');
                IF FOUND THEN
                    RAISE EXCEPTION 'an equal write has an unknown outcome'
                        USING ERRCODE = 'AR013', DETAIL = equal.execution_id, HINT = CASE WHEN equal.under_way THEN 'under way' ELSE '' END;
                END IF;
            END IF;
            INSERT INTO runs (id, tenant_id, execution_id, claim_key, provider, verb, args, fingerprint, dry_run,
                              session_id, metadata, request_id, source_addr, give_up_at, expires_at, expires_in, risk_level, operation_type,
                              origin, key_id, user_id, agent_id, customer_id, parent_id, step, workflow_id, driver, unsettled,
                              state, sends, sent_at, credential_id, credential_type, credential_label, request_hash, normalizer, windowed)
                VALUES (c.id, p_tenant, c.execution_id, p_keys[1], c.provider, c.verb, p_args, p_fingerprint, c.dry_run,
                        c.session_id, p_metadata, c.request_id, c.source_addr, c.give_up_at, c.expires_at, c.expires_in,
                        known.risk_level, known.operation_type,
                        c.origin, c.key_id, c.user_id, c.agent_id, c.customer_id, c.parent_id, c.step, c.workflow_id, c.driver, c.unsettled,
                        coalesce(c.state, 'claimed'), coalesce(c.sends, 0), CASE WHEN c.state = 'sending' THEN now() END, c.credential_id,
                        coalesce(c.credential_type, ''), coalesce(c.credential_label, ''), c.request_hash, c.normalizer, coalesce(c.windowed, false));
            -- A generated execution_id is a name of the run too.
            IF c.execution_id <> ALL (p_keys) THEN
                INSERT INTO run_keys (tenant_id, key, run_id) VALUES (p_tenant, c.execution_id, c.id)
                    ON CONFLICT ON CONSTRAINT run_keys_pkey DO NOTHING;
            END IF;
            RETURN 'fresh';
        END IF;
        IF ours > 0 THEN
            RAISE EXCEPTION 'another caller took one of the two keys' USING ERRCODE = '40001';
        END IF;
        owners := run_owners(p_tenant, p_keys);
    END IF;
    owner := coalesce(owners[1], owners[2]);
    IF owners[2] <> owner THEN
        RETURN 'conflict';
    END IF;

    SELECT r.id, r.provider, r.verb, r.dry_run, r.fingerprint, r.state, r.parent_id INTO old
      FROM runs r WHERE r.tenant_id = p_tenant AND r.id = owner;
    IF old.provider <> c.provider OR old.verb <> c.verb OR old.dry_run <> c.dry_run THEN
        RETURN 'mismatch';
    END IF;
    -- A step never runs again under its id: its workflow repeats the claim after a crash, and
    -- names another attempt where it wants one.
    free := old.parent_id IS NULL AND old.state IN ('blocked', 'refused');
    IF free AND known IS NULL THEN
        RETURN 'unknown_verb';
    END IF;
    IF NOT free AND old.fingerprint <> p_fingerprint AND (call ->> 'exact')::boolean THEN
        RETURN 'existing'; -- the caller compares the arguments and refuses the call
    END IF;
    IF array_position(owners, NULL) IS NOT NULL THEN
        INSERT INTO run_keys (tenant_id, key, run_id)
            SELECT p_tenant, k, owner FROM unnest(p_keys) AS k ORDER BY k
            ON CONFLICT ON CONSTRAINT run_keys_pkey DO NOTHING;
        IF owner <> ANY (run_owners(p_tenant, p_keys)) THEN
            RETURN 'conflict';
        END IF;
    END IF;
    IF free THEN
        IF old.id <> c.id THEN
            RETURN 'reseal';
        END IF;
        -- A run with a workflow of its own keeps the workflow's name, which comes from the key
        -- that was claimed first.
        UPDATE runs r SET state = 'claimed', attempt = r.attempt + 1, args = p_args, fingerprint = p_fingerprint,
               session_id = c.session_id, metadata = p_metadata, request_id = c.request_id,
               source_addr = c.source_addr, give_up_at = c.give_up_at, expires_at = c.expires_at, expires_in = c.expires_in,
               request_hash = NULL, risk_level = known.risk_level,
               operation_type = known.operation_type, decision = '',
               origin = c.origin, key_id = c.key_id, user_id = c.user_id, agent_id = c.agent_id, customer_id = c.customer_id,
               policy_name = '', reason = '', approval_id = NULL, credential_id = NULL, credential_type = '', credential_label = '', error_code = '', error_message = '',
               error_details = NULL, cancel_requested = false, sends = 0, maybe_sent = false, in_doubt = false, sent_at = NULL, provider_status = 0,
               retryable = false, retry_after_ms = 0, result = NULL, result_note = NULL, provider_error = NULL, normalizer = NULL, held = false, grant_id = NULL, edited_args = NULL, sent_fingerprint = NULL, erased_at = NULL, updated_at = now(), finished_at = NULL
         WHERE r.tenant_id = p_tenant AND r.id = old.id AND r.parent_id IS NULL AND r.state IN ('blocked', 'refused');
        IF FOUND THEN
            -- The job that erases old results is past this run: it must look at it again.
            INSERT INTO runs_left (tenant_id, run_id, look_at)
                SELECT p_tenant, old.id, now() FROM run_erasures e WHERE e.tenant_id = p_tenant AND e.erased_to >= old.id
                ON CONFLICT ON CONSTRAINT runs_left_pkey DO NOTHING;
            RETURN 'reclaimed';
        END IF;
    END IF;
    RETURN 'existing';
END
$$;
