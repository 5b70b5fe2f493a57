-- customer_names returns the texts that name the same customer as a reference: the customer's id,
-- its external_id, and those of the customers that were merged into it. A text that names none of
-- the tenant's customers names only itself, and NULL names nobody. There are at most 100.
CREATE OR REPLACE FUNCTION customer_names(p_tenant uuid, p_reference text)
RETURNS text[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    known uuid;
BEGIN
    IF p_reference IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT i.customer_id INTO known FROM customer_identifiers i WHERE i.tenant_id = p_tenant AND i.identifier = 'id:' || p_reference;
    IF NOT FOUND THEN
        RETURN ARRAY[p_reference];
    END IF;
    RETURN ARRAY(SELECT substr(i.identifier, 4) FROM customer_identifiers i
                  WHERE i.tenant_id = p_tenant AND i.customer_id = known AND i.identifier >= 'id:' AND i.identifier < 'id;');
END
$$;
