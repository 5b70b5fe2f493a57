-- forget_policy_versions deletes the oldest versions of policies, until the policy has at most p_versions
-- of them and the tenant at most p_bytes bytes. It returns the name of the quota that is passed all the
-- same, '' where neither is. What a policy is now stays. So does a version by which a call was judged
-- since p_since; with p_judged these go too, after the others. Only versions from before p_before make
-- room for bytes, so that a flood of changes comes to an end. A call looks at the 1,000 oldest ones at
-- most, and makes room for more than one version. The caller has the turn of the tenant's changes.
CREATE OR REPLACE FUNCTION forget_policy_versions(
    p_tenant uuid, p_policy uuid, p_versions bigint, p_bytes bigint, p_since timestamptz, p_judged boolean, p_before timestamptz) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    total bigint := (SELECT coalesce(sum(p.bytes), 0) FROM policies p WHERE p.tenant_id = p_tenant);
    own   bigint := (SELECT count(*) FROM policy_versions v WHERE v.tenant_id = p_tenant AND v.policy_id = p_policy);
    room  bigint := p_bytes;
    freed bigint := 0;
    old   record;
BEGIN
    IF total > p_bytes THEN
        room := p_bytes - p_bytes / 16;
    END IF;
    -- At first those by which no call was judged.
    FOR judged IN 0 .. p_judged::integer LOOP
        FOR old IN
            SELECT v.policy_id, v.version, v.changed_at FROM policy_versions v JOIN policies p ON p.tenant_id = v.tenant_id AND p.id = v.policy_id
             WHERE v.tenant_id = p_tenant AND (p.deleted_at IS NOT NULL OR v.version < p.version) AND (v.policy_id = p_policy AND own > p_versions OR total > p_bytes AND v.changed_at < p_before)
             ORDER BY v.policy_id <> p_policy AND own > p_versions, v.changed_at, v.version LIMIT 1000
        LOOP
            EXIT WHEN total <= room AND own <= p_versions;
            CONTINUE WHEN (total <= room OR old.changed_at >= p_before) AND (own <= p_versions OR old.policy_id <> p_policy);
            -- A call is judged by a version between its change and the next one, by clocks that differ a little.
            CONTINUE WHEN judged = 0 AND EXISTS (
                SELECT FROM policy_matches m
                 WHERE m.tenant_id = p_tenant AND m.policy_id = old.policy_id AND m.policy_version = old.version
                   AND m.at >= greatest(p_since, old.changed_at - interval '1 minute')
                   AND m.at <= coalesce((SELECT n.changed_at + interval '1 minute' FROM policy_versions n
                                          WHERE n.tenant_id = p_tenant AND n.policy_id = old.policy_id AND n.version > old.version
                                          ORDER BY n.version LIMIT 1), 'infinity'));
            DELETE FROM policy_versions v WHERE v.tenant_id = p_tenant AND v.policy_id = old.policy_id AND v.version = old.version
            RETURNING octet_length(v.policy::text) INTO freed;
            UPDATE policies p SET bytes = greatest(p.bytes - freed, 0) WHERE p.tenant_id = p_tenant AND p.id = old.policy_id;
            total := total - freed;
            IF old.policy_id = p_policy THEN
                own := own - 1;
            END IF;
        END LOOP;
    END LOOP;
    -- A deleted policy without versions cannot be restored. Its row says what approvals name.
    IF freed > 0 THEN
        UPDATE policies p SET document = '{}' WHERE p.tenant_id = p_tenant AND p.deleted_at IS NOT NULL AND p.bytes = 0 AND p.document::text <> '{}';
    END IF;
    RETURN CASE WHEN own > p_versions THEN 'policy_versions' WHEN total > p_bytes THEN 'policy_version_bytes' ELSE '' END;
END
$$;
