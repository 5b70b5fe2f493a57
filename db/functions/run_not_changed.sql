-- run_not_changed undoes the transaction, see the query RequireRunChanged. The code is what
-- db.IsNotChanged looks for.
CREATE OR REPLACE FUNCTION run_not_changed() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the run was not changed' USING ERRCODE = 'AR001';
END
$$;
