-- spend_budget counts one write in a budget. It returns false where no stripe has room, and null
-- where the budget is gone.
--
-- While there is ample room it takes a stripe that no other transaction has locked, or else waits for
-- one; each connection begins to look at another one. What is ample cannot be used up before the lock
-- is taken: 64 by those that come between, 1000 by all that wait. Otherwise it waits for the first
-- stripe with room, which may be full when its turn comes: then it goes on to the next one, and keeps
-- the lock. So all that wait then take the stripes in one order, and cannot wait for each other.
CREATE OR REPLACE FUNCTION spend_budget(p_tenant uuid, p_budget uuid, p_month integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    taken integer;
    mine  integer := pg_backend_pid() % 16;
BEGIN
    FOR try IN 1..2 LOOP
        SELECT c.stripe INTO taken FROM budget_counters c
         WHERE c.tenant_id = p_tenant AND c.budget_id = p_budget AND c.month = p_month AND c.used < c.share - 64
         ORDER BY (c.stripe - mine + 16) % 16 LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            SELECT c.stripe INTO taken FROM budget_counters c
             WHERE c.tenant_id = p_tenant AND c.budget_id = p_budget AND c.month = p_month AND c.used < c.share - 1000
             ORDER BY (c.stripe - mine + 16) % 16 LIMIT 1;
        END IF;
        IF NOT FOUND THEN
            SELECT c.stripe INTO taken FROM budget_counters c
             WHERE c.tenant_id = p_tenant AND c.budget_id = p_budget AND c.month = p_month AND c.used < c.share
             ORDER BY c.stripe LIMIT 1 FOR NO KEY UPDATE;
        END IF;
        IF FOUND THEN
            UPDATE budget_counters c SET used = c.used + 1, level = budget_level(c.used + 1, c.share)
             WHERE c.tenant_id = p_tenant AND c.budget_id = p_budget AND c.month = p_month AND c.stripe = taken AND c.used < c.share;
            IF FOUND THEN
                RETURN true;
            END IF;
            CONTINUE; -- the limit was lowered, or the budget removed, meanwhile
        END IF;
        IF EXISTS (SELECT FROM budget_counters c WHERE c.tenant_id = p_tenant AND c.budget_id = p_budget AND c.month = p_month) THEN
            RETURN false;
        END IF;
        IF NOT EXISTS (SELECT FROM budgets b WHERE b.tenant_id = p_tenant AND b.id = p_budget) THEN
            RETURN NULL;
        END IF;
        PERFORM begin_budget_month(p_tenant, p_budget, p_month);
    END LOOP;
    RETURN false;
END
$$;
