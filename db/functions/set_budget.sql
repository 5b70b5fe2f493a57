-- set_budget sets the budget of a tenant or of a key (p_subject), or removes it (p_most is null).
-- What was used in the present month stays, and what remains is divided among the stripes again.
-- Where less remains than nothing, one stripe has all of that: return_write_call fills it first.
-- The row of the tenant is locked before, so no two callers set a budget at once.
CREATE OR REPLACE FUNCTION set_budget(p_tenant uuid, p_subject uuid, p_measure text, p_id uuid, p_most bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    here  integer := budget_month();
    known uuid;
    seen  record;
    n     integer;
    rest  bigint;
BEGIN
    SELECT b.id INTO known FROM budgets b
     WHERE b.tenant_id = p_tenant AND b.measure = p_measure AND b.subject = p_subject FOR UPDATE;
    IF known IS NULL THEN
        INSERT INTO budgets (id, tenant_id, measure, subject, most, since)
            SELECT p_id, p_tenant, p_measure, p_subject, p_most, request_clock() WHERE p_most IS NOT NULL;
        RETURN;
    END IF;
    -- In one order everywhere, and before anything else happens to them.
    PERFORM FROM budget_counters c WHERE c.tenant_id = p_tenant AND c.budget_id = known ORDER BY c.month, c.stripe FOR UPDATE;
    IF p_most IS NULL THEN
        DELETE FROM budgets b WHERE b.tenant_id = p_tenant AND b.id = known;
        RETURN;
    END IF;
    UPDATE budgets b SET most = p_most WHERE b.tenant_id = p_tenant AND b.id = known;
    SELECT count(*) AS stripes, sum(c.used)::bigint AS used, max(c.told) AS told INTO seen
      FROM budget_counters c WHERE c.tenant_id = p_tenant AND c.budget_id = known AND c.month = here;
    IF seen.stripes = 0 THEN
        RETURN;
    END IF;
    n := greatest(seen.stripes, budget_stripes(p_measure, p_most));
    rest := p_most - seen.used;
    INSERT INTO budget_counters (tenant_id, budget_id, month, stripe, share, level, told)
        SELECT p_tenant, known, here, i, 0, 2, seen.told FROM generate_series(seen.stripes, n - 1) AS i;
    UPDATE budget_counters c SET share = c.used + d.part, level = budget_level(c.used, c.used + d.part)
      FROM (SELECT i AS stripe, CASE WHEN rest >= 0 THEN rest / n + (i < rest % n)::integer WHEN i = 0 THEN rest ELSE 0 END AS part
              FROM generate_series(0, n - 1) AS i) AS d
     WHERE c.tenant_id = p_tenant AND c.budget_id = known AND c.month = here AND c.stripe = d.stripe;
END
$$;
