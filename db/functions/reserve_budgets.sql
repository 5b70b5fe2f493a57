-- reserve_budgets takes tokens and money of the budgets of a tenant and of a key, all or nothing, and
-- writes the reservation p_id, unless there is no budget. It returns
--   {charged, month}              what was taken, charged is empty where there is no budget
--   {refused, measure, retry_after_ms}   the message for the caller, and which budget has no room
-- A call that could not fit even if all reservations were given back marks the budget as used up:
-- what is used only grows. One that could fit then may try again soon.
CREATE OR REPLACE FUNCTION reserve_budgets(
    p_tenant uuid, p_key uuid, p_id uuid, p_tokens bigint, p_money bigint, p_seconds double precision
) RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
    here integer := budget_month();
    ids  uuid[] := '{}';
    b    record;
    n    bigint;
BEGIN
    BEGIN
        FOR b IN
            SELECT x.id, s.of_key, m.measure FROM (VALUES (p_key, true), (p_tenant, false)) AS s (subject, of_key)
             CROSS JOIN (VALUES ('model_tokens'), ('money_micros')) AS m (measure)
             CROSS JOIN LATERAL (SELECT y.id FROM budgets y WHERE y.tenant_id = p_tenant AND y.measure = m.measure AND y.subject = s.subject OFFSET 0) AS x
             ORDER BY s.of_key DESC, m.measure
        LOOP
            n := CASE b.measure WHEN 'model_tokens' THEN p_tokens ELSE p_money END;
            CONTINUE WHEN n = 0;
            PERFORM begin_budget_month(p_tenant, b.id, here)
              WHERE NOT EXISTS (SELECT FROM budget_counters x WHERE x.tenant_id = p_tenant AND x.budget_id = b.id AND x.month = here AND x.stripe = 0);
            UPDATE budget_counters x SET reserved = x.reserved + n
             WHERE x.tenant_id = p_tenant AND x.budget_id = b.id AND x.month = here AND x.stripe = 0 AND x.used + x.reserved + n <= x.share;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'over budget' USING ERRCODE = 'AR003';
            END IF;
            ids := ids || b.id;
        END LOOP;
    EXCEPTION WHEN SQLSTATE 'AR003' THEN -- undoes what the block has taken
        PERFORM begin_budget_month(p_tenant, b.id, here)
          WHERE NOT EXISTS (SELECT FROM budget_counters x WHERE x.tenant_id = p_tenant AND x.budget_id = b.id AND x.month = here AND x.stripe = 0);
        UPDATE budget_counters x SET level = 2
         WHERE x.tenant_id = p_tenant AND x.budget_id = b.id AND x.month = here AND x.stripe = 0 AND x.used + n > x.share;
        RETURN json_build_object('refused', over_budget_message(b.measure, b.of_key, here), 'measure', b.measure,
                                 'retry_after_ms', CASE WHEN FOUND THEN over_budget_wait(here) ELSE 10000 END);
    END;
    IF ids <> '{}' THEN
        INSERT INTO budget_reservations (id, tenant_id, month, charged, tokens, money, state, until)
            VALUES (p_id, p_tenant, here, ids, p_tokens, p_money, 'open', request_clock() + make_interval(secs => p_seconds));
    END IF;
    RETURN json_build_object('charged', ids, 'month', here);
END
$$;
