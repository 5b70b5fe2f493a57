-- audit_cluster returns the system identifier of this cluster, or 0 where the role may not
-- know it.
CREATE OR REPLACE FUNCTION audit_cluster() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN 0;
END
$$;
