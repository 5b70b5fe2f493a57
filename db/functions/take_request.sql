-- take_request counts p_count requests of a subject in the windows of p_minute, where none of
-- them would have more than p_most: {for the minute, for the hour, for the day}. It returns
-- {1 counted or 0 refused, minute, used in it, used in its hour, used in its day}, these
-- requests included. All are counted or none: a refusal changes nothing.
--
-- The row's lock puts all requests of a subject in one order, until the transaction ends. A
-- request that waited for it may find that another one was counted in the next minute: then it
-- counts there too. So the windows only go forward, and none gets one request too many.
-- No request waits longer than a minute (statement_timeout). A row that is further ahead is of
-- a clock that was set back, and begins again.
CREATE OR REPLACE FUNCTION take_request(p_tenant uuid, p_subject text, p_minute integer, p_most integer[], p_count integer) RETURNS integer[]
LANGUAGE plpgsql AS $$
DECLARE
    used integer[];
BEGIN
    IF p_count > least(p_most[1], p_most[2], p_most[3]) THEN
        RETURN 0 || requests_used(p_tenant, p_subject, p_minute);
    END IF;
    LOOP
        UPDATE request_counters r
           SET at     = CASE WHEN r.at = p_minute + 1 THEN r.at ELSE p_minute END,
               minute = CASE WHEN r.at IN (p_minute, p_minute + 1) THEN r.minute + p_count ELSE p_count END,
               hour   = CASE WHEN r.at = p_minute + 1 OR r.at / 60 = p_minute / 60 THEN r.hour + p_count ELSE p_count END,
               day    = CASE WHEN r.at = p_minute + 1 OR r.at / 1440 = p_minute / 1440 THEN r.day + p_count ELSE p_count END
         WHERE r.tenant_id = p_tenant AND r.subject = p_subject
           AND (r.minute <= p_most[1] - p_count OR r.at NOT IN (p_minute, p_minute + 1))
           AND (r.hour <= p_most[2] - p_count OR r.at <> p_minute + 1 AND r.at / 60 <> p_minute / 60)
           AND (r.day <= p_most[3] - p_count OR r.at <> p_minute + 1 AND r.at / 1440 <> p_minute / 1440)
        RETURNING ARRAY[1, r.at, r.minute, r.hour, r.day] INTO used;
        IF FOUND THEN
            RETURN used;
        END IF;
        INSERT INTO request_counters (tenant_id, subject, at, minute, hour, day) VALUES (p_tenant, p_subject, p_minute, p_count, p_count, p_count)
            ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN ARRAY[1, p_minute, p_count, p_count, p_count];
        END IF;
        -- A window may have ended since. Then there is room, and the request tries again.
        used := requests_used(p_tenant, p_subject, p_minute);
        IF used[2] > p_most[1] - p_count OR used[3] > p_most[2] - p_count OR used[4] > p_most[3] - p_count THEN
            RETURN 0 || used;
        END IF;
    END LOOP;
END
$$;
