-- name: InsertTestEvent :exec
-- An event for one webhook only.
WITH e AS (INSERT INTO events (id, tenant_id, type, body) VALUES (@id, @tenant_id, @type, @body) RETURNING id, tenant_id, type)
INSERT INTO webhook_deliveries (event_id, webhook_id, tenant_id, type, status, next_at, updated_at)
SELECT e.id, @webhook_id, e.tenant_id, e.type, 'pending', @now::timestamptz, @now::timestamptz FROM e;

-- name: QueueDeliveries :one
-- See db/functions/queue_deliveries.sql.
SELECT q.next::uuid AS next, q.more::boolean AS more, q.soon::boolean AS soon
  FROM queue_deliveries(@after::uuid, @looks::integer, @each::integer, @most::integer, @waiting::integer, @now::timestamptz, @recoverable::timestamptz) AS q;

-- name: WebhooksDue :many
-- Webhooks of all tenants that have deliveries to be attempted for the first time, after an id, in
-- the order of ids. One look-up in an index for each, however many deliveries it has.
WITH RECURSIVE w AS (
    (SELECT d.queue AS webhook_id, d.tenant_id, d.next_at FROM webhook_deliveries d
      WHERE d.queue > @after::uuid ORDER BY d.queue, d.next_at LIMIT 1)
    UNION ALL
    SELECT n.webhook_id, n.tenant_id, n.next_at FROM w CROSS JOIN LATERAL (
        SELECT d.queue AS webhook_id, d.tenant_id, d.next_at FROM webhook_deliveries d
         WHERE d.queue > w.webhook_id ORDER BY d.queue, d.next_at LIMIT 1) n
)
SELECT s.webhook_id::uuid AS webhook_id, s.tenant_id::uuid AS tenant_id, (s.next_at <= @now::timestamptz)::boolean AS due FROM (SELECT * FROM w LIMIT @most) s;

-- name: ClaimDeliveries :many
-- At most so many of each webhook, the ones due longest first. What another process claims at the
-- same moment is left to it. Until lost_at no process claims them again. They are chosen once: a
-- join could choose again for each row that it changes, and then finds other rows.
WITH wanted AS (SELECT unnest(@webhook_ids::uuid[]) AS webhook_id, unnest(@most::integer[]) AS most),
chosen AS MATERIALIZED (
    SELECT c.event_id, c.webhook_id FROM wanted CROSS JOIN LATERAL (
        SELECT x.event_id, x.webhook_id FROM webhook_deliveries x
         WHERE x.queue = wanted.webhook_id AND x.next_at <= @now::timestamptz
         ORDER BY x.next_at LIMIT wanted.most FOR UPDATE SKIP LOCKED) c
),
claimed AS (
    UPDATE webhook_deliveries d SET next_at = @lost_at::timestamptz, first_at = coalesce(d.first_at, @now::timestamptz), updated_at = @now::timestamptz
      FROM chosen c
     WHERE d.event_id = c.event_id AND d.webhook_id = c.webhook_id
    RETURNING d.event_id, d.webhook_id, d.tenant_id, d.type, d.status, d.round, d.attempts, d.first_at
)
SELECT c.event_id, c.webhook_id, c.tenant_id, c.type, c.status, c.round, c.attempts, c.first_at,
       w.url, w.secret, w.previous_secret, w.previous_until, w.enabled, e.body
  FROM claimed c LEFT JOIN webhooks w ON w.id = c.webhook_id LEFT JOIN events e ON e.id = c.event_id;

-- name: ClaimDelivery :one
-- One delivery that its workflow attempts again. No row where it is not due, has ended, or is in
-- another round.
WITH claimed AS (
    UPDATE webhook_deliveries d SET next_at = @lost_at::timestamptz, first_at = coalesce(d.first_at, @now::timestamptz), updated_at = @now::timestamptz
     WHERE d.event_id = @event_id AND d.webhook_id = @webhook_id AND d.tenant_id = @tenant_id AND d.round = @round
       AND d.status IN ('pending', 'retrying') AND d.next_at <= @due::timestamptz
    RETURNING d.event_id, d.webhook_id, d.tenant_id, d.type, d.status, d.round, d.attempts, d.first_at
)
SELECT c.event_id, c.webhook_id, c.tenant_id, c.type, c.status, c.round, c.attempts, c.first_at,
       w.url, w.secret, w.previous_secret, w.previous_until, w.enabled, e.body
  FROM claimed c LEFT JOIN webhooks w ON w.id = c.webhook_id LEFT JOIN events e ON e.id = c.event_id;

