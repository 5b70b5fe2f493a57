-- write_fact remembers a fact about the customer that a reference names. It returns the outcome, and
-- the fact that is meant:
--   written    the fact is new
--   beside     the fact is new, and what it was to supersede stays in use: the new one is tainted, and
--              that one is not
--   repeated   the fact is there under this id: the call is a repeat
--   known      a fact in use has the same text
--   changed    the same, and now that one is of the profile, or has superseded the other one
--   customer   there is no such customer, or it was erased
--   fact       what the fact is to supersede is no fact of the customer that is in use
--   full       the customer has p_most facts in use
-- Writes for one customer take turns. Superseded facts make room for new ones, the oldest first.
CREATE OR REPLACE FUNCTION write_fact(p_tenant uuid, p_reference text, p_fact jsonb, p_most integer, p_now timestamptz)
RETURNS TABLE (outcome text, fact uuid, customer uuid)
LANGUAGE plpgsql AS $$
DECLARE
    f     customer_facts := jsonb_populate_record(NULL::customer_facts, p_fact);
    owner uuid;
    known customer_facts; -- one with the same text
    used  integer;
    total integer;
    how   text := 'written';
    old   customer_facts; -- what the fact is to supersede
BEGIN
    owner := lock_customer(p_tenant, p_reference, true);
    IF owner IS NULL THEN
        RETURN QUERY SELECT 'customer'::text, f.id, NULL::uuid;
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM customer_facts o WHERE o.tenant_id = p_tenant AND o.customer = owner AND o.id = f.id) THEN
        RETURN QUERY SELECT 'repeated'::text, f.id, owner;
        RETURN;
    END IF;
    IF f.supersedes IS NOT NULL THEN
        SELECT * INTO old FROM customer_facts o
         WHERE o.tenant_id = p_tenant AND o.customer = owner AND o.id = f.supersedes AND o.superseded_at IS NULL;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 'fact'::text, f.supersedes, owner;
            RETURN;
        END IF;
        -- What others may have made an agent write takes no place of what the tenant or its customer said.
        IF f.tainted AND NOT old.tainted THEN
            how := 'beside';
        END IF;
    END IF;
    SELECT * INTO known FROM customer_facts o
     WHERE o.tenant_id = p_tenant AND o.customer = owner AND o.digest = f.digest AND o.superseded_at IS NULL;
    IF FOUND THEN
        IF f.profile AND NOT f.tainted AND NOT known.profile THEN
            how := 'changed';
            UPDATE customer_facts o SET profile = true, updated_at = p_now WHERE o.tenant_id = p_tenant AND o.customer = owner AND o.id = known.id;
        END IF;
        IF old.id <> known.id AND NOT (known.tainted AND NOT old.tainted) AND how <> 'beside' THEN
            how := 'changed';
            UPDATE customer_facts o SET superseded_by = known.id, superseded_at = p_now, updated_at = p_now
             WHERE o.tenant_id = p_tenant AND o.customer = owner AND o.id = old.id;
        END IF;
        RETURN QUERY SELECT CASE how WHEN 'changed' THEN how ELSE 'known' END, known.id, owner;
        RETURN;
    END IF;
    IF old.id IS NOT NULL AND how = 'written' THEN
        UPDATE customer_facts o SET superseded_by = f.id, superseded_at = p_now, updated_at = p_now
         WHERE o.tenant_id = p_tenant AND o.customer = owner AND o.id = old.id;
    END IF;
    SELECT count(*) FILTER (WHERE o.superseded_at IS NULL), count(*) INTO used, total
      FROM customer_facts o WHERE o.tenant_id = p_tenant AND o.customer = owner;
    IF used >= p_most THEN
        RETURN QUERY SELECT 'full'::text, f.id, owner;
        RETURN;
    END IF;
    IF total >= p_most THEN
        DELETE FROM customer_facts o WHERE o.tenant_id = p_tenant AND o.customer = owner AND o.id IN (
            SELECT s.id FROM customer_facts s WHERE s.tenant_id = p_tenant AND s.customer = owner AND s.superseded_at IS NOT NULL
             ORDER BY s.superseded_at, s.id LIMIT total - p_most + 1);
    END IF;
    INSERT INTO customer_facts (tenant_id, id, customer, body, digest, profile, tainted, source, author, agent_id, session_id, execution_id, supersedes, created_at, updated_at)
        VALUES (p_tenant, f.id, owner, f.body, f.digest, f.profile, f.tainted, f.source, f.author, f.agent_id, f.session_id, f.execution_id, f.supersedes, p_now, p_now);
    RETURN QUERY SELECT how, f.id, owner;
END
$$;
