-- requests_used returns {minute, used in it, used in its hour, used in its day} of a subject.
-- The minute counts from 1970 in UTC. It is p_minute, or the next one where another request
-- was counted in that one already; see take_request.
CREATE OR REPLACE FUNCTION requests_used(p_tenant uuid, p_subject text, p_minute integer) RETURNS integer[]
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce((
        SELECT CASE WHEN r.at = p_minute + 1 THEN ARRAY[r.at, r.minute, r.hour, r.day]
               ELSE ARRAY[p_minute,
                          CASE WHEN r.at = p_minute THEN r.minute ELSE 0 END,
                          CASE WHEN r.at / 60 = p_minute / 60 THEN r.hour ELSE 0 END,
                          CASE WHEN r.at / 1440 = p_minute / 1440 THEN r.day ELSE 0 END] END
          FROM request_counters r WHERE r.tenant_id = p_tenant AND r.subject = p_subject),
        ARRAY[p_minute, 0, 0, 0])
$$;