-- name: SettleDelivery :exec
UPDATE webhook_deliveries SET status = @status, attempts = @attempts, next_at = sqlc.narg('next_at'), updated_at = @now
 WHERE event_id = @event_id AND webhook_id = @webhook_id AND round = @round AND status IN ('pending', 'retrying');

-- name: InsertAttempt :exec
-- Not where the delivery was erased while the attempt was under way.
INSERT INTO webhook_attempts (event_id, webhook_id, tenant_id, round, attempt, started_at, latency_ms, status_code, error, answer, next_at)
SELECT @event_id, @webhook_id, @tenant_id, @round, @attempt, @started_at, @latency_ms, sqlc.narg('status_code')::integer, sqlc.narg('error')::text, sqlc.narg('answer')::text, sqlc.narg('next_at')::timestamptz
 WHERE EXISTS (SELECT FROM webhook_deliveries d WHERE d.event_id = @event_id AND d.webhook_id = @webhook_id)
ON CONFLICT DO NOTHING;

-- name: GetDelivery :one
SELECT event_id, type, status, round, attempts, next_at, updated_at FROM webhook_deliveries
 WHERE tenant_id = @tenant_id AND webhook_id = @webhook_id AND event_id = @event_id;

-- name: ListDeliveries :many
-- Those of the newest events first.
SELECT event_id, type, status, round, attempts, next_at, updated_at FROM webhook_deliveries
 WHERE tenant_id = @tenant_id AND webhook_id = @webhook_id
   AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
   AND (sqlc.narg('before')::uuid IS NULL OR event_id < sqlc.narg('before'))
 ORDER BY event_id DESC LIMIT @n;

-- name: DeliveriesOfEvents :many
SELECT d.event_id, d.webhook_id, d.type, d.status, d.round, d.attempts, d.next_at, d.updated_at
  FROM unnest(@event_ids::uuid[]) AS wanted (event_id) CROSS JOIN LATERAL (
       SELECT * FROM webhook_deliveries x WHERE x.event_id = wanted.event_id AND x.tenant_id = @tenant_id) d
 ORDER BY d.event_id, d.webhook_id;

-- name: ListAttempts :many
-- The newest of each delivery first.
SELECT a.event_id, a.round, a.attempt, a.started_at, a.latency_ms, a.status_code, a.error, a.answer, a.next_at
  FROM unnest(@event_ids::uuid[]) AS wanted (event_id) CROSS JOIN LATERAL (
       SELECT * FROM webhook_attempts x WHERE x.event_id = wanted.event_id AND x.webhook_id = @webhook_id AND x.tenant_id = @tenant_id
        ORDER BY x.round DESC, x.attempt DESC LIMIT @n) a;

-- name: RedeliverOne :one
-- No row where it is under way. One whose attempt is overdue since @overdue has lost its workflow.
UPDATE webhook_deliveries SET status = 'pending', round = round + 1, attempts = 0, first_at = NULL, next_at = @now::timestamptz, updated_at = @now::timestamptz
 WHERE tenant_id = @tenant_id AND webhook_id = @webhook_id AND event_id = @event_id AND round < @most_rounds
   AND (status IN ('delivered', 'failed', 'cancelled') OR status = 'retrying' AND next_at < @overdue::timestamptz)
RETURNING event_id, type, status, round, attempts, next_at, updated_at;

-- name: RecoverDeliveries :execrows
-- The oldest that failed or were cancelled, of events since an id.
UPDATE webhook_deliveries AS again SET status = 'pending', round = again.round + 1, attempts = 0, first_at = NULL, next_at = @now::timestamptz, updated_at = @now::timestamptz
 WHERE again.webhook_id = @webhook_id AND again.event_id = ANY (ARRAY(
       SELECT d.event_id FROM webhook_deliveries d
        WHERE d.tenant_id = @tenant_id AND d.webhook_id = @webhook_id AND d.event_id >= @since AND d.status IN ('failed', 'cancelled') AND d.round < @most_rounds
        ORDER BY d.event_id LIMIT @most FOR UPDATE SKIP LOCKED))
   AND again.tenant_id = @tenant_id;

-- name: ForgetDeliveries :execrows
-- The oldest of all tenants.
DELETE FROM webhook_deliveries WHERE (event_id, webhook_id) IN (
    SELECT d.event_id, d.webhook_id FROM webhook_deliveries d WHERE d.event_id < @before::uuid ORDER BY d.event_id, d.webhook_id LIMIT @most);

-- name: ForgetAttempts :execrows
DELETE FROM webhook_attempts WHERE (event_id, webhook_id, round, attempt) IN (
    SELECT a.event_id, a.webhook_id, a.round, a.attempt FROM webhook_attempts a
     WHERE a.event_id < @before::uuid ORDER BY a.event_id, a.webhook_id, a.round, a.attempt LIMIT @most);
