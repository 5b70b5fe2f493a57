-- name: GetRateLimits :one
-- The tenant's limits as it has set them, and what the keys have used of the present windows:
-- see db/functions/requests_used.sql. And the worst state of the circuits to its providers.
SELECT t.requests_per_minute, t.requests_per_hour, t.requests_per_day,
       requests_used(t.id, 'keys', floor(extract(epoch FROM request_clock()) / 60)::integer)::integer[] AS used,
       coalesce((SELECT CASE WHEN bool_or(c.state = 'open') THEN 'open' WHEN bool_or(c.state = 'half_open') THEN 'half_open' END
                   FROM circuits c WHERE c.tenant_id = t.id AND c.state <> 'closed'), 'closed')::text AS circuit_state
  FROM tenants t WHERE t.id = $1;

-- name: LockRateLimits :one
SELECT t.requests_per_minute, t.requests_per_hour, t.requests_per_day FROM tenants t WHERE t.id = $1 FOR NO KEY UPDATE;

-- name: SetRateLimits :exec
UPDATE tenants SET requests_per_minute = @requests_per_minute, requests_per_hour = @requests_per_hour, requests_per_day = @requests_per_day
 WHERE id = @id;

-- name: ForgetRequests :execrows
-- Of all tenants, at most @most of the rows whose day is over. It waits for no row: one that is
-- being changed belongs to a request of today.
DELETE FROM request_counters AS gone WHERE (gone.tenant_id, gone.subject) IN (
    SELECT old.tenant_id, old.subject FROM request_counters AS old
     WHERE old.at < @before ORDER BY old.at LIMIT @most FOR UPDATE SKIP LOCKED
);

-- name: MarkExceeded :execrows
-- Notes that the tenant is told of a full window. It changes nothing where it was told already.
UPDATE request_counters r
   SET told_minute = CASE @window_name::text WHEN 'minute' THEN @number ELSE r.told_minute END,
       told_hour   = CASE @window_name WHEN 'hour' THEN @number ELSE r.told_hour END,
       told_day    = CASE @window_name WHEN 'day' THEN @number ELSE r.told_day END
 WHERE r.tenant_id = @tenant_id AND r.subject = @subject
   AND CASE @window_name WHEN 'minute' THEN r.told_minute WHEN 'hour' THEN r.told_hour ELSE r.told_day END < @number::integer;
