-- unsettled_call returns the execution_id of a write of unknown outcome that is equal to a call, and that
-- the chain of the call has made; NULL where there is none. Equal calls have the same fingerprint: the
-- same verb and arguments, however these are written. The chain of a call is all that has followed from
-- the message, or the trigger, that its execution p_parent has followed from. All messages of a session
-- are one chain. With p_others the calls of p_parent itself do not count.
--
-- There is hardly ever a row, so that the chains are only looked up where there is one.
CREATE OR REPLACE FUNCTION unsettled_call(p_tenant uuid, p_fingerprint bytea, p_parent text, p_others boolean) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    known record;
    root  uuid;
BEGIN
    FOR known IN
        SELECT r.execution_id, r.parent_id FROM runs r
         WHERE r.tenant_id = p_tenant AND r.fingerprint = p_fingerprint AND r.listed_state = 'outcome_unknown' AND r.parent_id IS NOT NULL
    LOOP
        IF known.parent_id = p_parent THEN
            CONTINUE WHEN p_others;
            RETURN known.execution_id;
        END IF;
        root := coalesce(root, root_of_execution(p_tenant, p_parent));
        IF root_of_execution(p_tenant, known.parent_id) = root THEN
            RETURN known.execution_id;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
