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
--
-- plan_cache_mode: a plan for the keys of one call looks cheaper than one for any keys, so the look-up
-- of owners would be planned again at each call, which takes longer than the look-up.
CREATE OR REPLACE FUNCTION claim_map(p_tenant uuid, p_keys text[], p_call jsonb, p_payload text, p_fingerprint bytea, p_metadata json, p_now timestamptz)
RETURNS TABLE (outcome text, execution uuid)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    c      map_executions := jsonb_populate_record(NULL::map_executions, p_call);
    owners uuid[];
    ours   integer := 0;
    dry    boolean;
BEGIN
    IF cardinality(p_keys) > 0 THEN
        -- One look-up for each key; see run_owners.
        SELECT array_agg(DISTINCT k.execution) INTO owners FROM unnest(p_keys) AS n (key) CROSS JOIN LATERAL (
            SELECT m.execution FROM map_keys m WHERE m.tenant_id = p_tenant AND m.map_id = c.map_id AND m.key = n.key LIMIT 1) AS k;
    END IF;
    IF owners IS NULL THEN
        INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, machine, map_type, dry_run, fingerprint, payload, metadata,
                                    session_id, customer, origin, key_id, user_id, parent_id, step, depth, request_id, source_addr,
                                    workflow_id, updated_at)
            VALUES (c.id, p_tenant, c.execution_id, c.map_id, c.version, c.machine, c.map_type, c.dry_run, p_fingerprint, p_payload, p_metadata,
                    c.session_id, c.customer, c.origin, c.key_id, c.user_id, c.parent_id, c.step, c.depth, c.request_id, c.source_addr,
                    c.workflow_id, p_now);
        INSERT INTO map_keys (tenant_id, map_id, key, execution)
            SELECT p_tenant, c.map_id, k, c.id FROM unnest(p_keys) AS k ORDER BY k
            ON CONFLICT ON CONSTRAINT map_keys_pkey DO NOTHING;
        GET DIAGNOSTICS ours = ROW_COUNT;
        IF ours = cardinality(p_keys) THEN
            RETURN QUERY SELECT 'fresh'::text, c.id;
            RETURN;
        END IF;
        -- Another caller was first. The next try finds its execution.
        RAISE EXCEPTION 'another caller took a key of the trigger' USING ERRCODE = '40001';
    END IF;
    IF cardinality(owners) > 1 THEN
        RETURN QUERY SELECT 'conflict'::text, owners[1];
        RETURN;
    END IF;
    SELECT e.dry_run INTO dry FROM map_executions e WHERE e.tenant_id = p_tenant AND e.id = owners[1];
    IF dry <> c.dry_run THEN
        RETURN QUERY SELECT 'mismatch'::text, owners[1];
        RETURN;
    END IF;
    INSERT INTO map_keys (tenant_id, map_id, key, execution)
        SELECT p_tenant, c.map_id, k, owners[1] FROM unnest(p_keys) AS k ORDER BY k
        ON CONFLICT ON CONSTRAINT map_keys_pkey DO NOTHING;
    RETURN QUERY SELECT 'existing'::text, owners[1];
END
$$;
