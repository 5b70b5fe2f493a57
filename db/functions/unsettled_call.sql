-- unsettled_call returns the execution_id of a write whose outcome is not known, that is equal to a call, and
-- that the chain of the call has made; no row where there is none. Equal calls have the same fingerprint:
-- the same verb and arguments as sent, however these are written. The chain of a call is all that has
-- followed from the message, or the trigger, that its execution p_parent has followed from. All messages of
-- a session are one chain. With p_others the calls of p_parent itself do not count. under_way: the write is
-- at the provider now, for another execution of the chain. MarkSending sees all equal writes that are sent,
-- because EnterGate, the statement before, locks the fingerprint.
--
-- There is hardly ever a row, so that the chains are only looked up where there is one.
CREATE OR REPLACE FUNCTION unsettled_call(p_tenant uuid, p_fingerprint bytea, p_parent text, p_others boolean)
RETURNS TABLE (execution_id text, under_way boolean) LANGUAGE plpgsql STABLE AS $$
DECLARE
    known record;
    root  uuid;
BEGIN
    FOR known IN
        SELECT r.execution_id, r.parent_id, false AS under_way FROM runs r
         WHERE r.tenant_id = p_tenant AND coalesce(r.sent_fingerprint, r.fingerprint) = p_fingerprint
           AND r.listed_state = 'outcome_unknown' AND r.parent_id IS NOT NULL
        UNION ALL
        SELECT r.execution_id, r.parent_id, true FROM runs r
         WHERE r.tenant_id = p_tenant AND r.listed_state IS NULL AND coalesce(r.sent_fingerprint, r.fingerprint) = p_fingerprint
           AND (r.state = 'sending' OR r.maybe_sent OR r.in_doubt) AND r.operation_type <> 'read' AND r.parent_id <> p_parent
    LOOP
        IF known.parent_id = p_parent THEN
            CONTINUE WHEN p_others;
        ELSE
            root := coalesce(root, root_of_execution(p_tenant, p_parent));
            CONTINUE WHEN root_of_execution(p_tenant, known.parent_id) IS DISTINCT FROM root;
        END IF;
        execution_id := known.execution_id;
        under_way := known.under_way;
        RETURN NEXT;
        RETURN;
    END LOOP;
END
$$;
