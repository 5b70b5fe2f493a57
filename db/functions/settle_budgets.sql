-- settle_budgets ends a reservation as p_as (settled, released, lapsed) and counts what was used.
-- A repeat changes nothing. What a worker has used counts also where its lease was over before. It
-- returns whether it has ended the reservation.
CREATE OR REPLACE FUNCTION settle_budgets(p_tenant uuid, p_id uuid, p_tokens bigint, p_money bigint, p_as text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    r    budget_reservations;
    b    record;
BEGIN
    SELECT * INTO r FROM budget_reservations x WHERE x.tenant_id = p_tenant AND x.id = p_id FOR UPDATE;
    IF r.id IS NULL OR r.state IN ('settled', 'released') OR p_as = 'lapsed' AND (r.state <> 'open' OR r.until > request_clock()) THEN
        RETURN false;
    END IF;
    FOR b IN
        SELECT x.id, CASE x.measure WHEN 'model_tokens' THEN p_tokens ELSE p_money END AS used,
               CASE WHEN r.state <> 'open' THEN 0 WHEN x.measure = 'model_tokens' THEN r.tokens ELSE r.money END AS taken
          FROM unnest(r.charged) WITH ORDINALITY AS c (id, place) -- in the order in which they were taken
         CROSS JOIN LATERAL (SELECT y.id, y.measure FROM budgets y WHERE y.tenant_id = p_tenant AND y.id = c.id OFFSET 0) AS x
         ORDER BY c.place
    LOOP
        UPDATE budget_counters c
           SET reserved = c.reserved - b.taken, used = c.used + b.used, level = greatest(c.level, budget_level(c.used + b.used, c.share))
         WHERE c.tenant_id = p_tenant AND c.budget_id = b.id AND c.month = r.month AND c.stripe = 0;
    END LOOP;
    UPDATE budget_reservations x SET state = p_as WHERE x.tenant_id = p_tenant AND x.id = p_id;
    RETURN true;
END
$$;
