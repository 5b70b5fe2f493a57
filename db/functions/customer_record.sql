-- customer_record returns what conditions of policies can ask about the customer that a reference
-- names, as JSON, and NULL where it names none. The reader is governance.Context.
CREATE OR REPLACE FUNCTION customer_record(p_tenant uuid, p_reference text)
RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_reference IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT json_build_object('id', c.id, 'external_id', c.external_id, 'tags', c.tags, 'metadata', c.metadata, 'claimed', c.claimed)
              FROM customers c
             WHERE c.tenant_id = p_tenant AND c.id = (
                SELECT i.customer_id FROM customer_identifiers i WHERE i.tenant_id = p_tenant AND i.identifier = 'id:' || p_reference));
END
$$;
