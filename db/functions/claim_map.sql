-- claim_map is the fence of a Map's triggers. It returns the outcome and the execution that has the
-- keys:
--   fresh     the keys are new, or there are none; the execution exists now
--   existing  the execution of the keys answers this call
--   mismatch  the execution of the keys is a dry run and the call is not, or the other way round
--   conflict  the keys belong to two different executions
-- A failed execution that sent nothing and asked nobody has lost its keys when it ended, so an id
-- is free again here by itself. Callers that race for one key wait for each other on its primary
-- key, so exactly one is fresh. One that wins one of two keys and loses the other gets the error
-- 40001, which undoes the transaction.
CREATE OR REPLACE FUNCTION claim_map(p_tenant uuid, p_keys text[], p_call jsonb, p_payload text, p_fingerprint bytea, p_metadata json, p_now timestamptz,
                                     OUT outcome text, OUT execution uuid)
LANGUAGE plpgsql AS $$
DECLARE
    c    map_executions := jsonb_populate_record(NULL::map_executions, p_call);
    k    text;
    ours integer := 0; -- keys that this call has inserted
    had  uuid; -- the execution that a key has
    held uuid; -- the execution that has the keys
    dry  boolean;
BEGIN
    -- With two keys both are looked up first: one that is taken decides about the other.
    IF cardinality(p_keys) > 1 THEN
        FOREACH k IN ARRAY p_keys LOOP
            SELECT m.execution INTO had FROM map_keys m WHERE m.tenant_id = p_tenant AND m.map_id = c.map_id AND m.key = k;
            IF had <> held THEN
                outcome := 'conflict';
                execution := held;
                RETURN;
            END IF;
            held := coalesce(held, had);
        END LOOP;
    END IF;
    IF held IS NULL THEN
        IF cardinality(p_keys) = 1 THEN
            INSERT INTO map_keys (tenant_id, map_id, key, execution) VALUES (p_tenant, c.map_id, p_keys[1], c.id)
                ON CONFLICT ON CONSTRAINT map_keys_pkey DO NOTHING;
            GET DIAGNOSTICS ours = ROW_COUNT;
        ELSIF cardinality(p_keys) > 1 THEN
            -- In one order everywhere, so that two callers with the same two keys cannot deadlock.
            INSERT INTO map_keys (tenant_id, map_id, key, execution)
                SELECT p_tenant, c.map_id, n, c.id FROM unnest(p_keys) AS n ORDER BY n
                ON CONFLICT ON CONSTRAINT map_keys_pkey DO NOTHING;
            GET DIAGNOSTICS ours = ROW_COUNT;
        END IF;
        IF ours = cardinality(p_keys) THEN
            INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata,
                                        session_id, customer, origin, key_id, user_id, parent_id, step, depth, request_id, source_addr,
                                        workflow_id, updated_at)
                VALUES (c.id, p_tenant, c.execution_id, c.map_id, c.version, c.map_type, c.dry_run, p_fingerprint, p_payload, p_metadata,
                        c.session_id, c.customer, c.origin, c.key_id, c.user_id, c.parent_id, c.step, c.depth, c.request_id, c.source_addr,
                        c.workflow_id, p_now);
            outcome := 'fresh';
            execution := c.id;
            RETURN;
        END IF;
        IF ours = 0 AND cardinality(p_keys) = 1 THEN
            SELECT m.execution INTO held FROM map_keys m WHERE m.tenant_id = p_tenant AND m.map_id = c.map_id AND m.key = p_keys[1];
        END IF;
        IF held IS NULL THEN
            -- Another caller was first, or a key was given back meanwhile. The next try finds what is there.
            RAISE EXCEPTION 'another caller took a key of the trigger' USING ERRCODE = '40001';
        END IF;
    END IF;
    SELECT e.dry_run INTO dry FROM map_executions e WHERE e.tenant_id = p_tenant AND e.id = held;
    execution := held;
    IF dry <> c.dry_run THEN
        outcome := 'mismatch';
        RETURN;
    END IF;
    IF cardinality(p_keys) > 1 THEN
        INSERT INTO map_keys (tenant_id, map_id, key, execution)
            SELECT p_tenant, c.map_id, n, held FROM unnest(p_keys) AS n ORDER BY n
            ON CONFLICT ON CONSTRAINT map_keys_pkey DO NOTHING;
    END IF;
    outcome := 'existing';
END
$$;
