-- count_request counts p_count authenticated requests of a tenant: in the windows of p_subject,
-- which is keys or people, and where p_own is given also in those of the key p_key. p_own has
-- null for each window in which the key has no limit of its own. p_defaults are the limits of
-- tenants that have set none, p_ceilings the highest that count; see internal/base/rate, which
-- reads the result:
--   {1 counted or 0 refused, now in ms, limits of a minute, an hour, a day,
--    minute, used in it, used in its hour, used in its day
--    [, the same four of the key]}
--
-- It must be the last statement of a transaction that writes nothing else. The row of a tenant
-- is locked until that transaction ends. And the transaction commits without waiting for the
-- disk: a crash of Postgres may lose what was counted in the last second.
CREATE OR REPLACE FUNCTION count_request(
    p_tenant uuid, p_subject text, p_key uuid, p_own integer[], p_defaults integer[], p_ceilings integer[], p_count integer
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    now_ms bigint := floor(extract(epoch FROM request_clock()) * 1000);
    here   integer := now_ms / 60000;
    most   integer[];
    own    integer[];
    used   integer[];
BEGIN
    -- A key that is presented names its tenant.
    PERFORM set_config('app.tenant_id', p_tenant::text, true), set_config('synchronous_commit', 'off', true),
            set_config('plan_cache_mode', 'force_generic_plan', true); -- to plan again costs as much as to count
    SELECT ARRAY[least(coalesce(t.requests_per_minute, p_defaults[1]), p_ceilings[1]),
                 least(coalesce(t.requests_per_hour, p_defaults[2]), p_ceilings[2]),
                 least(coalesce(t.requests_per_day, p_defaults[3]), p_ceilings[3])]
      INTO most FROM tenants t WHERE t.id = p_tenant;
    -- The key's row first: the tenant's, for which most requests wait, is locked for less time.
    IF p_own IS NOT NULL THEN
        own := take_request(p_tenant, p_key::text, here, ARRAY[
            coalesce(p_own[1], 2147483647), coalesce(p_own[2], 2147483647), coalesce(p_own[3], 2147483647)], p_count);
        IF own[1] = 0 THEN
            RETURN ARRAY[0, now_ms] || most::bigint[] || requests_used(p_tenant, p_subject, here)::bigint[] || own[2:]::bigint[];
        END IF;
    END IF;
    used := take_request(p_tenant, p_subject, here, most, p_count);
    IF used[1] = 0 AND own IS NOT NULL THEN
        UPDATE request_counters r SET minute = r.minute - p_count, hour = r.hour - p_count, day = r.day - p_count
         WHERE r.tenant_id = p_tenant AND r.subject = p_key::text
        RETURNING ARRAY[1, r.at, r.minute, r.hour, r.day] INTO own;
    END IF;
    RETURN ARRAY[used[1], now_ms] || most::bigint[] || used[2:]::bigint[] || own[2:]::bigint[];
END
$$;
