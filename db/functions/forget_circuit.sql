-- forget_circuit deletes the circuit of a slug whose provider comes, goes, or moves to another
-- base URL. So rows of deleted providers go, and who corrects an address need not wait.
CREATE OR REPLACE FUNCTION forget_circuit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM circuits c WHERE c.tenant_id = coalesce(NEW.tenant_id, OLD.tenant_id) AND c.provider = coalesce(NEW.slug, OLD.slug);
    RETURN NULL;
END
$$;
