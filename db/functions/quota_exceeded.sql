-- quota_exceeded undoes the transaction that made one more than a tenant may have; see
-- internal/record/quota. db translates the code into the fault QUOTA_EXCEEDED, whose message
-- is the given one.
CREATE OR REPLACE FUNCTION quota_exceeded(message text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', message USING ERRCODE = 'AR002';
END
$$;
