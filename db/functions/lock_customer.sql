-- lock_customer returns the customer that a reference names, NULL where it names none. Until the
-- transaction ends, that customer is neither erased nor merged into another one. With p_alone, all
-- others that lock the customer wait.
CREATE OR REPLACE FUNCTION lock_customer(p_tenant uuid, p_reference text, p_alone boolean)
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    known uuid;
BEGIN
    LOOP
        SELECT i.customer_id INTO known FROM customer_identifiers i WHERE i.tenant_id = p_tenant AND i.identifier = 'id:' || p_reference;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        IF p_alone THEN
            PERFORM FROM customers c WHERE c.tenant_id = p_tenant AND c.id = known FOR NO KEY UPDATE;
        ELSE
            PERFORM FROM customers c WHERE c.tenant_id = p_tenant AND c.id = known FOR KEY SHARE;
        END IF;
        IF FOUND THEN
            RETURN known;
        END IF;
        -- It was erased or merged while this waited: now the reference names nobody, or the other one.
    END LOOP;
END
$$;
