-- record_failed_login writes the audit record of a login that failed. Where the address has no user
-- it writes the same record and takes it back, so that the time does not tell who has an account.
CREATE OR REPLACE FUNCTION record_failed_login(p_known boolean, p_id uuid, p_tenant uuid, p_user text, p_request text, p_source text) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, subject_type, subject_id, request_id, source_addr)
    VALUES (p_id, p_tenant, 'system', '', 'user.login_failed', 'user', p_user, p_request, p_source);
    IF NOT p_known THEN
        RAISE EXCEPTION 'nobody has this address' USING ERRCODE = 'AR012';
    END IF;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'AR012' THEN
    RETURN false;
END
$$;
