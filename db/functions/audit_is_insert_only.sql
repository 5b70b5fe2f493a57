-- audit_is_insert_only refuses every change of a row of the audit trail, also by owners and
-- superusers.
CREATE OR REPLACE FUNCTION audit_is_insert_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is insert-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$$;
